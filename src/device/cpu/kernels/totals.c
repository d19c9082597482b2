/* totals.c - the gradient norm as an exact integer sum, whose bits do not depend on order, threads or
 * sharding (docs/ops.md).
 *
 * With max = m 2^e, 0.5 <= m < 1, each square is rounded to a multiple of the unit 2^(2e - 87). A square is
 * then below 2^87 units, and 2^40 squares stay below 2^127. A square of y units is split as y = high 2^43 +
 * low. Both parts are signed integers, and sums of 2^18 of them fit in 64 bits. */
#include "table.h"
#include "kernel.h"

enum { FRACTION_BITS = 87, LOW_BITS = 43, TOTAL_BLOCK = 4096 };

/* ---- largest absolute value */

/* Compared as integers, the bits of |x| order NaN above infinity, so one maximum is enough. Four of them do
 * not wait for one another. */
SIMD_FN int32_t abs_bits(ls_dtype T, const char *x, int64_t n)
{
    vi top[4] = { { 0 } };
    int64_t i = 0;
    for (; i + 4 * VF_LANES <= n; i += 4 * VF_LANES)
        for (int k = 0; k < 4; k++) {
            const vi b = (vi)vf_abs(vf_get(x, T, i + k * VF_LANES));
            top[k] = vi_select(vi_lt(top[k], b), b, top[k]);
        }
    for (; i < n; i += VF_LANES) {
        const vi b = (vi)vf_abs(vf_get_n(x, T, i, (int)min_i64(n - i, VF_LANES)));
        top[0] = vi_select(vi_lt(top[0], b), b, top[0]);
    }
    int32_t most = 0;
    for (int k = 0; k < 4 * VF_LANES; k++)
        most = top[k / VF_LANES][k % VF_LANES] > most ? top[k / VF_LANES][k % VF_LANES] : most;
    return most;
}

typedef struct max_job {
    const ls_tensor *x;
    int64_t n;
    int32_t most;
} max_job;

SIMD_FN void max_block(ls_dtype T, max_job *j, int64_t i, int64_t n)
{
    const int32_t mine = abs_bits(T, elem_at(j->x, i), n);
    int32_t seen = __atomic_load_n(&j->most, __ATOMIC_RELAXED);
    while (mine > seen &&
           !__atomic_compare_exchange_n(&j->most, &seen, mine, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

static void max_task(void *context, int64_t begin, int64_t end, int worker)
{
    max_job *j = context;
    (void)worker;
    const int64_t i = begin * TOTAL_BLOCK, n = min_i64(end * TOTAL_BLOCK, j->n) - i;
    BY_FLOAT(j->x->type.dtype, max_block, j, i, n);
}

KERNEL(max_abs)
{
    max_job j = { .most = 0 };
    for (int i = 0; i < a->n_in; i++) {
        j.x = &a->in[i];
        j.n = count_of(j.x);
        ls_parallel_for(threads_for(a, j.n), (j.n + TOTAL_BLOCK - 1) / TOTAL_BLOCK, max_task, &j);
    }
    memcpy(a->out[0].data, &j.most, sizeof j.most);
}

/* ---- sum of squares */

/* The exponent e of the largest finite |x| = m 2^e; 0 for 0. */
static int exponent_of(float max)
{
    int e = 0;
    __builtin_frexpf(max, &e);
    return e;
}
/* 2^n for -1022 <= n <= 1023 */
static double two_to(int n)
{
    const int64_t bits = (int64_t)(n + 1023) << 52;
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

typedef struct square_job {
    const ls_tensor *x;
    int64_t n;
    double unit;
    __int128 *part;
} square_job;

/* For |x| < 2^51, the low bits of |x| + 1.5 * 2^52 are round(x), ties to even. */
#define ROUNDER 0x1.8p52
SIMD_FN int64_t bits_of(double x)
{
    int64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

SIMD_FN void square_blocks(ls_dtype T, const square_job *j, int64_t begin, int64_t end, int worker)
{
    const double unit = j->unit, down = two_to(-LOW_BITS), up = two_to(LOW_BITS);
    float x[TOTAL_BLOCK];
    __int128 total = 0;
    for (int64_t block = begin; block < end; block++) {
        const int64_t from = block * TOTAL_BLOCK, n = min_i64(TOTAL_BLOCK, j->n - from);
        int64_t i = 0, high = 0, low = 0;
        for (; i + VF_LANES <= n; i += VF_LANES)
            vf_store(x + i, vf_get(j->x->data, T, from + i));
        if (i < n)
            vf_store_n(x + i, vf_get_n(j->x->data, T, from + i, (int)(n - i)), (int)(n - i));
        for (i = 0; i < n; i++) {
            const double y = (double)x[i] * (double)x[i] * unit; /* exact: 48 bits times a power of two */
            const double rounded = y * down + ROUNDER, rest = y - (rounded - ROUNDER) * up; /* exact */
            high += bits_of(rounded) - bits_of(ROUNDER);
            low += bits_of(rest + ROUNDER) - bits_of(ROUNDER);
        }
        total += (__int128)high * ((int64_t)1 << LOW_BITS) + low;
    }
    j->part[worker] += total;
}

static void square_task(void *context, int64_t begin, int64_t end, int worker)
{
    const square_job *j = context;
    BY_FLOAT(j->x->type.dtype, square_blocks, j, begin, end, worker);
}

KERNEL_WORKSPACE(sum_squares) { return sizeof(__int128) * (size_t)(a->threads > 1 ? a->threads : 1); }

KERNEL(sum_squares)
{ /* max, x... */
    const float max = *(const float *)a->in[0].data;
    const int workers = a->threads > 1 ? a->threads : 1;
    square_job j = { .part = a->workspace };
    memset(j.part, 0, sizeof(__int128) * (size_t)workers);
    if (max - max == 0.0f) { /* whether it is finite */
        j.unit = two_to(FRACTION_BITS - 2 * exponent_of(max));
        for (int i = 1; i < a->n_in; i++) {
            j.x = &a->in[i];
            j.n = count_of(j.x);
            ls_parallel_for(threads_for(a, j.n), (j.n + TOTAL_BLOCK - 1) / TOTAL_BLOCK, square_task, &j);
        }
    }
    __int128 total = 0;
    for (int w = 0; w < workers; w++)
        total += j.part[w];
    int64_t *out = a->out[0].data;
    out[0] = (int64_t)total;
    out[1] = (int64_t)(total >> 64);
}

KERNEL(norm_from_squares)
{ /* max, [low, high] */
    const float max = *(const float *)a->in[0].data;
    const int64_t *in = a->in[1].data;
    if (!(max - max == 0.0f)) {
        *(float *)a->out[0].data = max;
        return;
    }
    const __int128 total = (__int128)((unsigned __int128)(uint64_t)in[1] << 64 | (uint64_t)in[0]);
    /* takes an even power of two out of the root, which is exact */
    const double root = __builtin_sqrt((double)total * two_to(-FRACTION_BITS));
    *(float *)a->out[0].data = (float)(root * two_to(exponent_of(max)));
}

KERNEL(is_finite)
{
    const float x = *(const float *)a->in[0].data;
    *(int32_t *)a->out[0].data = x - x == 0.0f;
}
