/* order.c - which sample is at which position of an epoch. No permutation is stored: the sample is computed
 * from the position (ls_permute_index), so any rank can begin anywhere in an epoch at no cost. */
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/field.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/sys.h"
#include "data/order_fill.h"
#include "order.h"

ls_status ls_order_check(const ls_order *o)
{
    LS_ARG(o);
    if (o->global_batch < 1 || o->micro_batch < 1)
        return ls_fail(LS_E_USAGE, "global_batch %lld and micro_batch %lld must be at least 1",
                       (long long)o->global_batch, (long long)o->micro_batch);
    if (o->global_batch % o->micro_batch != 0)
        return ls_fail(LS_E_USAGE, "micro_batch %lld does not divide global_batch %lld",
                       (long long)o->micro_batch, (long long)o->global_batch);
    if (o->n < 1)
        return ls_fail(LS_E_USAGE, "the data set has no samples");
    if (o->drop_last && o->n < o->global_batch)
        return ls_fail_field(LS_E_USAGE, "global_batch",
                             "the data set has %lld samples, fewer than the %lld of one batch: lower it, or "
                             "set drop_last: false",
                             (long long)o->n, (long long)o->global_batch);
    return LS_OK;
}

int64_t ls_order_steps(const ls_order *o)
{
    LS_ARG_OR(o, 0);
    if (o->global_batch < 1) /* ls_order_check says it */
        return 0;
    const int64_t all = o->n / o->global_batch + (!o->drop_last && o->n % o->global_batch != 0);
    return o->steps > 0 && o->steps < all ? o->steps : all;
}

/* The first sample whose sum is above a number that is uniform below the sum of all. One of weight 0 is none.
 */
static int64_t drawn(const ls_order *o, int64_t epoch, int64_t position)
{
    const ls_rng_key key = ls_rng_key_of(o->seed, ls_hash64_more(ls_hash_text("draw"), &epoch, sizeof epoch));
    const double all = o->draws[o->n - 1], at = ls_rng_uniform(key, (uint64_t)position) * all;
    int64_t low = 0, high = o->n - 1;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (o->draws[middle] > at || o->draws[middle] == all) /* the product may be rounded up to the sum */
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int64_t ls_order_index(const ls_order *o, int64_t epoch, int64_t position)
{
    LS_ARG_OR(o, 0);
    if (o->draws)
        return drawn(o, epoch, position);
    if (!o->shuffle)
        return position;
    ls_rng_key key = ls_rng_key_of(o->seed, ls_hash64_more(ls_hash_text("shuffle"), &epoch, sizeof epoch));
    return (int64_t)ls_permute_index(key, (uint64_t)position, (uint64_t)o->n);
}

int64_t ls_order_sample(const ls_order *o, int64_t epoch, int64_t step, int64_t m, int64_t row)
{
    LS_ARG_OR(o, -1);
    if (o->micro_batch < 1)
        return -1;
    int64_t micro_batches = o->global_batch / o->micro_batch,
            position = step * o->global_batch +
                       (o->blocks ? m * o->micro_batch + row : m + row * micro_batches);
    return position < o->n ? ls_order_index(o, epoch, position) : -1;
}

int64_t ls_order_samples(const ls_order *o, int64_t step)
{
    LS_ARG_OR(o, 0);
    int64_t left = o->n - step * o->global_batch;
    return left < 0 ? 0 : left < o->global_batch ? left : o->global_batch;
}

int64_t ls_order_count(const ls_order *o, const ls_dataset *set, int k, int64_t epoch, int64_t step)
{
    LS_ARG_OR(o, -1);
    LS_ARG_OR(set, -1);
    int64_t samples = ls_order_samples(o, step), n = 0;
    if (!set->count)
        return -1;
    for (int64_t i = 0; i < samples; i++)
        n += set->count(set, ls_order_index(o, epoch, step * o->global_batch + i), k);
    return n;
}

static void ignore(const ls_field *f, void *to)
{
    const int64_t n = ls_type_count(&f->type);
    for (int64_t i = 0; i < n && f->type.dtype == LS_I32; i++)
        ((int32_t *)to)[i] = LS_IGNORE_LABEL;
    for (int64_t i = 0; i < n && f->type.dtype == LS_I64; i++)
        ((int64_t *)to)[i] = LS_IGNORE_LABEL;
}

static uint64_t draw_of(const ls_order *o, const char *what, const int64_t of[3])
{
    return ls_hash64_more(ls_hash64_more(ls_hash_text(what), &o->seed, sizeof o->seed), of, 3 * sizeof of[0]);
}

uint64_t ls_order_draw(const ls_order *o, int64_t epoch, int64_t i, int64_t step, int64_t m, int64_t row)
{
    const int64_t each = o->global_batch / o->micro_batch;
    return o->draws ? draw_of(o, "augment", (int64_t[]){ epoch, step * o->global_batch + m + row * each, 1 })
                    : draw_of(o, "augment", (int64_t[]){ epoch, i, 0 });
}

uint64_t ls_order_mix(const ls_order *o, int64_t epoch, int64_t step, int64_t m)
{
    return draw_of(o, "mix", (int64_t[]){ epoch, step, m });
}

ls_status ls_order_fill_rows(const ls_order *o, const ls_dataset *set, int64_t epoch, int64_t step, int64_t m,
                             int64_t first, int64_t rows, void *const *to, void **at)
{
    int64_t same = -1; /* a row of padding that is filled: all padding repeats one sample */
    for (int64_t row = first; row < first + rows; row++) {
        int64_t i = ls_order_sample(o, epoch, step, m, row);
        const bool padding = i < 0;
        if (padding) /* zeros would be no sample: what a model computes of them need not be finite */
            i = ls_order_sample(o, epoch, step, m, 0);
        if (i < 0)
            i = ls_order_index(o, epoch, step * o->global_batch + m % ls_order_samples(o, step));
        for (int k = 0; k < set->n_fields; k++) {
            const size_t bytes = ls_type_bytes(&set->fields[k].type);
            at[k] = to[k] ? (char *)to[k] + (size_t)row * bytes : NULL;
            if (padding && same >= 0 && at[k])
                memcpy(at[k], (char *)to[k] + (size_t)same * bytes, bytes);
        }
        if (!padding || same < 0)
            LS_TRY(o->augment && set->read_drawn
                       ? set->read_drawn(set, i, ls_order_draw(o, epoch, i, step, m, row), at)
                       : set->read(set, i, at));
        same = padding && same < 0 ? row : same;
        for (int k = 0; k < set->n_fields && padding; k++)
            if (at[k] && set->fields[k].ignorable)
                ignore(&set->fields[k], at[k]);
    }
    return LS_OK;
}

void ls_order_fill_end(const ls_order *o, const ls_dataset *set, int64_t epoch, int64_t step, int64_t m,
                       void *const *to)
{
    int64_t real = 0;
    while (real < o->micro_batch && ls_order_sample(o, epoch, step, m, real) >= 0)
        real++;
    if (real && o->augment && set->mix)
        set->mix(set, ls_order_mix(o, epoch, step, m), real, to);
}

ls_status ls_order_fill(const ls_order *o, const ls_dataset *set, int64_t epoch, int64_t step, int64_t m,
                        void *const *to)
{
    LS_ARG(o);
    LS_ARG(set);
    LS_ARG(to);
    LS_TRY(ls_order_check(o));
    void **at = ls_sys_malloc(sizeof *at * (size_t)set->n_fields);
    LS_TRY(ls_sys_have(at));
    const ls_status s = ls_order_fill_rows(o, set, epoch, step, m, 0, o->micro_batch, to, at);
    free(at);
    if (s == LS_OK)
        ls_order_fill_end(o, set, epoch, step, m, to);
    return s;
}
