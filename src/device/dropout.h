/* dropout.h - which random number decides about an element: a function of the op's purpose, the key (seed and
 * step), the sample's position in the step and the element's in the whole sample, so that all devices, ranks
 * and layouts drop the same ones. */
#pragma once
#include "attrs.h"
#include "base/box.h"
#include "base/rng.h"

typedef struct ls_dropping {
    ls_rng_key key;
    uint64_t sample, apart; /* positions in the step: of the first sample here, and from one to the next */
    int32_t below;          /* elements whose 16 bits are below this are kept */
    double scale;           /* of those */
    ls_box box;             /* what is here of each sample; */
    int64_t count;          /* so many elements */
} ls_dropping;

/* key: result of random_key. */
static inline ls_dropping ls_dropping_of(const ls_tensor *key, double p, uint64_t purpose)
{
    const int64_t *k = key->data;
    return (ls_dropping){ .key = ls_rng_key_of((uint64_t)k[0], purpose),
                          .sample = (uint64_t)k[1],
                          .apart = (uint64_t)k[2],
                          .below = (int32_t)((1 - p) * 65536 + 0.5),
                          .scale = 1 / (1 - p) };
}

/* at: of x [samples, ..]; NULL: x is whole. */
static inline ls_dropping ls_dropping_of_op(const ls_tensor *key, const ls_type *x, const ls_dropout_attrs *a,
                                            const ls_box *at)
{
    ls_dropping d = ls_dropping_of(key, a->p, a->purpose);
    const ls_box all = at ? *at : ls_box_of(x);
    d.sample += (uint64_t)all.start[0] * d.apart;
    for (d.box.ndim = 0; d.box.ndim < all.ndim - 1; d.box.ndim++) {
        d.box.whole[d.box.ndim] = all.whole[d.box.ndim + 1];
        d.box.start[d.box.ndim] = all.start[d.box.ndim + 1];
        d.box.size[d.box.ndim] = all.size[d.box.ndim + 1];
    }
    d.count = ls_box_count(&d.box);
    return d;
}

/* Attention: of a sample's probabilities [heads, queries, keys], rows are counted as if their keys filled
 * whole groups of 64. */
static inline uint64_t ls_dropping_row(int64_t head, int64_t query, int64_t queries, int64_t keys)
{
    return (uint64_t)(head * queries + query) * (uint64_t)((keys + 63) / 64) * 64;
}

/* Element i of the tensor: its number in its whole sample; *sample is the sample's in the step, and *run how
 * many elements from there on are neighbours here and in the whole sample. */
static inline uint64_t ls_dropping_index(const ls_dropping *d, int64_t i, uint64_t *sample, int64_t *run)
{
    *sample = d->sample + (uint64_t)(i / d->count) * d->apart;
    return (uint64_t)ls_box_run(&d->box, i % d->count, run);
}
