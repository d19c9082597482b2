/* digests.c - see digests.h. Copies are compared before every save, so every checkpoint of the run has the
 * state on which the ranks agreed, and a restart continues from before the fault. */
#include "digests.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "comm/agree.h"
#include "comm/fault.h"
#include "record/metrics.h"
#include "step/replicas.h"

/* The checkpoint that a restart takes: one that is not complete yet will not be. */
static ls_status report(const ls_loop *l, const char *what)
{
    const int64_t saved = l->snapshots.latest;
    char from[512] = "no checkpoint was saved before: start again from the beginning";
    if (saved > 0 && !ls_snapshots_are_busy(&l->snapshots))
        snprintf(from, sizeof from,
                 "continue from step %" PRId64 ", %.300s/latest, whose copies were compared before the save",
                 saved, l->snapshots.dir);
    else if (saved > 0 || l->from.step > 0)
        snprintf(from, sizeof from,
                 "continue from the last checkpoint, whose copies were compared before the save");
    return ls_fail(LS_E_DEVICE,
                   "after step %" PRId64 " %s: memory or arithmetic was wrong without a report (silent data "
                   "corruption). All copies were last the same after step %" PRId64 "; %s",
                   l->step, what, l->compared, from);
}

ls_status ls_loop_digests(ls_loop *l, int64_t epoch, bool saves)
{
    const int64_t every = l->recipe->failure.digest_every;
    uint64_t which;
    ls_replicas r;
    if (!saves && ls_fault_flips(l->group, &which))
        LS_TRY(ls_trainer_flip(l->trainer, which));
    if (every <= 0 || l->compared == l->step || (!saves && l->step % every))
        return LS_OK;
    const double began = ls_now();
    LS_TRY(ls_trainer_compare_replicas(l->trainer, &r));
    if (r.differ)
        return ls_ranks_agree(l->group, ls_group_rank(l->group) == r.reporter ? report(l, r.what) : LS_OK);
    l->compared = l->step;
    char model[17], optimizer[17];
    snprintf(model, sizeof model, "%016" PRIx64, r.model);
    snprintf(optimizer, sizeof optimizer, "%016" PRIx64, r.optimizer);
    return ls_metrics_digest(l->run, &(ls_digest_row){ .step = l->step,
                                                       .epoch = epoch,
                                                       .model = model,
                                                       .optimizer = optimizer,
                                                       .seconds = ls_now() - began });
}
