/* gemm_row.c - linear of a single row, as in a model that makes text: every weight is used once, so it comes
 * from memory at the rate of memory, with no copy packed on the way. Vectors of weights along depth are
 * transposed in registers, so that lanes are columns and each element has the order of summation of gemm.h:
 * the bits of a row among many. */
#include "gemm.h"

typedef struct row {
    const ls_kernel_args *a;
    const float *x; /* the row in words, zeros behind it */
    int64_t words;  /* of depth, in whole vectors */
} row;

enum { ROW_COLUMNS = 2 * VF_LANES };

/* A word of weights is what tiles take in a step: two bf16 where there are dot products of them. */
SIMD_FN bool as_pairs(ls_dtype t) { return GEMM_PAIRS(t); }
SIMD_FN int64_t word_size(ls_dtype t) { return as_pairs(t) ? 4 : elem_size(t); }

SIMD_FN vf words_of(ls_dtype t, const char *from)
{
    return as_pairs(t) ? vf_load((const float *)(const void *)from) : vf_get(from, t, 0);
}

/* The last words of a row of weights, of which `bytes` are there. */
SIMD_FN vf last_words(ls_dtype t, const char *from, int64_t bytes)
{
    char whole[4 * VF_LANES] = { 0 };
    memcpy(whole, from, (size_t)bytes);
    return words_of(t, whole);
}

SIMD_FN vf add_product(ls_dtype t, vf sum, float x, vf w)
{
#ifdef LS_LEVEL_avx512bf16
    if (as_pairs(t))
        return _mm512_dpbf16_ps(sum, (__m512bh)vf_set1(x), (__m512bh)w);
#endif
    (void)t;
    return vf_fma(vf_set1(x), w, sum);
}

/* VF_LANES columns from j on, of which `n` are there: the others repeat the last one. Meanwhile the rows of
 * weights behind these are asked for, line after line as they lie: so many streams at once as there are lanes
 * would be no stream at all to the memory. */
SIMD_FN void columns(ls_dtype t, const row *r, int64_t j, int n, float *sums)
{
    const ls_tensor *w = &r->a->in[1];
    const int64_t size = word_size(t), bytes = cols_of(w) * elem_size(t), ld = row_stride(w) * elem_size(t);
    const int64_t chain = GEMM_KC / (as_pairs(t) ? 2 : 1);
    const char *first = elem_at(w, j * row_stride(w)), *ahead = first + VF_LANES * ld;
    vf total = vf_zero();
    for (int64_t k0 = 0; k0 < r->words; k0 += chain) {
        vf sum = vf_zero();
        for (int64_t k = k0; k < min_i64(r->words, k0 + chain); k += VF_LANES) {
            const char *from = first + k * size;
            const int64_t here = bytes - k * size;
            vf v[VF_LANES];
            for (int64_t line = 0; line < VF_LANES * VF_LANES * size; line += GEMM_LINE)
                __builtin_prefetch(ahead + line, 0, 2);
            ahead += VF_LANES * VF_LANES * size;
            if (here >= VF_LANES * size && n == VF_LANES) {
#pragma GCC unroll 16
                for (int i = 0; i < VF_LANES; i++) {
                    v[i] = words_of(t, from);
                    from += ld;
                    OPAQUE(from);
                }
            } else {
                for (int i = 0; i < VF_LANES; i++)
                    v[i] = last_words(t, from + (i < n ? i : n - 1) * ld, min_i64(here, VF_LANES * size));
            }
            transpose(v);
#pragma GCC unroll 16
            for (int i = 0; i < VF_LANES; i++)
                sum = add_product(t, sum, r->x[k + i], v[i]);
        }
        total = k0 == 0 ? sum : total + sum;
    }
    vf_store(sums, total);
}

SIMD_FN void part(ls_dtype t, const row *r, int64_t begin, int64_t end)
{
    const int64_t cols = rows_of(&r->a->in[1]);
    float sums[ROW_COLUMNS];
    for (int64_t b = begin; b < end; b++) {
        const int64_t j = b * ROW_COLUMNS;
        const int n = (int)min_i64(ROW_COLUMNS, cols - j);
        const unsigned control = ls_subnormals_off(as_pairs(t));
        for (int c = 0; c < n; c += VF_LANES)
            columns(t, r, j + c, (int)min_i64(VF_LANES, n - c), sums + c);
        ls_subnormals_restore(as_pairs(t), control);
        LS_NAME(ls_gemm_finish)(r->a, GEMM_LINEAR, sums, ROW_COLUMNS, 0, 1, j, n);
    }
}

static void task(void *context, int64_t begin, int64_t end, int worker)
{
    const row *r = context;
    (void)worker;
    BY_FLOAT(r->a->in[0].type.dtype, part, r, begin, end);
}

SIMD_FN void copy_words(ls_dtype t, float *to, const ls_tensor *x, int64_t words)
{
    const int64_t depth = cols_of(x);
    if (as_pairs(t)) {
        memset(to, 0, (size_t)words * sizeof *to);
        memcpy(to, x->data, (size_t)(depth * elem_size(t)));
        return;
    }
    for (int64_t k = 0; k < words; k += VF_LANES)
        vf_store(to + k, vf_get_n(x->data, t, k, (int)min_i64(VF_LANES, depth > k ? depth - k : 0)));
}

size_t LS_NAME(ls_gemm_row_workspace)(const ls_kernel_args *a)
{
    return sizeof(float) * (size_t)round_up(cols_of(&a->in[0]), 16);
}

void LS_NAME(ls_gemm_row)(const ls_kernel_args *a)
{
    const ls_dtype t = a->in[0].type.dtype;
    const int64_t depth = cols_of(&a->in[0]), cols = rows_of(&a->in[1]);
    const row r = { .a = a,
                    .x = a->workspace,
                    .words = round_up(as_pairs(t) ? (depth + 1) / 2 : depth, VF_LANES) };
    BY_FLOAT(t, copy_words, a->workspace, &a->in[0], r.words);
    ls_parallel_for(depth * cols <= 1 << 17 ? 1 : a->threads, (cols + ROW_COLUMNS - 1) / ROW_COLUMNS, task,
                    (void *)(uintptr_t)&r);
}
