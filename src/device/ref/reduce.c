/* reduce.c - the gradient norm as an exact sum (ARCHITECTURE.md, "Why it can be trusted"): each square is
 * rounded on its own to a fixed point chosen from the largest absolute value, and integers are added, so that
 * neither order nor sharding changes a bit.
 *
 * With max = m * 2^e, 0.5 <= m < 1, the unit is 2^(2e - 87): every square is below 2^87 units, 2^40 of them
 * below 2^127. */
#include "ref.h"
#include <string.h>

enum { FRACTION_BITS = 87 };

static int exponent_of(double max)
{
    int e;
    frexp(max, &e);
    return e;
}

void ls_ref_max_abs(const ls_kernel_args *a)
{
    double max = 0;
    for (int k = 0; k < a->n_in; k++) {
        const int64_t n = ls_type_count(&a->in[k].type);
        for (int64_t i = 0; i < n; i++) {
            const double x = fabs(flat_get(&a->in[k], i));
            if (isnan(x) || x > max) /* nothing is larger than NaN */
                max = isnan(max) ? max : x;
        }
    }
    ls_ref_put(&a->out[0], 0, max);
}

static void put_int128(const ls_tensor *t, __int128 total) /* [low, high], two's complement */
{
    int64_t *words = t->data;
    words[0] = (int64_t)(uint64_t)total;
    words[t->strides[0]] = (int64_t)(total >> 64);
}

static __int128 get_int128(const ls_tensor *t)
{
    const int64_t *words = t->data;
    return (__int128)((unsigned __int128)(uint64_t)words[t->strides[0]] << 64 | (uint64_t)words[0]);
}

void ls_ref_sum_squares(const ls_kernel_args *a) /* max, tensors... */
{
    const double max = scalar_get(&a->in[0]);
    __int128 total = 0;
    for (int k = 1; k < a->n_in && isfinite(max); k++) {
        const int64_t n = ls_type_count(&a->in[k].type);
        for (int64_t i = 0; i < n; i++) {
            /* exact and below 1, so its square neither overflows nor underflows */
            const double x = ldexp(flat_get(&a->in[k], i), -exponent_of(max));
            total += (__int128)rint(ldexp(x * x, FRACTION_BITS));
        }
    }
    put_int128(&a->out[0], total);
}

void ls_ref_norm_from_squares(const ls_kernel_args *a) /* max, total */
{
    const double max = scalar_get(&a->in[0]);
    const double norm = ldexp(sqrt(ldexp((double)get_int128(&a->in[1]), -FRACTION_BITS)), exponent_of(max));
    ls_ref_put(&a->out[0], 0, isfinite(max) ? norm : max);
}

void ls_ref_is_finite(const ls_kernel_args *a)
{
    ls_ref_put(&a->out[0], 0, isfinite(scalar_get(&a->in[0])) != 0);
}
