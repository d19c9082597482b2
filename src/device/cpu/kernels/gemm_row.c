/* gemm_row.c - linear of a single row, as when a language model generates one token: y[N] = w[N, K] x[K].
 *
 * Each weight is used once, so the speed is that of memory, and a packed copy of w would only cost. Weights
 * are read as vectors along depth from VF_LANES rows of w, and transposed in registers, so that a lane is a
 * column of the output. Each output then has gemm.h's order of summation and so the same bits as in a product
 * of many rows. */
#include "gemm.h"
#include "nf4.h"

typedef struct row {
    const ls_kernel_args *a;
    const float *x; /* the row as words, followed by zeros */
    int64_t words;  /* depth in words, rounded up to whole vectors */
} row;

enum {
    ROW_COLUMNS = 2 * VF_LANES,   /* columns of a task */
    ROW_ALONE_PRODUCTS = 1 << 17, /* multiply-adds that take less time than waking a thread */
    /* ls_gemm_row_workspace must not depend on the level: room for the longest vectors of all levels */
    ROW_MAX_LANES = 16
};

/* A word is what one step of depth takes (gemm.h): one element, or two bf16 at the level that has their dot
 * product. */
SIMD_FN bool as_pairs(ls_dtype t) { return GEMM_PAIRS(t); }
SIMD_FN int64_t word_size(ls_dtype t) { return as_pairs(t) ? 4 : elem_size(t); }

SIMD_FN vf words_of(ls_dtype t, const char *from)
{
    return as_pairs(t) ? vf_load((const float *)(const void *)from) : vf_get(from, t, 0);
}

/* A vector of words of which only the first `bytes` bytes may be read; the others are zero. */
SIMD_FN vf last_words(ls_dtype t, const char *from, int64_t bytes)
{
    char whole[4 * VF_LANES] = { 0 };
    memcpy(whole, from, (size_t)bytes);
    return words_of(t, whole);
}

#ifdef LS_LEVEL_amx
/* The odd elements of words as f32, and the even ones. */
SIMD_FN vf odd_of(vf words) { return (vf)((vi)words & (vi_set1(-1) << 16)); }
SIMD_FN vf even_of(vf words) { return (vf)((vi)words << 16); }
/* As one tile instruction does (gemm_tile_amx.c). */
SIMD_FN vf add_pairs(vf sum, const float *x, const vf *w)
{
    vf even = vf_zero(), odd = vf_zero();
#pragma GCC unroll 16
    for (int i = 0; i < VF_LANES; i++) {
        even = vf_fma(even_of(vf_set1(x[i])), even_of(w[i]), even);
        odd = vf_fma(odd_of(vf_set1(x[i])), odd_of(w[i]), odd);
    }
    return sum + (even + odd);
}
#elif defined(LS_BF16_PAIRS)
SIMD_FN vf add_pairs(vf sum, const float *x, const vf *w)
{
#pragma GCC unroll 16
    for (int i = 0; i < VF_LANES; i++)
        sum = _mm512_dpbf16_ps(sum, (__m512bh)vf_set1(x[i]), (__m512bh)w[i]);
    return sum;
}
#else
SIMD_FN vf add_pairs(vf sum, const float *x, const vf *w) /* never called */
{
    (void)x;
    (void)w;
    return sum;
}
#endif

/* The products of VF_LANES words of depth. */
SIMD_FN vf add_products(ls_dtype t, vf sum, const float *x, const vf *w)
{
    if (as_pairs(t))
        return add_pairs(sum, x, w);
#pragma GCC unroll 16
    for (int i = 0; i < VF_LANES; i++)
        sum = vf_fma(vf_set1(x[i]), w[i], sum);
    return sum;
}

/* Words that are summed before the sum is added: all of them at level amx. */
SIMD_FN int64_t row_chain(ls_dtype t)
{
#ifdef LS_LEVEL_amx
    if (as_pairs(t))
        return INT64_MAX / 2;
#endif
    return GEMM_KC / (as_pairs(t) ? 2 : 1);
}

/* Computes VF_LANES columns from column j on, of which `n` exist. On the way it prefetches the next VF_LANES
 * rows of w, in the order of their addresses: the hardware's prefetchers do not follow VF_LANES rows that are
 * read side by side. */
SIMD_FN void columns(ls_dtype t, const row *r, int64_t j, int n, float *sums)
{
    const ls_tensor *w = &r->a->in[1];
    const int64_t size = word_size(t), bytes = cols_of(w) * elem_size(t), ld = row_stride(w) * elem_size(t);
    const int64_t chain = row_chain(t);
    const int64_t square = VF_LANES * VF_LANES * size; /* bytes that one step below reads, and prefetches */
    const char *first = elem_at(w, j * row_stride(w)), *ahead = first + VF_LANES * ld;
    vf total = vf_zero();
    for (int64_t k0 = 0; k0 < r->words; k0 += chain) {
        vf sum = vf_zero();
        for (int64_t k = k0; k < min_i64(r->words, k0 + chain); k += VF_LANES) {
            const char *from = first + k * size;
            const int64_t left = bytes - k * size;
            vf v[VF_LANES];
            for (int64_t line = 0; line < square; line += GEMM_LINE)
                __builtin_prefetch(ahead + line, 0, GEMM_TO_L2);
            ahead += square;
            /* one vector of each row; absent rows repeat the last one */
            if (left >= VF_LANES * size && n == VF_LANES) {
#pragma GCC unroll 16
                for (int i = 0; i < VF_LANES; i++) {
                    v[i] = words_of(t, from);
                    from += ld;
                    OPAQUE(from);
                }
            } else {
                for (int i = 0; i < VF_LANES; i++)
                    v[i] = last_words(t, from + (i < n ? i : n - 1) * ld, min_i64(left, VF_LANES * size));
            }
            transpose(v);
            sum = add_products(t, sum, r->x + k, v);
        }
        total = k0 == 0 ? sum : total + sum;
    }
    vf_store(sums, total);
}

/* The same of a weight of 4 bits: a block of each row becomes numbers at a time. */
SIMD_FN void columns_of_codes(ls_dtype t, const row *r, int64_t j, int n, float *sums)
{
    const ls_tensor *w = &r->a->in[1], *scales = &r->a->in[GEMM_SCALES];
    const int64_t block = LS_NF4_BLOCK * elem_size(t) / word_size(t), chain = row_chain(t);
    float room[VF_LANES * LS_NF4_BLOCK]; /* [VF_LANES] blocks of type t */
    vf total = vf_zero();
    for (int64_t k0 = 0; k0 < r->words; k0 += chain) {
        vf sum = vf_zero();
        for (int64_t k = k0; k < min_i64(r->words, k0 + chain); k += VF_LANES) {
            const int64_t at = k / block;
            vf v[VF_LANES];
            for (int i = 0; i < VF_LANES && k % block == 0; i++) { /* absent rows repeat the last one */
                const int64_t at_row = j + (i < n ? i : n - 1);
                const char *codes = elem_at(w, at_row * row_stride(w) + at * LS_NF4_BLOCK / 2);
                const float *scale = (const float *)elem_at(scales, at_row * row_stride(scales));
                __builtin_prefetch(codes + 2 * GEMM_LINE);
                nf4_block(t, (char *)(room + i * LS_NF4_BLOCK), (const uint8_t *)codes, scale[at]);
            }
#pragma GCC unroll 16
            for (int i = 0; i < VF_LANES; i++)
                v[i] = words_of(t, (const char *)(room + i * LS_NF4_BLOCK) + k % block * word_size(t));
            transpose(v);
            sum = add_products(t, sum, r->x + k, v);
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
            if (gemm_has_codes(r->a))
                columns_of_codes(t, r, j + c, (int)min_i64(VF_LANES, n - c), sums + c);
            else
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

/* The row x as words: bf16 pairs as they are, everything else as f32. */
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
    return sizeof(float) * (size_t)round_up(cols_of(&a->in[0]), ROW_MAX_LANES);
}

void LS_NAME(ls_gemm_row)(const ls_kernel_args *a)
{
    const ls_dtype t = a->in[0].type.dtype;
    const int64_t depth = cols_of(&a->in[0]), cols = rows_of(&a->in[1]);
    const row r = { .a = a,
                    .x = a->workspace,
                    .words = round_up(as_pairs(t) ? (depth + 1) / 2 : depth, VF_LANES) };
    BY_FLOAT(t, copy_words, a->workspace, &a->in[0], r.words);
    const int threads = depth * cols <= ROW_ALONE_PRODUCTS ? 1 : a->threads;
    ls_parallel_for(threads, (cols + ROW_COLUMNS - 1) / ROW_COLUMNS, task, (void *)(uintptr_t)&r);
}
