/* gemm_tile_amx.c - the inner loop with AMX: a tile of up to 32 x 32 sums is four of the processor's eight
 * tile registers of 16 rows of 64 bytes; two more hold A (16 rows, 16 words of depth each) and two B (16
 * words of depth, 16 columns each). All of it lies in memory as gemm.h says: rows of A, and [k][nr] of B.
 *
 * TDPBF16PS computes, for every sum and 16 words of depth (Intel SDM vol. 2), in f32 and with subnormals
 * taken as zero:
 *
 *   even = odd = 0; for each word: even = fma(a.even, b.even, even), odd = fma(a.odd, b.odd, odd)
 *   sum = sum + (even + odd)
 *
 * gemm_row.c does the same for a single row. */
#include "gemm.h"
#ifdef LS_LEVEL_amx

enum {
    TILE_ROWS = 16,  /* rows of a tile register */
    TILE_BYTES = 64, /* bytes of such a row: 16 words */
    TILE_STEPS = 16  /* words of depth that one instruction takes */
};

/* The registers (the intrinsics want their numbers as text). */
#define C00 0 /* sums of the upper rows, left and right; */
#define C01 1
#define C10 2 /* of the lower rows; */
#define C11 3
#define A0 4 /* upper and lower rows of A; */
#define A1 5
#define B0 6 /* left and right columns of B */
#define B1 7

/* What LDTILECFG reads: palette 1, and the size of each register. */
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

static void set_rows(int rows)
{
    const uint8_t upper = (uint8_t)(rows < TILE_ROWS ? rows : TILE_ROWS),
                  lower = (uint8_t)(rows > TILE_ROWS ? rows - TILE_ROWS : TILE_ROWS);
    tile_config c = { .palette = 1,
                      .rows = { upper, upper, lower, lower, upper, lower, TILE_STEPS, TILE_STEPS } };
    for (int i = 0; i < 8; i++)
        c.row_bytes[i] = TILE_BYTES;
    __asm__ volatile("ldtilecfg %0" : : "m"(c)); /* (gcc 12's intrinsic names only the first 8 bytes) */
}

static void amx_leave(void) { _tile_release(); }

/* A gemm_tile with lower (more than TILE_ROWS rows) and right (more than VF_LANES columns) constant. */
SIMD_FN void tile(bool lower, bool right, int64_t depth, const float *a, int64_t row_bytes, const float *b,
                  float *c, int64_t ldc, bool add, const gemm_ahead *ahead, int64_t row)
{
    const int64_t c_bytes = ldc * (int64_t)sizeof(float), b_bytes = 2 * TILE_BYTES;
    float *const c1 = c + TILE_ROWS * ldc;
    _tile_zero(C00);
    if (right)
        _tile_zero(C01);
    if (lower)
        _tile_zero(C10);
    if (lower && right)
        _tile_zero(C11);
    if (add) {
        _tile_loadd(C00, c, c_bytes);
        if (right)
            _tile_loadd(C01, c + VF_LANES, c_bytes);
        if (lower)
            _tile_loadd(C10, c1, c_bytes);
        if (lower && right)
            _tile_loadd(C11, c1 + VF_LANES, c_bytes);
    }
    for (; depth > 0; depth -= TILE_STEPS) {
        _tile_loadd(B0, b, b_bytes);
        _tile_stream_loadd(A0, a, row_bytes);
        _tile_dpbf16ps(C00, A0, B0);
        if (right) {
            _tile_loadd(B1, b + VF_LANES, b_bytes);
            _tile_dpbf16ps(C01, A0, B1);
        }
        if (lower) {
            _tile_stream_loadd(A1, (const char *)a + TILE_ROWS * row_bytes, row_bytes);
            _tile_dpbf16ps(C10, A1, B0);
        }
        if (lower && right)
            _tile_dpbf16ps(C11, A1, B1);
        for (int i = 0; ahead && i < TILE_STEPS / GEMM_AHEAD_STEPS; i++, ahead++) {
            const char *line = ahead->at + row * ahead->row_bytes;
            for (int l = 0; ahead->row_bytes && l < TILE_ROWS * (lower ? 2 : 1);
                 l++, line += ahead->row_bytes)
                __builtin_prefetch(line, 0, GEMM_TO_L2);
        }
        a += TILE_STEPS;
        b += TILE_STEPS * 2 * VF_LANES;
    }
    _tile_stored(C00, c, c_bytes);
    if (right)
        _tile_stored(C01, c + VF_LANES, c_bytes);
    if (lower)
        _tile_stored(C10, c1, c_bytes);
    if (lower && right)
        _tile_stored(C11, c1 + VF_LANES, c_bytes);
}

/* The sums never go to an f32 output directly, so there is no bias to add. */
#define TILE(name, lower, right)                                                                     \
    static void name(int64_t steps, const float *a, int64_t row_bytes, const float *b, float *c,     \
                     int64_t ldc, bool add, const float *bias, const gemm_ahead *ahead, int64_t row) \
    {                                                                                                \
        (void)bias;                                                                                  \
        tile(lower, right, steps, a, row_bytes, b, c, ldc, add, ahead, row);                         \
    }
TILE(tile_1_1, false, false)
TILE(tile_1_2, false, true)
TILE(tile_2_1, true, false)
TILE(tile_2_2, true, true)
#define WIDTHS                                                                                               \
    {                                                                                                        \
        { [0 ... 15] = tile_1_1, [16 ... 31] = tile_2_1 }, { [0 ... 15] = tile_1_2, [16 ... 31] = tile_2_2 } \
    }
static const gemm_tile tiles[2][2][GEMM_MAX_MR] = { WIDTHS, WIDTHS };

const gemm_form LS_NAME(ls_gemm_amx_form) = { .unit = 2,
                                              .tiles = tiles,
                                              .pack_b = LS_NAME(ls_gemm_pack_b_pairs),
                                              .copy_a = LS_NAME(ls_gemm_copy_a_pairs),
                                              .pack_a = LS_NAME(ls_gemm_pack_a_rows),
                                              .set_rows = set_rows,
                                              .leave = amx_leave };
#endif
