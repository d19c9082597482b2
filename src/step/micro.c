/* micro.c - runs the program `micro` of a step. After a step with a number that is not finite it runs
 * `micro` again to find the op where that number arose.
 *
 * The second run computes the same: the failed step has changed no weights, and buffers do not move in the
 * second run (`track` is 0). All ranks run the micro-batch of the same index, because `micro` has
 * collectives, and all have the message of the rank that met a bad number first. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/group_calls.h"
#include "trainer.h"

static size_t number_bytes(const ls_place *p)
{
    return p->type.dtype == LS_F64 ? sizeof(double) : sizeof(float);
}

ls_status ls_put_number(const ls_place *p, ls_number *room, double x)
{
    if (p->type.dtype == LS_F64)
        room->wide = x;
    else
        room->narrow = (float)x;
    return ls_session_put(p, room, number_bytes(p));
}

ls_status ls_fetch_number(const ls_place *p, ls_number *room)
{
    return ls_session_fetch(p, room, number_bytes(p));
}

double ls_number_of(const ls_place *p, const ls_number *room)
{
    return p->type.dtype == LS_F64 ? room->wide : (double)room->narrow;
}

ls_status ls_get_scalar(const ls_place *p, double *x)
{
    ls_number room;
    LS_TRY(ls_fetch_number(p, &room));
    LS_TRY(ls_session_wait(p->session));
    *x = ls_number_of(p, &room);
    return LS_OK;
}

const char *ls_skip_name(ls_skip s)
{
    static const char *const NAMES[] = { [LS_SKIP_NONE] = "",
                                         [LS_SKIP_NOTHING] = "no target counts",
                                         [LS_SKIP_OVERFLOW] = "overflow",
                                         [LS_SKIP_LOSS] = "loss",
                                         [LS_SKIP_GRADIENT] = "gradient" };
    return NAMES[s];
}

ls_status ls_trainer_program(ls_trainer *t, int program)
{
    t->used = true;
    if (program != LS_UPDATE)
        LS_TRY(ls_trainer_round_weights(t));
    if (program == LS_MICRO && t->compiled.gradients_in_weights)
        t->rounded = false;
    LS_TRY(ls_session_run(t->session, t->session_plan[program], false));
    if (program == LS_UPDATE)
        t->rounded = true;
    if (!t->after_run)
        return LS_OK;
    LS_TRY(ls_session_wait(t->session));
    t->after_run(t->context, t, program);
    return LS_OK;
}

/* The divisor of loss i in this rank's micro-batch k. With loss_mean: micro_batch it is the micro-batch's
 * own divisor times the number of micro-batches. */
static double divisor(const ls_trainer *t, int64_t k, int i)
{
    const ls_compiled *c = &t->compiled;
    const double all = c->mean_of_means ? t->sums[k * (c->objective.n_losses + 1) + i] : t->total[i];
    return (all > 0 ? all : 1) * (c->mean_of_means ? (double)c->micro_batches : 1);
}

/* The number in the step of micro-batch k of a rank with this share. */
static int64_t number_of(const ls_share *s, int64_t k) { return s->first + k * s->stride; }

/* Puts the inputs of `micro` for this rank's micro-batch k. moves: buffers may change. */
static ls_status micro_prepare(ls_trainer *t, int64_t k, bool moves)
{
    const ls_compiled *c = &t->compiled;
    const int64_t number = number_of(&c->share, k);
    ls_micro_numbers *m = &t->micro[k];
    m->real = (int32_t)t->own[k];
    /* buffers change once a step, in micro-batch 0, with any number of ranks */
    m->track = number == 0 && moves;
    /* as in data/order.c: row r of micro-batch m is sample m + r M of the step */
    m->places[0] = number;
    m->places[1] = c->micro_batches;
    const int64_t at = k % c->unrolled;
    if (!at)
        LS_TRY(ls_trainer_fill(t, k));
    for (int i = 0; i < c->objective.n_losses; i++)
        LS_TRY(ls_put_number(&t->divisor[at * c->objective.n_losses + i], &m->divisor[i], divisor(t, k, i)));
    if (ls_place_present(&t->real[at]))
        LS_TRY(ls_session_put(&t->real[at], &m->real, sizeof m->real));
    if (ls_place_present(&t->track[at]))
        LS_TRY(ls_session_put(&t->track[at], &m->track, sizeof m->track));
    return ls_place_present(&t->sample_places[at])
               ? ls_session_put(&t->sample_places[at], m->places, sizeof m->places)
               : LS_OK;
}

ls_status ls_trainer_micro(ls_trainer *t, int64_t k)
{
    const int64_t n = t->compiled.unrolled;
    for (int64_t m = k; m < k + n; m++)
        LS_TRY(micro_prepare(t, m, true));
    LS_TRY(ls_trainer_program(t, LS_MICRO));
    for (int64_t i = 0; i < n * t->losses; i++)
        if (ls_place_present(&t->loss[i])) /* else another rank has the losses */
            LS_TRY(ls_fetch_number(&t->loss[i], &t->micro[k + i / t->losses].loss[i % t->losses]));
    return LS_OK;
}

/* ---- the second run, which checks every value */

/* The first bad number that a rank found in a micro-batch; step INT_MAX: none. */
typedef struct finding {
    int32_t step;
    int64_t number; /* of the micro-batch in the step */
    char text[1024];
} finding;

/* Runs micro-batch k of every rank (in a pipeline with those that are in the same run) and checks every
 * value. *out: the bad number of the earliest step of the program, the same on all ranks. */
static ls_status micro_look(ls_trainer *t, int64_t k, finding *out)
{
    finding mine = { .step = INT_MAX, .number = number_of(&t->compiled.share, k) }, *all = &mine;
    LS_TRY(ls_trainer_round_weights(t));
    const int64_t first = k / t->compiled.unrolled * t->compiled.unrolled;
    for (int64_t m = first; m < first + t->compiled.unrolled; m++)
        LS_TRY(micro_prepare(t, m, false));
    ls_session_clear(&t->largest_loss); /* it has the value of the bad step */
    const ls_status s = ls_session_run(t->session, t->session_plan[LS_MICRO], true);
    t->rounded = !t->compiled.gradients_in_weights;
    if (s == LS_E_NUMERIC) {
        mine.step = ls_session_bad_step(t->session);
        snprintf(mine.text, sizeof mine.text, "%s", ls_error_message());
    } else
        LS_TRY(s);
    if (t->group)
        LS_TRY(ls_group_all_gather_new(t->group, &mine, sizeof mine, (void **)&all));
    int best = 0;
    for (int r = 1; t->group && r < ls_group_size(t->group); r++)
        best = all[r].step < all[best].step ? r : best;
    *out = all[best];
    if (t->group)
        free(all);
    return LS_OK;
}

/* Finds a micro-batch whose loss is not finite: its index among the micro-batches of its rank, and *number
 * in the step. */
static ls_status bad_loss(const ls_trainer *t, int64_t *index, int64_t *number)
{
    const ls_compiled *c = &t->compiled;
    for (int64_t k = 0; k < c->share.count; k++)
        for (int r = 0; r < (t->group ? ls_group_size(t->group) : 1); r++) {
            ls_parallel p = c->parallel;
            ls_share share = c->share;
            p.rank = r;
            if (t->group)
                LS_TRY(ls_parallel_share(&share, &p, c->micro_batches));
            *index = k;
            *number = number_of(&share, k);
            if (!isfinite(t->loss_of[*number * t->losses]))
                return LS_OK;
        }
    return ls_fail(LS_E_INTERNAL, "every loss of the step is finite");
}

static ls_status explain_loss(ls_trainer *t)
{
    int64_t k = 0, number = 0;
    finding f;
    LS_TRY(bad_loss(t, &k, &number));
    LS_TRY(micro_look(t, k, &f));
    if (f.step == INT_MAX)
        return ls_fail(
            LS_E_NUMERIC,
            "the loss of micro-batch %lld is not a number, though every value of a second run is; is "
            "memory damaged?",
            (long long)number);
    return ls_fail(LS_E_NUMERIC, "the loss of micro-batch %lld is not a number%s: %s", (long long)f.number,
                   t->compiled.loss_scaling ? ", which no loss scale mends (f16 ends at 65504; bf16 does not)"
                                            : "",
                   f.text);
}

static ls_status explain_gradient(ls_trainer *t)
{
    finding f = { .step = INT_MAX };
    for (int64_t k = 0; k < t->compiled.share.count && f.step == INT_MAX; k += t->compiled.unrolled)
        LS_TRY(micro_look(t, k, &f));
    if (f.step == INT_MAX)
        return ls_fail(LS_E_NUMERIC,
                       "the gradient is too large: every value of each micro-batch is finite, but %s is not",
                       t->compiled.clipping ? "the norm of their sum" : "the square of their sum");
    return ls_fail(LS_E_NUMERIC,
                   "the gradient is not finite, though the loss of every micro-batch is; micro-batch "
                   "%lld: %s",
                   (long long)f.number, f.text);
}

ls_status ls_trainer_explain(ls_trainer *t, ls_skip why)
{
    return why == LS_SKIP_LOSS ? explain_loss(t) : explain_gradient(t);
}
