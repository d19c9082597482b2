/* dropout.c - drops elements at random, and makes the key of a step's random numbers. */
#include "device/dropout.h"
#include "ref.h"

void ls_ref_random_key(const ls_kernel_args *a) /* seed, step, places -> key */
{
    const ls_rng_key k = ls_rng_key_of((uint64_t) * (const int64_t *)a->in[0].data,
                                       (uint64_t) * (const int64_t *)a->in[1].data);
    int64_t *out = a->out[0].data;
    out[0] = (int64_t)((uint64_t)k.k[1] << 32 | k.k[0]);
    out[1] = ((const int64_t *)a->in[2].data)[0];
    out[2] = ((const int64_t *)a->in[2].data)[1];
}

void ls_ref_dropout(const ls_kernel_args *a) /* x, key, addend? -> y */
{
    const ls_type *type = &a->out[0].type;
    const ls_dropping d = ls_dropping_of_op(&a->in[1], type, a->attrs, a->at);
    const double scale = type->dtype == LS_F64 ? d.scale : (double)(float)d.scale;
    for (int64_t i = 0; i < ls_type_count(type); i++) {
        uint64_t sample;
        const uint64_t index = ls_dropping_index(&d, i, &sample, NULL);
        const bool kept = ls_rng_bits16(d.key, sample, index) < (uint32_t)d.below;
        const double y = ls_ref_round(kept ? flat_get(&a->in[0], i) * scale : 0, type->dtype);
        flat_put(&a->out[0], i, given(a, 2) ? y + flat_get(&a->in[2], i) : y);
    }
}
