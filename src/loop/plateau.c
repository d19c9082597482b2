/* plateau.c - see plateau.h. */
#include "plateau.h"

#include <math.h>

#include "recipe/optim_row.h"

static double rate(const ls_recipe *r, int64_t cuts)
{
    ls_schedule s = ls_recipe_schedule(r);
    s.warmup_steps = 0;
    s.cuts = cuts;
    return ls_schedule_rate(&s, r->optimizer.lr, 0);
}

bool ls_plateau_note(ls_run_metrics *m, const ls_recipe *r, bool measured, double value)
{
    if (r->schedule.type != LS_SCHED_PLATEAU || !measured)
        return false;
    const double t = r->schedule.threshold, best = m->plateau_value;
    const bool better = r->checkpoint.best.mode == LS_MODE_MIN ? value < best * (1 - t)
                                                               : value > best * (1 + t);
    if (better || (isnan(best) && !isnan(value))) {
        m->plateau_value = value;
        m->plateau_waited = 0;
        return false;
    }
    if (++m->plateau_waited <= r->schedule.patience)
        return false;
    m->plateau_waited = 0;
    if (rate(r, m->plateau_cuts) - rate(r, m->plateau_cuts + 1) <= 1e-8) /* PyTorch's eps */
        return false;
    m->plateau_cuts++;
    return true;
}
