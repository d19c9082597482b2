/* gemm.h - the packed matrix product of linear, linear_dx and linear_dw: what its files share.
 *
 * All three are C[rows, cols] = sum over `depth` of A(row, k) B(k, col):
 *
 *   op          rows  cols  depth          A                          B
 *   linear      M     N     K              x, row-major               w[N, K], transposed while packing
 *   linear_dx   M     K     N              dy, row-major              w[N, K], copied while packing
 *   linear_dw   N     K     M (rows of x)  dy[M, N], k-major          x[M, K], copied while packing
 *
 * The product is cut into blocks that fit the caches:
 *
 *                depth (k)                          columns (j)
 *             chunk    chunk                      block          block
 *           +--------+--------+               +-------------+-------------+
 *    strip  | tile   |        |               | p | p | p | p | p | p | p |
 *           | tile   |        |        chunk  | a | a |   |             . |
 *           | tile   |        |               | n | n |   |             . |
 *    rows   +--------+--------+        depth  | e | e |   |             . |
 *    (i)    | tile   |        |         (k)   +-l-+-l-+-----+-------------+
 *    strip  | tile   |        |        chunk  |   |   |     |             |
 *           +--------+--------+               +---+---+-----+-------------+
 *                    A                                     B
 *
 *   tile    up to mr rows and nr columns of C. Its sums stay in registers while the inner loop runs over
 *           depth. The tiles of a strip have nearly equal heights, so that none is very low.
 *   panel   nr columns of B, packed as [k][nr] (zeros to the right of the last column). A tile reads two
 *           vectors a step. The tiles of a strip share a panel while it is in L1.
 *   strip   the rows whose part of A (one chunk deep) stays in half of L2. A is read where it lies if it
 *           can be (row-major f32), else copied: as f32 rows with a padded stride, or as tiles of
 *           [k][GEMM_A_STEP] (linear_dw; AVX2 also if there are many columns).
 *   chunk   the depth that is packed at a time. If there are several, f32 sums wait in scratch memory from
 *           chunk to chunk.
 *   block   the columns of B that are packed at a time.
 *   group   the chunks of a block that are packed before the threads meet.
 *
 * Order of summation, the same for every element, tile and thread: depth is cut into blocks of GEMM_KC
 * elements; a block is one ascending chain of fused multiply-adds that starts at zero; blocks are added in
 * ascending order. Tiles of AMX have blocks of 32 elements, of two chains each (gemm_tile_amx.c). So results
 * do not depend on threads, nor a row's result on the rows beside it. */
#pragma once
#include "kernel.h"

enum {
    /* Elements of one chain. That much of a panel in f32 has 32 KB (AVX2: 16 KB) and stays in L1 for all
     * tiles of a strip. Bits of results depend on this number, and on none of the others. */
    GEMM_KC = 256,
    /* The same for tiles of AMX, which read A past L1; no bit depends on it. */
    GEMM_AMX_KC = 512,
    /* elements of depth in a chunk; even, so that both elements of a pair are in one chunk */
    GEMM_CHUNK = 1024,
    /* AVX2 with more than a few rows: a strip has twice the rows, so half as much of B comes from L3. */
    GEMM_CHUNK_AVX2 = 512,
    /* linear_dw with a small result copies both operands. With shorter chunks, the copies and the result fit
     * L2 together. */
    GEMM_CHUNK_SMALL_DW = 256,
    /* f32 between copied rows of A: keeps them from sharing a cache set, and leaves room to store whole
     * vectors */
    GEMM_PAD = 16,
    /* tiles of a strip, at most */
    GEMM_MAX_TILES = 32,
    /* rows at a time if there are several chunks: bounds the scratch memory for their sums */
    GEMM_SCRATCH_ROWS = 1024
};

typedef enum gemm_kind { GEMM_LINEAR, GEMM_DX, GEMM_DW } gemm_kind;

/* Sizes that follow from shapes, instruction set and threads (gemm_plan.c). Bytes are multiples of GEMM_LINE.
 */
typedef struct gemm_plan {
    gemm_kind kind;
    int64_t rows, cols, depth;
    int threads;
    int mr, nr, strip; /* tile height, panel width, rows of a strip */
    bool amx;          /* bf16 in tile registers (gemm_tile_amx.c) */
    int row_unit;      /* ranges of rows begin at multiples of it */
    int depth_unit;    /* depth is padded with zeros to a multiple of it */
    int kc;            /* depth of a panel that stays in L1 */
    int a_step;        /* GEMM_A_STEP of the level */
    bool tile_a;       /* A is copied as tiles of [k][a_step] */
    bool fetch_ahead;  /* tiles prefetch the next part of B, and sums of the chunk before: they lie in L3 */
    /* own_b false: the threads pack B together and share rows. own_b true: each thread packs B for itself,
     * and computes a part of the columns (split_columns: there are too few rows for all threads, or
     * many columns) or of the rows (small linear_dw: fetching what another core has packed takes longer than
     * packing it again). */
    bool own_b, split_columns;
    int64_t chunk;           /* depth of a chunk, a multiple of GEMM_KC unless there is only one */
    int64_t chunk_words;     /* words of a chunk that there must be room for (gemm_form) */
    int64_t chunks;          /* number of chunks */
    int64_t block;           /* columns of a block, a multiple of nr */
    int64_t group;           /* chunks of a group; for each group the threads meet twice */
    int64_t scratch_rows;    /* rows between two packings of B: all if there is one chunk */
    size_t b_bytes, c_bytes; /* packed B, and sums between chunks: once, or for each thread if own_b */
    size_t s_bytes;          /* linear_dw: sums for the bias gradient, one per row */
    size_t a_bytes, t_bytes; /* for each thread: copy of a strip of A; sums of a strip's tiles */
} gemm_plan;
gemm_plan LS_NAME(ls_gemm_plan)(const ls_kernel_args *a, gemm_kind kind);
size_t LS_NAME(ls_gemm_workspace)(const gemm_plan *p); /* bytes, for all threads */

/* What a tile prefetches for later tiles, so that their data arrives while this tile multiplies: in
 * GEMM_AHEAD_STEPS steps it prefetches GEMM_LINES cache lines, one in each of as many rows, from `at` on. */
typedef struct gemm_ahead {
    const char *at;
    int64_t row_bytes;
} gemm_ahead;
enum {
    GEMM_LINE = 64, /* bytes of a cache line */
    GEMM_AHEAD_STEPS = 8,
    GEMM_LINES = VF_LANES == 16 ? 16 : 8, /* a multiple of GEMM_AHEAD_STEPS */
    GEMM_TO_L2 = 2 /* __builtin_prefetch's locality: into L2, because L1 is full of what the tile reads */
};

/* A tile: c[rows][nv vectors] = the products of `steps` words of depth (add: added to c), plus bias, if any.
 *   a      first word of A's first row. Rows are row_bytes apart; packed A is [k][GEMM_A_STEP] instead
 *   b      the panel, [k][nr]
 *   c      rows are ldc f32 apart
 *   bias   NULL: none
 *   ahead  one entry for every GEMM_AHEAD_STEPS steps, prefetched from row number `row` on; NULL: none */
typedef void (*gemm_tile)(int64_t steps, const float *a, int64_t row_bytes, const float *b, float *c,
                          int64_t ldc, bool add, const float *bias, const gemm_ahead *ahead, int64_t row);
enum {
    GEMM_MAX_MR = 32,
    /* Words from step to step of a packed A. On AVX2 a step's 6 words follow those of the step before without
     * a gap, because L2 is small there; elsewhere every step is an aligned vector. */
    GEMM_A_STEP = VF_LANES == 8 ? 6 : VF_LANES
};
/* Words of a packed tile of A: its last step is stored as a whole vector. */
SIMD_FN int64_t packed_tile(int64_t steps) { return steps * GEMM_A_STEP + VF_LANES - GEMM_A_STEP; }

/* The form in which tiles read A and B, and the functions that bring operands into it. In each step of depth
 * a tile takes one word of 4 bytes from every row of A and every column of B. There are three forms:
 *
 *   f32   A word is one element.
 *   dot   A word is two bf16, for the instruction vdpbf16ps of AVX512_BF16, which computes
 *         sum = fma(even elements, fma(odd elements, sum)) and takes subnormal numbers as zero.
 *   amx   A word is two bf16, for the tiles of AMX, which also take subnormal numbers as zero. Level amx has
 * this form for bf16, and no other. A is always row-major, also the copy that linear_dw makes.
 *
 * AMD processors issue vdpbf16ps as fast as an f32 FMA, so it does twice the work; Intel's issue it at half
 * that rate (measured), so the f32 form is faster there. These two must give the same bits. So at the level
 * avx512bf16 the f32 form of bf16 takes the odd element of each pair before the even one, and drops
 * subnormals. */
typedef struct gemm_form {
    /* Elements of a word. Depth is padded with zeros to whole words; with GEMM_PAIRS to pairs in the f32 form
     * too. */
    int unit;
    const gemm_tile (*tiles)[2][GEMM_MAX_MR]; /* [A is packed][vectors - 1][rows - 1] */
    /* Packs columns [j0, j1) of B, `steps` words of depth from element k0 on: one panel after the other. */
    void (*pack_b)(const gemm_plan *p, float *to, const ls_tensor *b, int64_t k0, int64_t steps, int64_t j0,
                   int64_t j1);
    /* Copies `rows` rows of A from row i0 on, `steps` words from element k0 on, to rows that are to_ld words
     * apart. */
    void (*copy_a)(float *to, int64_t to_ld, const ls_tensor *a, int64_t i0, int rows, int64_t k0,
                   int64_t steps);
    /* linear_dw: packs A as tiles of [k][GEMM_A_STEP], packed_tile(steps) words apart. Tile t has the rows
     * [first_row[t], first_row[t + 1]). If sums is not NULL, each row of A is also summed over depth into
     * sums[row] (add: on top of its value): the bias gradient. */
    void (*pack_a)(float *to, int64_t to_ld, float *sums, bool add, const ls_tensor *a, const int *first_row,
                   int tiles, int64_t k0, int64_t steps);
    /* The same of a row-major A, without sums; NULL where no plan has tile_a for it. */
    void (*pack_rows)(float *to, const ls_tensor *a, const int *first_row, int tiles, int64_t k0,
                      int64_t steps);
    /* Before the first tile of that height, and behind the last tile; NULL: nothing is to be done. */
    void (*set_rows)(int rows);
    void (*leave)(void);
} gemm_form;
extern const gemm_form LS_NAME(ls_gemm_f32_form);
extern const gemm_tile LS_NAME(ls_gemm_tiles)[2][2][GEMM_MAX_MR];
#ifdef LS_BF16_PAIRS
extern const gemm_form LS_NAME(ls_gemm_dot_form), LS_NAME(ls_gemm_amx_form);
extern const gemm_tile LS_NAME(ls_gemm_dot_tiles)[2][2][GEMM_MAX_MR];
/* 1, 0: use the dot form or not (tests); -1: the faster form on this processor */
extern int LS_NAME(ls_gemm_use_dot);
/* Products of this type add pairs in the order of the instruction for them, in all forms. */
#define GEMM_PAIRS(t) ((t) == LS_BF16)
#else
#define GEMM_PAIRS(t) ((void)(t), false)
#endif

/* vdpbf16ps always takes subnormal numbers as zero. While this is on, all other instructions do so too. */
SIMD_FN unsigned ls_subnormals_off(bool wanted)
{
    unsigned before = 0;
#ifdef LS_BF16_PAIRS
    enum { FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZERO = 0x0040 }; /* bits of MXCSR: results, operands */
    if (wanted) {
        before = _mm_getcsr();
        _mm_setcsr(before | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
    }
#endif
    (void)wanted;
    return before;
}
SIMD_FN void ls_subnormals_restore(bool wanted, unsigned before)
{
#ifdef LS_BF16_PAIRS
    if (wanted)
        _mm_setcsr(before);
#endif
    (void)wanted;
    (void)before;
}

/* pack_b and copy_a of both forms of pairs, and pack_a of the AMX form (gemm_pack_pairs.c) */
void LS_NAME(ls_gemm_pack_b_pairs)(const gemm_plan *p, float *to, const ls_tensor *b, int64_t k0,
                                   int64_t steps, int64_t j0, int64_t j1);
void LS_NAME(ls_gemm_copy_a_pairs)(float *to, int64_t to_ld, const ls_tensor *a, int64_t i0, int rows,
                                   int64_t k0, int64_t steps);
void LS_NAME(ls_gemm_pack_a_rows)(float *to, int64_t to_ld, float *sums, bool add, const ls_tensor *a,
                                  const int *first_row, int tiles, int64_t k0, int64_t steps);

/* linear and linear_dx of a weight of 4 bits (base/nf4.h): w has its codes, and this operand their scales. */
enum { GEMM_SCALES = 4 };
SIMD_FN bool gemm_has_codes(const ls_kernel_args *a)
{
    return a->n_in > GEMM_SCALES && present(&a->in[GEMM_SCALES]);
}
/* Columns of w. */
SIMD_FN int64_t gemm_w_cols(const ls_kernel_args *a)
{
    return cols_of(&a->in[1]) * (gemm_has_codes(a) ? 2 : 1);
}
/* pack_b of a form for such a weight (gemm_nf4.c) */
void LS_NAME(ls_gemm_pack_nf4)(const gemm_form *f, const gemm_plan *p, float *to, const ls_kernel_args *a,
                               int64_t k0, int64_t steps, int64_t j0, int64_t j1);

/* linear with a single row (gemm_row.c) */
void LS_NAME(ls_gemm_row)(const ls_kernel_args *a);
size_t LS_NAME(ls_gemm_row_workspace)(const ls_kernel_args *a);

/* Makes outputs of finished sums [rows][ld], those of row i0 and column j0 and on (gemm_finish.c). */
void LS_NAME(ls_gemm_finish)(const ls_kernel_args *a, gemm_kind kind, const float *sums, int64_t ld,
                             int64_t i0, int rows, int64_t j0, int cols);
/* Stores f32 numbers as the elements of a contiguous tensor of any float type. */
void LS_NAME(ls_gemm_store)(const ls_tensor *to, const float *from);

/* Transposes VF_LANES rows of VF_LANES words: log2(lanes) rounds. Each interleaves the rows i and
 * i + lanes/2. */
#if VF_LANES == 16
#define GEMM_LOW(a, b) __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)
#define GEMM_HIGH(a, b) \
    __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)
#elif VF_LANES == 8
#define GEMM_LOW(a, b) __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11)
#define GEMM_HIGH(a, b) __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15)
#else
#define GEMM_LOW(a, b) __builtin_shufflevector(a, b, 0, 4, 1, 5)
#define GEMM_HIGH(a, b) __builtin_shufflevector(a, b, 2, 6, 3, 7)
#endif
SIMD_FN void transpose(vf *r)
{
#pragma GCC unroll 4
    for (int round = 1; round < VF_LANES; round *= 2) {
        vf s[VF_LANES];
#pragma GCC unroll 8
        for (int i = 0; i < VF_LANES / 2; i++) {
            s[2 * i] = GEMM_LOW(r[i], r[i + VF_LANES / 2]);
            s[2 * i + 1] = GEMM_HIGH(r[i], r[i + VF_LANES / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < VF_LANES; i++)
            r[i] = s[i];
    }
}

/* The first element of part number `part`, if n elements are cut into `parts` parts of nearly equal size. */
SIMD_FN int64_t part_begin(int64_t n, int64_t part, int64_t parts) { return n * part / parts; }
