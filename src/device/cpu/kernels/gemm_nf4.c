/* gemm_nf4.c - packs a weight of 4 bits (base/nf4.h): a square of it becomes numbers in a little memory that
 * stays in L1, and is packed from there as ordinary weights are. So products have the bits that the unpacked
 * weight gives, and read a quarter of its bytes. */
#include "gemm.h"
#include "nf4.h"

enum {
    WIDE = 2 * LS_NF4_BLOCK, /* linear: elements of depth of a square; its rows are those of a panel */
    TALL = LS_NF4_BLOCK      /* linear_dx: rows of w of a square that is a block wide */
};

/* The numbers of rows [row, row + rows) and columns [k, k + n), whole blocks, in rows of `ld` elements. On
 * the way the next codes of each row are prefetched: hardware does not follow so many rows. */
SIMD_FN void unpack(ls_dtype t, char *to, int64_t ld, const ls_tensor *w, const ls_tensor *scales,
                    int64_t row, int64_t rows, int64_t k, int64_t n)
{
    for (int64_t r = 0; r < rows; r++) {
        const uint8_t *codes = (const uint8_t *)elem_at(w, (row + r) * row_stride(w) + k / 2);
        const float *s = (const float *)elem_at(scales, (row + r) * row_stride(scales) + k / LS_NF4_BLOCK);
        __builtin_prefetch(codes + n / 2);
        for (int64_t b = 0; b * LS_NF4_BLOCK < n; b++)
            nf4_block(t, to + (r * ld + b * LS_NF4_BLOCK) * elem_size(t), codes + b * LS_NF4_BLOCK / 2, s[b]);
    }
}

SIMD_FN ls_tensor square_of(ls_dtype t, char *data, int64_t rows, int64_t cols, int64_t ld)
{
    return (ls_tensor){ .data = data,
                        .type = { .dtype = t, .ndim = 2, .dims = { rows, cols } },
                        .strides = { ld, 1 } };
}

/* linear: panels of rows of w */
SIMD_FN void pack_rows_of(ls_dtype t, const gemm_form *f, const gemm_plan *p, float *to, const ls_tensor *w,
                          const ls_tensor *scales, int64_t k0, int64_t steps, int64_t j0, int64_t j1)
{
    float room[2 * VF_LANES * WIDE];
    for (int64_t j = j0; j < j1; j += p->nr, to += p->nr * steps) {
        const int64_t rows = min_i64(p->nr, j1 - j);
        for (int64_t s = 0; s < steps; s += WIDE / f->unit) {
            const int64_t k = k0 + s * f->unit, n = min_i64(WIDE, p->depth - k);
            unpack(t, (char *)room, WIDE, w, scales, j, rows, k, n);
            const ls_tensor square = square_of(t, (char *)room, rows, n, WIDE);
            f->pack_b(p, to + s * p->nr, &square, 0, min_i64(steps - s, WIDE / f->unit), 0, rows);
        }
    }
}

/* linear_dx: panels of columns of w */
SIMD_FN void pack_columns_of(ls_dtype t, const gemm_form *f, const gemm_plan *p, float *to,
                             const ls_tensor *w, const ls_tensor *scales, int64_t k0, int64_t steps,
                             int64_t j0, int64_t j1)
{
    float room[TALL * LS_NF4_BLOCK];
    for (int64_t block = j0 / LS_NF4_BLOCK * LS_NF4_BLOCK; block < j1; block += LS_NF4_BLOCK) {
        const int64_t first = block < j0 ? j0 : block, end = min_i64(j1, block + LS_NF4_BLOCK);
        for (int64_t s = 0; s < steps; s += TALL / f->unit) {
            const int64_t k = k0 + s * f->unit, rows = min_i64(TALL, p->depth - k);
            unpack(t, (char *)room, LS_NF4_BLOCK, w, scales, k, rows, block, LS_NF4_BLOCK);
            const ls_tensor square = square_of(t, (char *)room, rows, LS_NF4_BLOCK, LS_NF4_BLOCK);
            for (int64_t j = first; j < end; j += p->nr)
                f->pack_b(p, to + (j - j0) * steps + s * p->nr, &square, 0,
                          min_i64(steps - s, TALL / f->unit), j - block, min_i64(j + p->nr, end) - block);
        }
    }
}

void LS_NAME(ls_gemm_pack_nf4)(const gemm_form *f, const gemm_plan *p, float *to, const ls_kernel_args *a,
                               int64_t k0, int64_t steps, int64_t j0, int64_t j1)
{
    const ls_tensor *w = &a->in[1], *scales = &a->in[GEMM_SCALES];
    if (p->kind == GEMM_LINEAR)
        BY_FLOAT(a->in[0].type.dtype, pack_rows_of, f, p, to, w, scales, k0, steps, j0, j1);
    else
        BY_FLOAT(a->in[0].type.dtype, pack_columns_of, f, p, to, w, scales, k0, steps, j0, j1);
}
