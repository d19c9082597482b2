/* dropout.h - which random number decides about an element. It is a function of the op's purpose, the key
 * (seed and step), the position of the sample in the step, and the position of the element in the whole
 * sample. So all devices, ranks and layouts drop the same elements. */
#pragma once
#include "base/box.h"
#include "base/rng.h"
#include "graph/attrs.h"

typedef struct ls_dropping {
    ls_rng_key key;
    /* positions in the step: of the first sample here; and the distance from one sample to the next */
    uint64_t sample, apart;
    int32_t below; /* an element is kept if its 16 bits are below this */
    double scale;  /* the factor of elements that are kept */
    ls_box box;    /* which elements of each sample are here */
    int64_t count; /* how many they are */
} ls_dropping;

static inline int32_t ls_dropping_below(double p) { return (int32_t)((1 - p) * 65536 + 0.5); }
static inline double ls_dropping_scale(double p) { return 1 / (1 - p); }

/* key: the result of random_key. */
static inline ls_dropping ls_dropping_of(const ls_tensor *key, double p, uint64_t purpose)
{
    const int64_t *k = key->data;
    return (ls_dropping){ .key = ls_rng_key_of((uint64_t)k[0], purpose),
                          .sample = (uint64_t)k[1],
                          .apart = (uint64_t)k[2],
                          .below = ls_dropping_below(p),
                          .scale = ls_dropping_scale(p) };
}

/* here: the box of x [samples, ..]; NULL: x is whole. */
static inline ls_dropping ls_dropping_of_op(const ls_tensor *key, const ls_type *x, const ls_dropout_attrs *a,
                                            const ls_box *here)
{
    ls_dropping d = ls_dropping_of(key, a->p, a->purpose);
    const ls_box all = here ? *here : ls_box_of(x);
    d.sample += (uint64_t)all.start[0] * d.apart;
    for (d.box.ndim = 0; d.box.ndim < all.ndim - 1; d.box.ndim++) {
        d.box.whole[d.box.ndim] = all.whole[d.box.ndim + 1];
        d.box.start[d.box.ndim] = all.start[d.box.ndim + 1];
        d.box.size[d.box.ndim] = all.size[d.box.ndim + 1];
    }
    d.count = ls_box_count(&d.box);
    return d;
}

/* Attention drops probabilities [heads, queries, keys]. The number of a row's first element counts keys as if
 * they filled whole groups of 64. */
static inline uint64_t ls_dropping_row(int64_t head, int64_t query, int64_t queries, int64_t keys)
{
    return (uint64_t)(head * queries + query) * (uint64_t)((keys + 63) / 64) * 64;
}

/* The number, in its whole sample, of element i of the tensor. *sample receives the sample's position in the
 * step; *run, how many elements from there on are neighbours both here and in the whole sample. */
static inline uint64_t ls_dropping_index(const ls_dropping *d, int64_t i, uint64_t *sample, int64_t *run)
{
    *sample = d->sample + (uint64_t)(i / d->count) * d->apart;
    return (uint64_t)ls_box_run(&d->box, i % d->count, run);
}
