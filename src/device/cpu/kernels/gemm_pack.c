/* gemm_pack.c - the f32 form of operands: copies them in the order in which tiles read them, and converts
 * bf16 and f16 to f32 on the way. gemm.h describes the layouts. */
#include "gemm.h"

enum {
    WIDE_PANELS =
        4, /* panels, or tiles of A, that are packed together, so that long parts of a row are read at once */
    AHEAD_ROWS = 8,             /* rows that a straight copy prefetches ahead */
    AHEAD_BYTES = 4 * GEMM_LINE /* bytes of a row that a transposing copy prefetches ahead */
};

/* With GEMM_PAIRS, the f32 form takes the odd element of each pair first, as vdpbf16ps does (gemm_form): step
 * k has element k ^ 1. Within a vector along depth, neighbouring lanes are swapped (in_order); in a matrix
 * whose rows are steps, rows are (row_at). */
SIMD_FN vf in_order(ls_dtype t, vf v)
{
#if VF_LANES == 16
    return GEMM_PAIRS(t) ? __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
                         : v;
#else
    (void)GEMM_PAIRS(t);
    return v;
#endif
}
SIMD_FN int64_t row_at(ls_dtype t, int64_t k) { return GEMM_PAIRS(t) ? k ^ 1 : k; }

/* One panel of nr columns from the rows of w: to[k][j] = w[j0 + j][k0 + k] for j < cols, else 0. Squares of
 * VF_LANES x VF_LANES elements are transposed in registers and stored as whole vectors. If nr is less than a
 * vector, each lies over the end of the one before, and the last goes beyond the panel (packed_tile). */
SIMD_FN void pack_transposed(ls_dtype t, float *to, int nr, const ls_tensor *w, int64_t k0, int64_t depth,
                             int64_t j0, int cols)
{
    const int64_t ld = row_stride(w) * elem_size(t), have = cols_of(w) - k0;
    for (int j = 0; j < nr; j += VF_LANES)
        for (int64_t k = 0; k < depth; k += VF_LANES) {
            const int n = (int)min_i64(VF_LANES, depth - k);
            const char *from = (const char *)w->data + (j0 + j) * ld + (k0 + k) * elem_size(t);
            float *out = to + k * nr + j;
            vf r[VF_LANES];
            if (j + VF_LANES <= cols && k + VF_LANES <= have && n == VF_LANES) {
#pragma GCC unroll 16
                for (int i = 0; i < VF_LANES; i++) {
                    r[i] = in_order(t, vf_get(from, t, 0));
                    __builtin_prefetch(from + AHEAD_BYTES);
                    from += ld;
                    OPAQUE(from);
                }
                transpose(r);
#pragma GCC unroll 16
                for (int i = 0; i < VF_LANES; i++)
                    vf_store(out + i * nr, r[i]);
            } else {
                for (int i = 0; i < VF_LANES; i++, from += ld)
                    r[i] = j + i < cols ? in_order(t, vf_get_n(from, t, 0, (int)min_i64(n, have - k)))
                                        : vf_zero();
                transpose(r);
                for (int i = 0; i < n; i++)
                    vf_store(out + i * nr, r[i]);
            }
        }
}

/* One panel: to[k][j] = b[k0 + k][j0 + j] for j < cols, else 0. */
SIMD_FN void pack_straight(ls_dtype t, float *to, int nr, const ls_tensor *b, int64_t k0, int64_t depth,
                           int64_t j0, int cols)
{
    const int64_t ld = row_stride(b) * elem_size(t), have = rows_of(b) - k0;
    const char *first = (const char *)b->data + k0 * ld + j0 * elem_size(t);
    for (int64_t k = 0; k < depth; k++, to += nr) {
        const int n = row_at(t, k) < have ? cols : 0;
        const char *from = n ? first + row_at(t, k) * ld : first;
        for (int j = 0; j < nr; j += VF_LANES)
            vf_store(to + j, n - j >= VF_LANES ? vf_get(from, t, j)
                                               : vf_get_n(from, t, n > j ? j : 0, n > j ? n - j : 0));
    }
}
/* `panels` panels of full width. */
SIMD_FN void pack_straight_wide(ls_dtype t, float *to, int panels, const ls_tensor *b, int64_t k0,
                                int64_t depth, int64_t j0)
{
    const int64_t ld = row_stride(b) * elem_size(t), have = rows_of(b) - k0, width = 2 * VF_LANES;
    const char *first = (const char *)b->data + k0 * ld + j0 * elem_size(t);
    for (int64_t k = 0; k < depth; k++, to += width) {
        const char *from = first + row_at(t, k) * ld;
        const bool is = row_at(t, k) < have;
        for (int j = 0; j < panels; j++) {
            const char *ahead = from + AHEAD_ROWS * ld + width * j * elem_size(t);
            __builtin_prefetch(ahead);
            if (width * elem_size(t) > GEMM_LINE) /* the row of a panel has two lines */
                __builtin_prefetch(ahead + width / 2 * elem_size(t));
            vf_store(to + j * depth * width, is ? vf_get(from, t, width * j) : vf_zero());
            vf_store(to + j * depth * width + VF_LANES,
                     is ? vf_get(from, t, width * j + VF_LANES) : vf_zero());
        }
    }
}

SIMD_FN void pack_panels(ls_dtype t, const gemm_plan *p, float *to, const ls_tensor *b, int64_t k0,
                         int64_t depth, int64_t j0, int64_t j1)
{
    while (j0 < j1) {
        const int whole = (int)min_i64(WIDE_PANELS, (j1 - j0) / p->nr),
                  panels = whole && p->kind != GEMM_LINEAR ? whole : 1;
        if (p->kind == GEMM_LINEAR)
            pack_transposed(t, to, p->nr, b, k0, depth, j0, (int)min_i64(p->nr, j1 - j0));
        else if (whole)
            pack_straight_wide(t, to, whole, b, k0, depth, j0);
        else
            pack_straight(t, to, p->nr, b, k0, depth, j0, (int)(j1 - j0));
        j0 += panels * p->nr;
        to += panels * p->nr * depth;
    }
}

static void pack_b(const gemm_plan *p, float *to, const ls_tensor *b, int64_t k0, int64_t depth, int64_t j0,
                   int64_t j1)
{
    BY_FLOAT(b->type.dtype, pack_panels, p, to, b, k0, depth, j0, j1);
}

SIMD_FN void copy_rows(ls_dtype t, float *to, int64_t to_ld, const ls_tensor *a, int64_t i0, int rows,
                       int64_t k0, int64_t depth)
{
    const int64_t ld = row_stride(a), have = min_i64(depth, cols_of(a) - k0);
    for (int i = 0; i < rows; i++) {
        const int64_t at = (i0 + i) * ld + k0;
        int64_t k = 0;
        for (; k + VF_LANES <= have; k += VF_LANES)
            vf_store(to + i * to_ld + k, in_order(t, vf_get(a->data, t, at + k)));
        if (k < depth)
            vf_store(to + i * to_ld + k, in_order(t, vf_get_n(a->data, t, at + k, (int)(have - k))));
    }
}

static void copy_a(float *to, int64_t to_ld, const ls_tensor *a, int64_t i0, int rows, int64_t k0,
                   int64_t depth)
{
    BY_FLOAT(a->type.dtype, copy_rows, to, to_ld, a, i0, rows, k0, depth);
}

/* Packs n tiles of a strip of linear_dw's A, each [k][GEMM_A_STEP]: a row k of `a` has the tile's rows side
 * by side. A tile reads as many lanes as its height; `whole`: the other lanes may be read from `a` too,
 * because it has that many columns. n is WIDE_PANELS or 1. The columns of `a` are summed at the same time
 * (the bias gradient): in blocks of GEMM_KC steps, which are added in ascending order to `sums` (NULL: not
 * wanted). `add`: sums has a value already. */
SIMD_FN void pack_columns(ls_dtype t, int n, bool whole, float *to, float *sums, bool add, const ls_tensor *a,
                          const int *first_row, int64_t k0, int64_t depth)
{
    const int64_t ld = row_stride(a) * elem_size(t), have = rows_of(a) - k0, stride = packed_tile(depth);
    const char *begin = (const char *)a->data + k0 * ld + first_row[0] * elem_size(t);
    int64_t at[WIDE_PANELS]; /* bytes from the first tile */
    int height[WIDE_PANELS];
#pragma GCC unroll 4
    for (int i = 0; i < n; i++) {
        at[i] = (first_row[i] - first_row[0]) * elem_size(t);
        height[i] = first_row[i + 1] - first_row[i];
    }
    for (int64_t k = 0; k < depth;) {
        vf sum[WIDE_PANELS] = { 0 };
        for (const int64_t end = min_i64(depth, k + GEMM_KC); k < end; k++, to += GEMM_A_STEP) {
            if (row_at(t, k) >= have) { /* depth is odd: a zero completes the last pair */
                for (int i = 0; i < n; i++)
                    vf_store(to + i * stride, vf_zero());
                continue;
            }
            const char *from = begin + row_at(t, k) * ld;
#pragma GCC unroll 4
            for (int i = 0; i < n; i++) {
                const vf v = whole ? vf_get(from + at[i], t, 0) : vf_get_n(from + at[i], t, 0, height[i]);
                __builtin_prefetch(from + at[i] + AHEAD_ROWS * ld);
                vf_store(to + i * stride, v);
                sum[i] = sum[i] + v;
            }
        }
        for (int i = 0; sums && i < n; i++) {
            float *total = sums + first_row[i];
            vf_store_n(total, add ? vf_load_n(total, height[i]) + sum[i] : sum[i], height[i]);
        }
        add = true;
    }
}

SIMD_FN void pack_strip(ls_dtype t, float *to, float *sums, bool add, const ls_tensor *a,
                        const int *first_row, int tiles, int64_t k0, int64_t depth)
{
    for (int tile = 0, n; tile < tiles; tile += n, first_row += n, to += n * packed_tile(depth)) {
        n = tile + WIDE_PANELS <= tiles ? WIDE_PANELS : 1;
        const bool whole = first_row[n - 1] + VF_LANES <= cols_of(a);
        if (n == WIDE_PANELS && whole)
            pack_columns(t, WIDE_PANELS, true, to, sums, add, a, first_row, k0, depth);
        else if (n == WIDE_PANELS)
            pack_columns(t, WIDE_PANELS, false, to, sums, add, a, first_row, k0, depth);
        else
            pack_columns(t, 1, false, to, sums, add, a, first_row, k0, depth);
    }
}

static void pack_a(float *to, int64_t to_ld, float *sums, bool add, const ls_tensor *a, const int *first_row,
                   int tiles, int64_t k0, int64_t depth)
{
    (void)to_ld;
    BY_FLOAT(a->type.dtype, pack_strip, to, sums, add, a, first_row, tiles, k0, depth);
}

/* Packs the tiles of a strip of a row-major A: each is a panel of GEMM_A_STEP columns, of which the
 * tile reads as many as its height. The others hold what is in the rows below, because whole squares are
 * faster. */
SIMD_FN void pack_row_tiles(ls_dtype t, float *to, const ls_tensor *a, const int *first_row, int tiles,
                            int64_t k0, int64_t depth)
{
    for (int tile = 0; tile < tiles; tile++, to += packed_tile(depth))
        pack_transposed(t, to, GEMM_A_STEP, a, k0, depth, first_row[tile],
                        (int)min_i64(VF_LANES, rows_of(a) - first_row[tile]));
}

static void pack_rows(float *to, const ls_tensor *a, const int *first_row, int tiles, int64_t k0,
                      int64_t depth)
{
    BY_FLOAT(a->type.dtype, pack_row_tiles, to, a, first_row, tiles, k0, depth);
}

const gemm_form LS_NAME(ls_gemm_f32_form) = { .unit = 1,
                                              .tiles = LS_NAME(ls_gemm_tiles),
                                              .pack_b = pack_b,
                                              .copy_a = copy_a,
                                              .pack_a = pack_a,
                                              .pack_rows = pack_rows };
