/* skips.c - see skips.h. */
#include "skips.h"

#include <stdio.h>

#include "base/c_locale.h"
#include "base/log.h"

ls_status ls_skips_failed(ls_loop *l, ls_status s, int64_t epoch, const ls_step_result *r)
{
    char message[2048];
    ls_fail_in(s, "step %lld (epoch %lld)", (long long)(l->step + 1), (long long)epoch);
    if (s != LS_E_NUMERIC || r->skip < LS_SKIP_OVERFLOW)
        return s;
    snprintf(message, sizeof message, "%s", ls_error_message());
    /* all ranks are here */
    if (ls_snapshots_finish(&l->snapshots, l->run) != LS_OK)
        ls_log_warn("%s", ls_error_message());
    const bool saved = ls_resume_newest(l->snapshots.dir) >= 0;
    return ls_fail(s, "%s. This step changed no weight. %s%s%s%s", message,
                   saved ? "The next start continues from the last checkpoint, " : "Nothing is saved yet",
                   saved ? l->snapshots.dir : "", saved ? "/latest" : "",
                   r->skip == LS_SKIP_OVERFLOW || l->recipe->train.nonfinite == LS_NONFINITE_SKIP
                       ? ""
                       : "; with the same settings it comes here again; train.nonfinite: skip leaves such "
                         "steps out");
}

void ls_skips_note(ls_loop *l, int64_t epoch, const ls_step_result *r)
{
    if (r->skip < LS_SKIP_LOSS)
        return;
    l->run->metrics.nonfinite_steps++;
    ls_log_warn("step %lld (epoch %lld) is skipped: its %s is not finite; %lld in a row, train.max_skips "
                "%lld",
                (long long)l->step, (long long)epoch, ls_skip_name(r->skip), (long long)l->trainer->bad_skips,
                (long long)l->recipe->train.max_skips);
}

ls_status ls_skips_end(const ls_loop *l)
{
    const ls_trainer *t = l->trainer;
    int64_t applied;
    double scale;
    char why[200];
    LS_TRY(ls_session_read(&t->step, &applied, sizeof applied));
    const bool never = l->step > 0 && applied == 0;
    if (!never && t->skips < l->recipe->train.max_skips)
        return LS_OK;
    if (t->skips > t->bad_skips) {
        LS_TRY(ls_get_scalar(&t->loss_scale, &scale));
        ls_snprintf(
            why, sizeof why,
            "the gradients overflowed f16, and the loss scale has only come down to %g "
            "(precision.scaler.init; a lower learning rate, clipping, or bf16 or f32 in place of f16)",
            scale);
    } else
        snprintf(why, sizeof why, "%s",
                 t->skips ? "their loss or gradient was not finite" : "no target of them counts");
    if (never)
        return ls_fail(LS_E_NUMERIC, "none of the %lld steps changed a weight: %s", (long long)l->step, why);
    return ls_fail(LS_E_NUMERIC, "the last %lld of %lld steps changed no weight: %s", (long long)t->skips,
                   (long long)l->step, why);
}
