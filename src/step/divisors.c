/* divisors.c - finds the divisors of a step's losses: the counts or weights in all its micro-batches, on all
 * ranks. Each rank counts its own micro-batches. If the loader or the caller knows the total, no message is
 * sent. Sums of weights are added in the order of the micro-batches, so their bits do not depend on the
 * number of ranks. */
#include <math.h>
#include <string.h>

#include "comm/group_calls.h"
#include "trainer.h"

static double element(const ls_fed *f, int64_t i)
{
    switch (f->type) {
    case LS_F32: return (double)((const float *)f->data)[i];
    case LS_F64: return ((const double *)f->data)[i];
    default: return ((const int32_t *)f->data)[i] != LS_IGNORE_LABEL;
    }
}

/* The part of the divisor that the first `own` samples of this rank's micro-batch k contribute. */
static ls_status count(const ls_trainer *t, const ls_term *term, int64_t k, int64_t own, double *out)
{
    if (term->scalar || term->weigh == LS_BY_SAMPLE || term->weigh == LS_BY_ELEMENT) {
        *out = term->scalar ? 1 : (double)(own * (term->weigh == LS_BY_ELEMENT ? term->each : 1));
        return LS_OK;
    }
    const ls_fed *f = &t->fed[ls_trainer_field_find(t, term->field)];
    const int64_t first = k * t->compiled.micro_batch * term->field_each;
    *out = 0;
    for (int64_t i = 0; i < own * term->field_each; i++) {
        const double w = element(f, first + i);
        if (!(w >= 0) || isinf(w))
            return ls_fail(LS_E_NUMERIC,
                           "loss \"%s\": a weight in \"%s\" is %g, entry %lld of micro-batch %lld; "
                           "weights are numbers from 0 on",
                           term->name, term->field, w, (long long)i,
                           (long long)(t->compiled.share.first + k * t->compiled.share.stride));
        *out += w;
    }
    return LS_OK;
}

/* The number of samples of micro-batch m in a step of `samples` samples. They are its first rows
 * (data/order.c). */
static int64_t samples_of(const ls_compiled *c, int64_t m, int64_t samples)
{
    const int64_t n = samples > m ? (samples - m + c->micro_batches - 1) / c->micro_batches : 0;
    return n < c->micro_batch ? n : c->micro_batch;
}

/* The divisor of a step, if this rank knows it without a message; else -1. */
static double known(const ls_trainer *t, const ls_term *term, int64_t samples)
{
    if (term->scalar)
        return (double)t->compiled.micro_batches;
    switch (term->weigh) {
    case LS_BY_SAMPLE: return samples >= 0 ? (double)samples : -1;
    case LS_BY_ELEMENT: return samples >= 0 ? (double)(samples * term->each) : -1;
    case LS_BY_VALID: return (double)t->fed[ls_trainer_field_find(t, term->field)].count;
    case LS_BY_FIELD:
    case LS_OVER_FIELD: break;
    }
    return -1;
}

/* Adds up the numbers of all micro-batches. They lie in the order of the ranks. */
static ls_status add_all(ls_trainer *t, int columns)
{
    const ls_compiled *c = &t->compiled;
    const int ranks = t->group ? ls_group_size(t->group) : 1;
    const int64_t mine = c->share.count * columns;
    double *in = t->sums;
    if (t->group) {
        in = t->exchange + mine;
        memcpy(t->exchange, t->sums, sizeof(double) * (size_t)mine);
        LS_TRY(ls_group_all_gather_same(t->group, t->exchange, sizeof(double) * (size_t)mine, in));
    }
    double *by_number = t->loss_of; /* free until a micro-batch ran */
    for (int r = 0; r < ranks; r++) {
        ls_parallel p = c->parallel;
        ls_share share = c->share;
        p.rank = r;
        if (t->group)
            LS_TRY(ls_parallel_share(&share, &p, c->micro_batches));
        for (int64_t k = 0; k < share.count; k++)
            memcpy(by_number + (share.first + k * share.stride) * columns, in + mine * r + k * columns,
                   sizeof(double) * (size_t)columns);
    }
    for (int i = 0; i < columns; i++) {
        t->total[i] = 0;
        for (int64_t m = 0; m < c->micro_batches; m++)
            t->total[i] += by_number[m * columns + i];
    }
    return LS_OK;
}

ls_status ls_trainer_divisors(ls_trainer *t, int64_t samples, bool *nothing)
{
    const ls_compiled *c = &t->compiled;
    const ls_objective *o = &c->objective;
    const int columns = o->n_losses + 1; /* and the samples */
    bool all_known = true, zero = true;
    for (int i = 0; i < o->n_losses; i++)
        all_known = all_known && known(t, &o->terms[i], samples) >= 0;
    for (int64_t k = 0; k < c->share.count; k++) {
        if (samples >= 0)
            t->own[k] = samples_of(c, c->share.first + k * c->share.stride, samples);
        t->sums[k * columns + o->n_losses] = (double)t->own[k];
        for (int i = 0; i < o->n_losses && (!all_known || c->mean_of_means); i++) {
            const ls_status s = count(t, &o->terms[i], k, t->own[k], &t->sums[k * columns + i]);
            if (s != LS_OK && t->group)
                ls_group_fail(t->group, s, ls_error_message());
            LS_TRY(s);
        }
    }
    if (!all_known)
        LS_TRY(add_all(t, columns));
    t->samples = all_known ? samples : (int64_t)t->total[o->n_losses];
    for (int i = 0; i < o->n_losses; i++) {
        const double exact = known(t, &o->terms[i], samples);
        t->total[i] = exact >= 0 ? exact : t->total[i];
        zero = zero && t->total[i] == 0;
    }
    *nothing = zero;
    return LS_OK;
}
