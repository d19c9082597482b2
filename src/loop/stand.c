/* stand.c - see stand.h. */
#include "stand.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "comm/axes.h"
#include "comm/comm.h"
#include "comm/group_calls.h"
#include "comm/launched.h"
#include "digests.h"
#include "record/heartbeat.h"
#include "record/next_attempt.h"

ls_epoch_sum ls_epoch_begin(void)
{
    const double now = ls_now();
    return (ls_epoch_sum){ .start = now, .began = now, .processors = ls_processor_seconds() };
}

ls_status ls_epoch_replaced(int64_t *out, const ls_loop *l, const ls_epoch_sum *sum)
{
    *out = sum->replaced_before;
    if (l->recipe->data.on_error != LS_ON_ERROR_SKIP)
        return LS_OK;
    if (!l->group) {
        *out += sum->replaced;
        return LS_OK;
    }
    const ls_mesh *mesh = &l->trainer->compiled.parallel.mesh;
    int64_t *all;
    LS_TRY(ls_group_all_gather_new(l->group, &sum->replaced, sizeof *all, (void **)&all));
    for (int r = 0; r < ls_group_size(l->group); r++)
        if (ls_mesh_has_results(mesh, r))
            *out += all[r]; /* the others read the same samples */
    free(all);
    return LS_OK;
}

void ls_loop_beat(const ls_loop *l, const char *doing, bool now)
{
    ls_heartbeat h = { .ranks = l->group ? ls_group_size(l->group) : 1,
                       .step = l->step,
                       .steps = l->total_steps,
                       .from = l->from.step,
                       .start = l->run->startup.total,
                       .seconds = ls_now() - l->began,
                       .waited = ls_session_ledger(l->trainer->session).waited,
                       .planned = (int64_t)l->planned };
    snprintf(h.doing, sizeof h.doing, "%s", doing);
    ls_heartbeat_write(l->run, &h, now);
}

ls_status ls_loop_save(ls_loop *l, const ls_epoch_sum *sum, int64_t epoch, const ls_epoch_row *ended,
                       bool best)
{
    ls_resume_point at = { .step = l->step,
                           .epoch = ls_resume_epoch(&l->from, l->step),
                           .epoch_step = ls_resume_epoch_step(&l->from, l->step),
                           .steps_per_epoch = l->steps_per_epoch,
                           .base_step = l->from.base_step,
                           .base_epoch = l->from.base_epoch,
                           .base = l->from.base,
                           .metrics = l->run->metrics,
                           .evaluated = l->run->eval,
                           .ended = ended,
                           .train = l->train,
                           .eval = l->eval };
    LS_TRY(ls_loop_digests(l, epoch, true));
    if (sum->ending) {
        at.epoch = epoch;
        at.epoch_step = sum->ending;
    }
    if (at.epoch_step > 0) {
        LS_TRY(ls_epoch_replaced(&at.sums.replaced, l, sum));
        at.sums.loss = sum->loss;
        at.sums.samples = sum->samples;
        at.sums.count = sum->count;
        at.sums.skipped = sum->skipped;
        at.sums.seconds = ls_now() - sum->start;
    }
    return ls_snapshot_save(&l->snapshots, l->trainer, l->recipe, l->run, &at, epoch, best);
}

bool ls_loop_saves(const ls_loop *l) { return l->recipe->checkpoint.every_epochs >= 0; }

/* Requests are answered before the first step of an attempt only in the evaluation with which it begins. */
static const char *where(const ls_loop *l, const ls_epoch_sum *sum)
{
    return sum->ending || l->step == l->from.step ? " in the evaluation" : "";
}

/* Answers requests in a run that saves nothing (checkpoint.every_epochs: -1). */
static ls_status answer_unsaved(ls_loop *l, const ls_epoch_sum *sum, uint32_t asked)
{
    char reason[128];
    ls_requests_answered(&l->requests);
    if (!(asked & (LS_REQUEST_STOP | LS_REQUEST_TIME))) {
        ls_log_warn("nothing is saved on request: checkpoint.every_epochs is -1");
        return LS_OK;
    }
    LS_TRY(ls_rundir_save_result(l->run, LS_RUN_STOPPING, NULL));
    ls_requests_reason(reason, &l->requests, asked);
    return ls_fail(LS_E_STOPPED,
                   "stopped%s after step %lld of %lld %s; nothing is saved, because checkpoint.every_epochs "
                   "is -1: the next start begins with step 1",
                   where(l, sum), (long long)l->step, (long long)l->total_steps, reason);
}

/* Whether the parent of the ranks asks them to stop, because it starts them again at once (`next`). A limit
 * of time and --until end the command all the same. */
static bool goes_on(const ls_loop *l, uint32_t asked, char next[LS_NEXT_BYTES])
{
    return !(asked & LS_REQUEST_TIME) && l->step != l->until && !l->run->rank && ls_launch_watched() &&
           ls_next_attempt_hear(next, l->run->path);
}

ls_status ls_loop_answer(ls_loop *l, const ls_epoch_sum *sum, int64_t epoch, uint32_t asked)
{
    char reason[128], next[LS_NEXT_BYTES];
    const bool stop = asked & (LS_REQUEST_STOP | LS_REQUEST_TIME);
    if (!stop && !(asked & LS_REQUEST_SAVE))
        return LS_OK;
    if (!ls_loop_saves(l))
        return answer_unsaved(l, sum, asked);
    if (stop)
        LS_TRY(ls_rundir_save_result(l->run, LS_RUN_STOPPING, NULL));
    bool there = false; /* a stop in the evaluation with which this attempt began */
    if (l->step == l->from.step)
        LS_TRY(ls_snapshots_began_here(&l->snapshots, l->group, &there));
    if (!there)
        LS_TRY(ls_loop_save(l, sum, epoch, NULL, false));
    LS_TRY(ls_snapshots_finish(&l->snapshots, l->run));
    ls_requests_answered(&l->requests);
    if (!stop) {
        ls_log_info("saved after step %lld of %lld on request: %s/latest", (long long)l->step,
                    (long long)l->total_steps, l->snapshots.dir);
        return LS_OK;
    }
    if (goes_on(l, asked, next))
        return ls_fail(LS_E_STOPPED,
                       "stopped%s after step %lld of %lld to go on with %s; everything is saved in %s/latest",
                       where(l, sum), (long long)l->step, (long long)l->total_steps, next, l->snapshots.dir);
    ls_requests_reason(reason, &l->requests, asked);
    return ls_fail(
        LS_E_STOPPED,
        "stopped%s after step %lld of %lld %s; everything is saved in %s/latest: start it again to continue",
        where(l, sum), (long long)l->step, (long long)l->total_steps, reason, l->snapshots.dir);
}
