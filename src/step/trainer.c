/* trainer.c - runs a compiled step: feed, run `micro`, accumulate, run `update`, and wait once for all of it.
 * Nothing here allocates. parameters.c has the parameters by name, state.c saving and loading. */
#include "trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "comm/axes.h"
#include "comm/group_calls.h"

/* Exchanges requests and losses with the other ranks. Each rank sends its request and its losses; t->loss_of
 * gets those of all micro-batches in order. */
static ls_status exchange(ls_trainer *t)
{
    const ls_compiled *c = &t->compiled;
    t->requested = t->request;
    if (!t->group)
        return LS_OK;
    const int64_t count = c->share.count * t->losses;
    const int ranks = ls_group_size(t->group);
    double *out = t->exchange, *in = out + 1 + count;
    out[0] = t->request;
    memcpy(out + 1, t->loss_of, sizeof(double) * (size_t)count);
    ls_status s = ls_group_all_gather_same(t->group, out, sizeof(double) * (size_t)(1 + count), in);
    for (int r = 0; r < ranks && s == LS_OK; r++) {
        ls_parallel p = c->parallel;
        ls_share share;
        p.rank = r;
        s = ls_parallel_share(&share, &p, c->micro_batches);
        t->requested |= (uint32_t)in[(1 + count) * r];
        if (!ls_mesh_has_results(&c->parallel.mesh, r))
            continue;
        for (int64_t k = 0; k < share.count && s == LS_OK; k++)
            memcpy(t->loss_of + (share.first + k * share.stride) * t->losses,
                   in + (1 + count) * r + 1 + k * t->losses, sizeof(double) * (size_t)t->losses);
    }
    return s;
}

/* All ranks get the same status if they pass the same arguments. */
ls_status ls_trainer_check_step(const ls_trainer *t, double lr, const char *call)
{
    if (!t->compiled.plans[LS_MICRO])
        return ls_fail(LS_E_ARG, "this trainer was made for evaluation only");
    LS_TRY(ls_trainer_needs_weights(t, call));
    LS_TRY(ls_trainer_needs_parameters(t, call));
    if (!(lr >= 0) || isinf(lr))
        return ls_fail(LS_E_ARG,
                       "a step's learning rate is %g: it must be a number from 0 on; look at the schedule",
                       lr);
    return LS_OK;
}

/* The smallest loss scale for f16. Below it small gradients are lost. Gradients that overflow even with this
 * scale mean that training has diverged. */
static const double LOWEST_SCALE = 1;

static ls_status check_scale(const ls_step_result *r)
{
    if (r->skip != LS_SKIP_OVERFLOW || r->loss_scale >= LOWEST_SCALE)
        return LS_OK;
    return ls_fail(LS_E_NUMERIC,
                   "the gradients overflow f16 even with a loss scale of %g, so every step would be skipped: "
                   "training has diverged, or its numbers are too "
                   "large for f16 (a lower learning rate, clipping, or bf16 or f32 in place of f16)",
                   2 * r->loss_scale);
}

static bool losses_finite(const ls_trainer *t)
{
    for (int64_t m = 0; m < t->compiled.micro_batches; m++)
        /* (also with f16, whose loss scale multiplies only gradients) */
        if (!isfinite(t->loss_of[m * t->losses]))
            return false;
    return true;
}

/* Puts this rank's micro-batches, and the sums of their gradients, into the queue. */
static ls_status run_micro_batches(ls_trainer *t)
{
    const ls_compiled *c = &t->compiled;
    ls_trainer_undo_keep(t);
    ls_session_clear(&t->largest_loss);
    for (int i = 0; i < c->units.trained; i++)
        ls_tree_begin(&t->trees[i]);
    for (int64_t k = 0; k < c->share.count; k += c->unrolled) {
        LS_TRY(ls_trainer_micro(t, k));
        for (int i = 0; i < c->units.trained; i++)
            ls_tree_add(&t->trees[i], k + c->unrolled == c->share.count);
    }
    t->buffers_moved = t->n_buffers > 0;
    return LS_OK;
}

/* Puts `update` into the queue. At that time only the device knows whether a loss is finite: if not,
 * `update` changes nothing. */
static ls_status run_update(ls_trainer *t, double lr)
{
    t->last_lr = lr;
    LS_TRY(ls_put_number(&t->lr, &t->of_update.lr, lr));
    LS_TRY(ls_trainer_program(t, LS_UPDATE));
    if (ls_place_present(&t->grad_norm))
        LS_TRY(ls_fetch_number(&t->grad_norm, &t->of_update.grad_norm));
    return ls_place_present(&t->applied)
               ? ls_session_fetch(&t->applied, &t->of_update.applied, sizeof t->of_update.applied)
               : LS_OK;
}

/* Puts all work of a step into the queue, and waits for it. The losses of this rank's micro-batches are then
 * in t->loss_of. */
static ls_status trainer_run(ls_trainer *t, double lr, bool nothing)
{
    if (ls_place_present(&t->loss_scale))
        LS_TRY(ls_fetch_number(&t->loss_scale, &t->of_update.scale_before));
    if (!nothing) {
        LS_TRY(run_micro_batches(t));
        LS_TRY(run_update(t, lr));
    }
    if (ls_place_present(&t->loss_scale))
        LS_TRY(ls_fetch_number(&t->loss_scale, &t->of_update.loss_scale));
    LS_TRY(ls_session_wait(t->session));
    for (int64_t k = 0; k < t->compiled.share.count && !nothing; k++)
        for (int i = 0; i < t->losses; i++)
            t->loss_of[k * t->losses + i] = ls_number_of(&t->loss[k % t->compiled.unrolled * t->losses + i],
                                                         &t->micro[k].loss[i]);
    return LS_OK;
}

/* The reason why the step changed nothing. The same on all ranks. */
static ls_skip why_skipped(const ls_trainer *t, bool nothing)
{
    if (nothing)
        return LS_SKIP_NOTHING;
    if (!losses_finite(t))
        return LS_SKIP_LOSS;
    if (t->of_update.applied)
        return LS_SKIP_NONE;
    return t->compiled.loss_scaling ? LS_SKIP_OVERFLOW : LS_SKIP_GRADIENT;
}

/* Handles a step with a number that was not finite: puts back the changed values, and counts the step. After
 * an overflow of f16 the loss scale stays smaller and running statistics stay as they have moved, as with
 * PyTorch's GradScaler. */
static ls_status trainer_refuse(ls_trainer *t, const ls_step_result *r)
{
    const ls_compiled *c = &t->compiled;
    t->skips++;
    if (r->skip == LS_SKIP_OVERFLOW)
        return check_scale(r);
    ls_trainer_undo(t);
    t->bad_skips++;
    if (c->nonfinite == LS_NONFINITE_SKIP && t->bad_skips < c->max_skips)
        return LS_OK;
    const ls_status s = ls_trainer_explain(t, r->skip);
    return s != LS_E_NUMERIC || c->nonfinite == LS_NONFINITE_STOP
               ? s
               : ls_fail(s, "%s; it is step %lld in a row that was skipped, and max_skips is %lld",
                         ls_error_message(), (long long)t->bad_skips, (long long)c->max_skips);
}

/* The sum, over the step's micro-batches, of loss number i. */
static double loss_sum(ls_trainer *t, int i)
{
    const ls_compiled *c = &t->compiled;
    double *one = t->exchange; /* free, because its message has arrived */
    if (t->losses == 1)
        one = t->loss_of;
    for (int64_t m = 0; m < c->micro_batches && t->losses > 1; m++)
        one[m] = t->loss_of[m * t->losses + i];
    return ls_tree_sum(one, c->micro_batches, c->accumulation == LS_SUM_RUNNING);
}

/* Fills the result. A loss without any count is NaN. */
static void result(ls_trainer *t, ls_step_result *r, bool nothing)
{
    const ls_objective *o = &t->compiled.objective;
    bool targets = o->terms[0].weigh == LS_BY_VALID; /* others, as of experts, are of whole samples */
    for (int i = 1; i < o->n_losses; i++)
        targets = targets && o->terms[i].weigh == LS_BY_SAMPLE;
    r->loss = nothing ? NAN : loss_sum(t, 0);
    r->count = nothing ? 0 : targets ? (int64_t)t->total[0] : t->samples;
    for (int i = 1; i < t->losses; i++)
        t->each[i - 1] = (ls_metric){ o->terms[i - 1].name, t->total[i - 1] > 0 ? loss_sum(t, i) : NAN };
    r->n_losses = t->losses - 1;
    r->losses = r->n_losses ? t->each : NULL;
}

ls_status ls_trainer_check_whole(const ls_trainer *t, int64_t samples, int64_t room)
{
    const int64_t batch = t->compiled.micro_batch;
    return t->compiled.padding || samples == room
               ? LS_OK
               : ls_fail(LS_E_ARG,
                         "a micro-batch of %lld of %lld samples must be padded, for which the trainer was "
                         "not made: say .padding = true",
                         (long long)(samples % batch), (long long)batch);
}

/* Runs one step on the samples that were fed. */
static ls_status step(ls_trainer *t, int64_t samples, double lr, ls_step_result *r)
{
    const ls_compiled *c = &t->compiled;
    const double start = ls_now();
    bool nothing;
    char label[48];
    snprintf(label, sizeof label, "step %lld", (long long)++t->step_number);
    ls_session_label(t->session, label);
    if (samples >= 0) /* also on ranks whose own micro-batches are whole */
        LS_TRY(ls_trainer_check_whole(t, samples, c->micro_batch * c->micro_batches));
    LS_TRY(ls_trainer_divisors(t, samples, &nothing));
    memset(t->loss_of, 0, sizeof *t->loss_of * (size_t)(c->micro_batches * t->losses));
    LS_TRY(trainer_run(t, lr, nothing));
    LS_TRY(exchange(t));
    const ls_skip skip = why_skipped(t, nothing);
    *r = (ls_step_result){ .grad_norm = -1, .skipped = skip != LS_SKIP_NONE, .skip = skip };
    if (c->clipping && skip != LS_SKIP_NOTHING && skip != LS_SKIP_LOSS)
        r->grad_norm = ls_number_of(&t->grad_norm, &t->of_update.grad_norm);
    if (c->loss_scaling)
        r->loss_scale = ls_number_of(&t->loss_scale, skip == LS_SKIP_LOSS ? &t->of_update.scale_before
                                                                          : &t->of_update.loss_scale);
    result(t, r, nothing);
    ls_status s = LS_OK;
    if (skip == LS_SKIP_NONE)
        t->skips = t->bad_skips = 0;
    else if (skip != LS_SKIP_NOTHING)
        s = trainer_refuse(t, r);
    r->seconds = ls_now() - start;
    return s;
}

/* Waits after a failure, because the queue may still read the caller's memory. If a task failed in the
 * queue, its failure is the cause. */
static ls_status settle(ls_trainer *t, ls_status s)
{
    const ls_status rest = s == LS_OK ? LS_OK : ls_session_wait(t->session);
    ls_trainer_unfeed(t);
    return rest == LS_OK ? s : rest;
}

ls_status ls_trainer_step_fed(ls_trainer *t, int64_t samples, double lr, ls_step_result *r)
{
    return settle(t, step(t, samples, lr, r));
}

ls_status ls_trainer_eval_fed(ls_trainer *t)
{
    LS_TRY(ls_trainer_needs_weights(t, "ls_trainer_eval"));
    LS_TRY(ls_trainer_share_buffers(t));
    ls_status s = ls_trainer_fill(t, -1);
    if (s == LS_OK)
        s = ls_trainer_program(t, LS_EVAL);
    return settle(t, s);
}
