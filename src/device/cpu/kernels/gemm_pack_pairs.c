/* gemm_pack_pairs.c - the dot form of operands (gemm_form): a word is two bf16 that follow each other in
 * depth, the even one in the low half. The functions correspond to those of gemm_pack.c, with a pair of rows
 * or elements in place of one. */
#include "gemm.h"
#ifdef LS_BF16_PAIRS

int LS_NAME(ls_gemm_use_dot) = -1;

enum {
    WIDE_PANELS = 4,   /* panels that are packed together, so that long parts of a row are read at once */
    AHEAD_ROWS = 8,    /* rows that a copy of B prefetches ahead */
    AHEAD_ROWS_A = 16, /* the same for A */
    AHEAD_BF16 = 4 * GEMM_LINE / 2 /* elements of a row that a transposing copy prefetches ahead */
};

/* 32 bf16 at p as words; only the first n exist (n <= 0: none), the others are 0. */
SIMD_FN vf words(const uint16_t *p, int64_t n)
{
    return n >= 32 ? (vf)_mm512_loadu_si512(p)
                   : (vf)_mm512_maskz_loadu_epi16(n > 0 ? ((__mmask32)1 << n) - 1 : 0, p);
}
/* Words from two rows: lane j has even[j] in its low half and odd[j] in its high half. odd NULL: zeros. Lanes
 * from n on are 0. */
SIMD_FN vf weave(const uint16_t *even, const uint16_t *odd, int64_t n)
{
    const int m = n >= VF_LANES ? VF_LANES : n > 0 ? (int)n : 0;
    const vi low = vh_widen(vh_load_n(even, m)), high = odd ? vh_widen(vh_load_n(odd, m)) << 16 : (vi){ 0 };
    return (vf)(low | high);
}

static void pack_transposed(float *to, const ls_tensor *w, int64_t k0, int64_t steps, int64_t j0,
                            int64_t cols)
{
    const int64_t ld = row_stride(w), have = cols_of(w) - k0;
    for (int j = 0; j < 2 * VF_LANES; j += VF_LANES)
        for (int64_t s = 0; s < steps; s += VF_LANES) {
            const uint16_t *from = (const uint16_t *)w->data + (j0 + j) * ld + k0 + 2 * s;
            const int n = (int)min_i64(VF_LANES, steps - s);
            float *out = to + s * 2 * VF_LANES + j;
            vf r[VF_LANES];
            if (j + VF_LANES <= cols && 2 * (s + VF_LANES) <= have) {
#pragma GCC unroll 16
                for (int i = 0; i < VF_LANES; i++) {
                    r[i] = (vf)_mm512_loadu_si512(from);
                    __builtin_prefetch(from + AHEAD_BF16);
                    from += ld;
                    OPAQUE(from);
                }
                transpose(r);
#pragma GCC unroll 16
                for (int i = 0; i < VF_LANES; i++)
                    vf_store(out + i * 2 * VF_LANES, r[i]);
            } else {
                for (int i = 0; i < VF_LANES; i++, from += ld)
                    r[i] = j + i < cols ? words(from, have - 2 * s) : vf_zero();
                transpose(r);
                for (int i = 0; i < n; i++)
                    vf_store(out + i * 2 * VF_LANES, r[i]);
            }
        }
}

static void pack_straight(float *to, int panels, const ls_tensor *b, int64_t k0, int64_t steps, int64_t j0,
                          int64_t cols)
{
    const int64_t ld = row_stride(b), have = rows_of(b) - k0, width = 2 * VF_LANES;
    const uint16_t *even = (const uint16_t *)b->data + k0 * ld + j0;
    for (int64_t s = 0; s < steps; s++, even += 2 * ld, to += width) {
        const uint16_t *odd = 2 * s + 1 < have ? even + ld : NULL;
        const int64_t there = 2 * s < have ? cols : 0;
        for (int j = 0; j < panels; j++) {
            __builtin_prefetch(even + AHEAD_ROWS * ld + j * width);
            __builtin_prefetch(even + (AHEAD_ROWS + 1) * ld + j * width);
            for (int v = 0; v < 2; v++) {
                const int64_t at = j * width + v * VF_LANES;
                vf_store(to + j * steps * width + v * VF_LANES,
                         weave(even + at, odd ? odd + at : NULL, there - at));
            }
        }
    }
}

void LS_NAME(ls_gemm_pack_b_pairs)(const gemm_plan *p, float *to, const ls_tensor *b, int64_t k0,
                                   int64_t steps, int64_t j0, int64_t j1)
{
    while (j0 < j1) {
        const int panels = p->kind == GEMM_LINEAR ? 1
                                                  : (int)min_i64(WIDE_PANELS, (j1 - j0 + p->nr - 1) / p->nr);
        if (p->kind == GEMM_LINEAR)
            pack_transposed(to, b, k0, steps, j0, j1 - j0);
        else
            pack_straight(to, panels, b, k0, steps, j0, j1 - j0);
        j0 += panels * p->nr;
        to += panels * p->nr * steps;
    }
}

void LS_NAME(ls_gemm_copy_a_pairs)(float *to, int64_t to_ld, const ls_tensor *a, int64_t i0, int rows,
                                   int64_t k0, int64_t steps)
{
    const int64_t ld = row_stride(a), have = min_i64(2 * steps, cols_of(a) - k0);
    for (int i = 0; i < rows; i++)
        for (int64_t s = 0; s < steps; s += VF_LANES)
            vf_store(to + i * to_ld + s,
                     words((const uint16_t *)a->data + (i0 + i) * ld + k0 + 2 * s, have - 2 * s));
}

_Static_assert(GEMM_A_STEP == VF_LANES, "pack_a stores one vector after the other");
static void pack_a(float *to, int64_t to_ld, float *sums, bool add, const ls_tensor *a, const int *first_row,
                   int tiles, int64_t k0, int64_t steps)
{
    (void)to_ld;
    const int64_t ld = row_stride(a), have = rows_of(a) - k0;
    for (int t = 0; t < tiles; t++) {
        const int height = first_row[t + 1] - first_row[t];
        const uint16_t *even = (const uint16_t *)a->data + k0 * ld + first_row[t];
        bool on_top = add;
        for (int64_t s = 0; s < steps;) {
            vf sum = vf_zero();
            for (const int64_t end = min_i64(steps, s + GEMM_KC / 2); s < end;
                 s++, even += 2 * ld, to += VF_LANES) {
                const vf w = weave(even, 2 * s + 1 < have ? even + ld : NULL, height);
                __builtin_prefetch(even + AHEAD_ROWS_A * ld);
                __builtin_prefetch(even + (AHEAD_ROWS_A + 1) * ld);
                vf_store(to, w);
                sum = sum + (vf)((vi)w & (vi_set1(-1) << 16)); /* the odd element first, as in the products */
                sum = sum + (vf)((vi)w << 16);
            }
            if (sums) {
                float *total = sums + first_row[t];
                vf_store_n(total, on_top ? vf_load_n(total, height) + sum : sum, height);
            }
            on_top = true;
        }
    }
}

/* The AMX form: rows of words, as copy_a makes them. Squares of VF_LANES x VF_LANES words are transposed in
 * registers. */
void LS_NAME(ls_gemm_pack_a_rows)(float *to, int64_t to_ld, float *sums, bool add, const ls_tensor *a,
                                  const int *first_row, int tiles, int64_t k0, int64_t steps)
{
    const int64_t ld = row_stride(a), have = rows_of(a) - k0;
    for (int i = first_row[0]; i < first_row[tiles]; i += VF_LANES, to += VF_LANES * to_ld) {
        const int n = (int)min_i64(VF_LANES, first_row[tiles] - i);
        const uint16_t *even = (const uint16_t *)a->data + k0 * ld + i;
        bool on_top = add;
        vf sum = vf_zero();
        for (int64_t s = 0; s < steps; s += VF_LANES) {
            vf r[VF_LANES];
#pragma GCC unroll 16
            for (int k = 0; k < VF_LANES; k++, even += 2 * ld) {
                const int64_t at = 2 * (s + k);
                r[k] = weave(even, at + 1 < have ? even + ld : NULL, at < have ? n : 0);
                __builtin_prefetch(even + AHEAD_ROWS_A * ld);
                __builtin_prefetch(even + (AHEAD_ROWS_A + 1) * ld);
                sum = sum + (vf)((vi)r[k] & (vi_set1(-1) << 16));
                sum = sum + (vf)((vi)r[k] << 16);
            }
            transpose(r);
#pragma GCC unroll 16
            for (int k = 0; k < VF_LANES; k++)
                vf_store(to + k * to_ld + s, r[k]);
            if (sums && ((s + VF_LANES) % (GEMM_KC / 2) == 0 || s + VF_LANES >= steps)) {
                float *total = sums + i;
                vf_store_n(total, on_top ? vf_load_n(total, n) + sum : sum, n);
                on_top = true;
                sum = vf_zero();
            }
        }
    }
}

const gemm_form LS_NAME(ls_gemm_dot_form) = { .unit = 2,
                                              .tiles = LS_NAME(ls_gemm_dot_tiles),
                                              .pack_b = LS_NAME(ls_gemm_pack_b_pairs),
                                              .copy_a = LS_NAME(ls_gemm_copy_a_pairs),
                                              .pack_a = pack_a };
#endif
