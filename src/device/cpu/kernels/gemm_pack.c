/* gemm_pack.c - laying operands out as the tiles read them, converting bf16 and f16 to f32 on the way. See gemm.h for the layouts. */
#include "gemm.h"

/* VF_LANES rows of VF_LANES elements, transposed: log2(lanes) rounds of interleaving rows i and i + lanes/2. */
#if VF_LANES == 16
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define HIGH(a, b) __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif VF_LANES == 8
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif
SIMD_FN void transpose(vf *r) {
#pragma GCC unroll 4
    for (int round = 1; round < VF_LANES; round *= 2) {
        vf s[VF_LANES];
#pragma GCC unroll 8
        for (int i = 0; i < VF_LANES / 2; i++) {
            s[2 * i] = LOW(r[i], r[i + VF_LANES / 2]);
            s[2 * i + 1] = HIGH(r[i], r[i + VF_LANES / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < VF_LANES; i++)
            r[i] = s[i];
    }
}

/* to[k][nr] = w[j0 + j][k0 + k] for j < cols, 0 beyond. */
SIMD_FN void pack_transposed(ls_dtype t, float *to, int nr, const ls_tensor *w, int64_t k0, int64_t depth, int64_t j0, int cols) {
    const int64_t ld = row_stride(w) * elem_size(t);
    for (int j = 0; j < nr; j += VF_LANES)
        for (int64_t k = 0; k < depth; k += VF_LANES) {
            const int n = (int)min_i64(VF_LANES, depth - k);
            const char *from = (const char *)w->data + (j0 + j) * ld + (k0 + k) * elem_size(t);
            float *out = to + k * nr + j;
            vf r[VF_LANES];
            if (j + VF_LANES <= cols && n == VF_LANES) {
#pragma GCC unroll 16
                for (int i = 0; i < VF_LANES; i++) {
                    r[i] = vf_get(from, t, 0);
                    from += ld;
                    OPAQUE(from);
                }
                transpose(r);
#pragma GCC unroll 16
                for (int i = 0; i < VF_LANES; i++)
                    vf_store(out + i * nr, r[i]);
            } else {
                for (int i = 0; i < VF_LANES; i++, from += ld)
                    r[i] = j + i < cols ? vf_get_n(from, t, 0, n) : vf_zero();
                transpose(r);
                for (int i = 0; i < n; i++)
                    vf_store(out + i * nr, r[i]);
            }
        }
}

/* to[k][nr] = b[k0 + k][j0 + j] for j < cols, 0 beyond. */
SIMD_FN void pack_straight(ls_dtype t, float *to, int nr, const ls_tensor *b, int64_t k0, int64_t depth, int64_t j0, int cols) {
    const int64_t ld = row_stride(b);
    for (int64_t k = 0; k < depth; k++)
        for (int j = 0; j < nr; j += VF_LANES) {
            const int n = cols - j < 0 ? 0 : cols - j;
            const int64_t at = (k0 + k) * ld + j0 + j;
            vf_store(to + k * nr + j, n >= VF_LANES ? vf_get(b->data, t, at) : vf_get_n(b->data, t, n ? at : 0, n));
        }
}

void LS_NAME(ls_gemm_pack_b)(const gemm_plan *p, float *to, const ls_tensor *b, int64_t k0, int64_t depth, int64_t j0, int cols) {
    if (p->kind == GEMM_LINEAR)
        BY_FLOAT(b->type.dtype, pack_transposed, to, p->nr, b, k0, depth, j0, cols);
    else
        BY_FLOAT(b->type.dtype, pack_straight, to, p->nr, b, k0, depth, j0, cols);
}

SIMD_FN void copy_rows(ls_dtype t, float *to, int64_t to_ld, const ls_tensor *a, int64_t i0, int rows, int64_t k0, int64_t depth) {
    const int64_t ld = row_stride(a);
    for (int i = 0; i < rows; i++) {
        const int64_t at = (i0 + i) * ld + k0;
        int64_t k = 0;
        for (; k + VF_LANES <= depth; k += VF_LANES)
            vf_store(to + i * to_ld + k, vf_get(a->data, t, at + k));
        if (k < depth)
            vf_store(to + i * to_ld + k, vf_get_n(a->data, t, at + k, (int)(depth - k)));
    }
}

void LS_NAME(ls_gemm_copy_a)(float *to, int64_t to_ld, const ls_tensor *a, int64_t i0, int rows, int64_t k0, int64_t depth) {
    BY_FLOAT(a->type.dtype, copy_rows, to, to_ld, a, i0, rows, k0, depth);
}

/* Tile after tile, each [k][VF_LANES]: whole aligned vectors, of which the tile reads its height. */
SIMD_FN void pack_columns(ls_dtype t, float *to, const ls_tensor *a, int64_t i0, int rows, int tiles, int64_t k0, int64_t depth) {
    const int64_t ld = row_stride(a);
    for (int tile = 0; tile < tiles; tile++) {
        const int64_t begin = part_begin(rows, tile, tiles), height = part_begin(rows, tile + 1, tiles) - begin;
        const bool whole = i0 + begin + VF_LANES <= cols_of(a); /* reading beyond the tile's columns is harmless then */
        for (int64_t k = 0; k < depth; k++, to += VF_LANES) {
            const int64_t at = (k0 + k) * ld + i0 + begin;
            vf_store(to, whole ? vf_get(a->data, t, at) : vf_get_n(a->data, t, at, (int)height));
        }
    }
}

void LS_NAME(ls_gemm_pack_a)(float *to, const ls_tensor *a, int64_t i0, int rows, int tiles, int64_t k0, int64_t depth) {
    BY_FLOAT(a->type.dtype, pack_columns, to, a, i0, rows, tiles, k0, depth);
}
