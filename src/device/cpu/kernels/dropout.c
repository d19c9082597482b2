/* dropout.c - dropout: x * 1 / (1 - p) for elements that are kept, else 0; plus an addend. Tasks are ranges
 * of elements, because an element's random number depends on its position. */
#include "device/dropout.h"
#include "random.h"
#include "table.h"

enum { BLOCK = 4096 }; /* elements of a task */

typedef struct job {
    const ls_kernel_args *a;
    ls_dropping d;
} job;

KERNEL(random_key)
{ /* seed, step, places -> key */
    const ls_rng_key k = ls_rng_key_of((uint64_t) * (const int64_t *)a->in[0].data,
                                       (uint64_t) * (const int64_t *)a->in[1].data);
    int64_t *out = a->out[0].data;
    out[0] = (int64_t)((uint64_t)k.k[1] << 32 | k.k[0]);
    out[1] = ((const int64_t *)a->in[2].data)[0];
    out[2] = ((const int64_t *)a->in[2].data)[1];
}

SIMD_FN void drop_vector(ls_dtype T, const job *j, const int32_t *keep, int64_t i, int n, bool add)
{
    const vf x = n == VF_LANES ? vf_get(j->a->in[0].data, T, i) : vf_get_n(j->a->in[0].data, T, i, n);
    vf y = vi_as_vf(vf_bits(x * (float)j->d.scale) & vi_load(keep));
    if (add) {
        const vf addend = n == VF_LANES ? vf_get(j->a->in[2].data, T, i)
                                        : vf_get_n(j->a->in[2].data, T, i, n);
        y = vf_round_to(y, T) + addend;
    }
    if (n == VF_LANES)
        vf_put(j->a->out[0].data, T, i, y);
    else
        vf_put_n(j->a->out[0].data, T, i, y, n);
}

SIMD_FN void drop_range(ls_dtype T, const job *j, const int32_t *keep, int64_t i, int64_t n, bool add)
{
    int64_t c = 0;
    for (; c + VF_LANES <= n; c += VF_LANES)
        drop_vector(T, j, keep + c, i + c, VF_LANES, add);
    if (c < n)
        drop_vector(T, j, keep + c, i + c, (int)(n - c), add);
}

SIMD_FN void drop_block(ls_dtype T, const job *j, int64_t begin, int64_t end)
{
    const ls_dropping *d = &j->d;
    const bool add = j->a->n_in > 2 && present(&j->a->in[2]);
    int32_t keep[2 * KEEP_GROUP + VF_LANES] = { 0 }; /* (the last vector may be read beyond its end) */
    for (int64_t i = begin, run; i < end;) {
        uint64_t sample, index = ls_dropping_index(d, i, &sample, &run);
        for (const int64_t stop = min_i64(end, i + run); i < stop;) {
            const uint64_t group = index / KEEP_GROUP;
            const int64_t at = (int64_t)(index % KEEP_GROUP), n = min_i64(stop - i, 2 * KEEP_GROUP - at);
            LS_NAME(ls_keep_groups)(keep, d->key, sample, group, sample, group + 1, d->below);
            if (add)
                drop_range(T, j, keep + at, i, n, true);
            else
                drop_range(T, j, keep + at, i, n, false);
            i += n;
            index += (uint64_t)n;
        }
    }
}

static void drop_task(void *context, int64_t begin, int64_t end, int worker)
{
    const job *j = context;
    (void)worker;
    BY_FLOAT(j->a->out[0].type.dtype, drop_block, j, begin * BLOCK,
             min_i64(end * BLOCK, count_of(&j->a->out[0])));
}

KERNEL(dropout)
{ /* x, key, addend? -> y */
    const int64_t n = count_of(&a->out[0]);
    job j = { a, ls_dropping_of_op(&a->in[1], &a->out[0].type, a->attrs, a->at) };
    ls_parallel_for(threads_for(a, n), (n + BLOCK - 1) / BLOCK, drop_task, &j);
}
