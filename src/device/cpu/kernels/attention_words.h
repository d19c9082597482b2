/* attention_words.h - operands of attention's products, as words (small_mm.h). A block of n rows of a head
 * has three forms. With f32, a word is an element; with pairs of bf16, it is two neighbours in depth.
 *
 *   rows     [n][words]                depth is the features: the left operand of k qT and v dyT
 *   columns  [n / STRIP][words][STRIP] the same transposed, a strip after the other: their right operand
 *   stacked  [n / unit][D]             depth is the rows: the right operand of p v, ds k, dsT q and pT dy
 *
 * Rows of f32 are stacked already. */
#pragma once
#include "attention.h"

/* C = A B (+ C), of the words that s has. */
SIMD_FN void multiply(const heads *s, int64_t m, int64_t n, int64_t k, const float *a, int64_t a_row,
                      int64_t a_k, const float *b, int64_t ldb, float *c, int64_t ldc, bool add)
{
#ifdef LS_LEVEL_avx512bf16
    if (s->unit == 2) {
        LS_NAME(ls_small_dot_mm)(m, n, k, a, a_row, a_k, b, ldb, c, ldc, add);
        return;
    }
#endif
    (void)s;
    LS_NAME(ls_small_mm)(m, n, k, a, a_row, a_k, b, ldb, c, ldc, add);
}
/* Words of n elements of depth. */
SIMD_FN int64_t words_of(const heads *s, int64_t n) { return (n + s->unit - 1) / s->unit; }

/* Prefetches a row. Hardware does not, since the rows of one head lie apart. A loop prefetches AHEAD rows
 * before it reads them. */
enum { AHEAD = 8 };
SIMD_FN void fetch_row(const char *row, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(row + at, 0, 3);
}

SIMD_FN void convert_rows(ls_dtype T, float *to, int64_t dp, const char *from, int64_t stride, int64_t rows,
                          int64_t d)
{
    for (int64_t r = 0; r < rows; r++) {
        fetch_row(from + (r + AHEAD) * stride * elem_size(T), d * elem_size(T));
        for (int64_t c = 0; c < dp; c += VF_LANES)
            vf_store(to + r * dp + c,
                     get_padded(T, from + r * stride * elem_size(T), c, (int)min_i64(VF_LANES, d - c), 0.0f));
    }
}

/* delta[i] = dy_i . y_i, for the gradient. */
SIMD_FN void delta_rows(ls_dtype T, float *delta, const char *dy, int64_t dy_stride, const char *y,
                        int64_t y_stride, int64_t n, int64_t d)
{
    for (int64_t i = 0; i < n; i++) {
        vf s = vf_zero();
        fetch_row(y + (i + AHEAD) * y_stride * elem_size(T), d * elem_size(T));
        for (int64_t c = 0; c < d; c += VF_LANES) {
            const int left = (int)min_i64(VF_LANES, d - c);
            s = vf_fma(get_padded(T, dy + i * dy_stride * elem_size(T), c, left, 0.0f),
                       get_padded(T, y + i * y_stride * elem_size(T), c, left, 0.0f), s);
        }
        delta[i] = vf_sum(s);
    }
}

/* The form `rows`, copied: rows are s->words apart. */
SIMD_FN void copy_rows(const heads *s, float *to, const char *from, int64_t stride, int64_t n)
{
    if (s->unit == 1) {
        BY_FLOAT(s->t, convert_rows, to, s->words, from, stride, n, s->D);
        return;
    }
    const size_t bytes = (size_t)s->D * 2, rest = (size_t)s->words * 4 - bytes;
    for (int64_t r = 0; r < n; r++) {
        fetch_row(from + (r + AHEAD) * stride * 2, s->D * 2);
        memcpy(to + r * s->words, from + r * stride * 2, bytes);
        memset((char *)(to + r * s->words) + bytes, 0, rest);
    }
}
/* The same where the elements are, if they are few and have that form there; else copied to `scratch`. Rows
 * of a long sequence are read many times, and where they lie they may share few sets of L1. */
SIMD_FN const float *rows_form(const heads *s, float *scratch, const char *from, int64_t stride, int64_t n,
                               int64_t *ld)
{
    if (n < BLOCK_Q && (s->unit == 2 || s->t == LS_F32) && s->D == s->words * s->unit &&
        stride % s->unit == 0 && (uintptr_t)from % sizeof(float) == 0) {
        *ld = stride / s->unit;
        return (const float *)(const void *)from;
    }
    copy_rows(s, scratch, from, stride, n);
    *ld = s->words;
    return scratch;
}

/* The form `stacked`, of rows: f32 as they are, pairs of bf16 in `scratch`. A row that is missing is 0. */
SIMD_FN const float *stacked_form(const heads *s, float *scratch, const float *rows, int64_t ld, int64_t n,
                                  int64_t *ld_stacked)
{
    if (s->unit == 1) {
        *ld_stacked = ld;
        return rows;
    }
    const uint16_t *even = (const uint16_t *)(const void *)rows;
    for (int64_t r = 0; r < n; r += 2, even += 4 * ld)
        for (int64_t c = 0; c < s->dp; c += VF_LANES) {
            const vi low = vh_widen(vh_load(even + c)),
                     high = r + 1 < n ? vh_widen(vh_load(even + 2 * ld + c)) << 16 : (vi){ 0 };
            vi_store((int32_t *)(scratch + r / 2 * s->dp + c), low | high);
        }
    *ld_stacked = s->dp;
    return scratch;
}

/* The form `columns`, of rows. Behind the last row are zeros, up to a whole vector. */
SIMD_FN void columns_form(const heads *s, float *to, const float *rows, int64_t ld, int64_t n)
{
    for (int64_t i = 0; i < n; i += STRIP)
        LS_NAME(ls_small_transpose)
    (to + i * s->words, STRIP, rows + i * ld, ld, min_i64(STRIP, n - i), s->words);
}
/* Where columns of row i begin; i is a multiple of VF_LANES. */
SIMD_FN const float *columns_at(const heads *s, const float *columns, int64_t i)
{
    return columns + i / STRIP * STRIP * s->words + i % STRIP;
}
SIMD_FN int64_t columns_size(const heads *s, int64_t rows)
{
    return round_up(rows, STRIP_MAX) * round_up(s->D, 16);
}

/* VF_LANES results of two rows as words of depth, for products whose depth is the rows; and as rows of bf16,
 * for products whose depth is the columns. Subnormal numbers become 0. */
#ifdef LS_LEVEL_avx512bf16
SIMD_FN void put_pairs(float *to, vf even, vf odd)
{
    const __m256i low = (__m256i)_mm512_cvtneps_pbh(even), high = (__m256i)_mm512_cvtneps_pbh(odd);
    vi_store((int32_t *)to, vh_widen((vh)low) | vh_widen((vh)high) << 16);
}
SIMD_FN void put_bf16(uint16_t *to, vf x) { vh_store(to, (vh)_mm512_cvtneps_pbh(x)); }
#else
/* Levels without bf16 instructions compile these two and never call them. */
SIMD_FN void put_pairs(float *to, vf even, vf odd)
{
    (void)to;
    (void)even;
    (void)odd;
}
SIMD_FN void put_bf16(uint16_t *to, vf x)
{
    (void)to;
    (void)x;
}
#endif
