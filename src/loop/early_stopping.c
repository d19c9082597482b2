/* early_stopping.c - see early_stopping.h. As in Lightning and Keras, a value counts as better only if it
 * differs from the best one by more than min_delta. An undefined value is never better, so a metric that
 * stays undefined ends training, too. */
#include "early_stopping.h"
#include "base/c_locale.h"

#include <math.h>
#include <stdio.h>

void ls_early_stopping_note(ls_run_metrics *m, const ls_recipe *r, bool measured, double value)
{
    const double gain = r->checkpoint.best.mode == LS_MODE_MIN ? m->stop_value - value
                                                               : value - m->stop_value;
    if (!r->train.early_stopping.patience || !measured)
        return;
    if ((isnan(m->stop_value) && !isnan(value)) || gain > r->train.early_stopping.min_delta) {
        m->stop_value = value;
        m->stop_waited = 0;
    } else {
        m->stop_waited++;
    }
}

bool ls_early_stopping_due(const ls_run_metrics *m, const ls_recipe *r)
{
    return r->train.early_stopping.patience && m->stop_waited >= r->train.early_stopping.patience;
}

void ls_early_stopping_text(char *out, size_t size, const ls_run_metrics *m, const ls_recipe *r)
{
    char by[48] = "";
    if (isnan(m->stop_value)) {
        snprintf(out, size, "early stopping: %s has been undefined for %lld epoch%s",
                 r->checkpoint.best.metric, (long long)m->stop_waited, m->stop_waited == 1 ? "" : "s");
        return;
    }
    if (r->train.early_stopping.min_delta > 0)
        ls_snprintf(by, sizeof by, " by more than %g", r->train.early_stopping.min_delta);
    ls_snprintf(out, size, "early stopping: %s has not improved%s for %lld epoch%s; the best value is %.6g",
             r->checkpoint.best.metric, by, (long long)m->stop_waited, m->stop_waited == 1 ? "" : "s",
             m->stop_value);
}
