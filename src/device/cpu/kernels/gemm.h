/* gemm.h - the packed matrix product behind linear, linear_dx and linear_dw: what its files share.
 *
 * All three are C[rows, cols] = sum over `depth` of A(row, k) B(k, col):
 *
 *   op          rows  cols  depth          A                          B
 *   linear      M     N     K              x, row-major               w[N, K], transposed while packing
 *   linear_dx   M     K     N              dy, row-major              w[N, K], copied while packing
 *   linear_dw   N     K     M (rows of x)  dy[M, N], k-major          x[M, K], copied while packing
 *
 * B is packed into panels of `nr` columns, [k][nr] (zeros to the right of the last column), so that a tile of
 * up to mr rows reads two vectors of it per step. A is read where it lies when it can be (f32, row-major),
 * else copied: rows as f32 with a padded stride, or for linear_dw tiles of [k][VF_LANES]. Tiles are cut
 * evenly (height ceil or floor of rows/tiles), so none is a sliver.
 *
 * Order of summation, the same for every element whatever tile or thread makes it: depth is cut into blocks
 * of GEMM_KC; a block is one ascending chain of fused multiply-adds that starts at zero; blocks are added in
 * ascending order. Hence no result depends on threads, nor a row's on the rows beside it.
 *
 * A strip is as many rows as share a B panel while it is in L1; its part of A stays in half of L2.
 * A chunk is as much depth as is packed at a time. With more than one, sums wait in f32 scratch between
 * chunks. */
#pragma once
#include "kernel.h"

enum {
    /* elements of one chain: in f32 a B panel of it is 32 KB (AVX2: 16 KB), which stays in L1 over a strip */
    GEMM_KC = 256,
    GEMM_CHUNK = 1024, /* even: pairs do not straddle chunks */
    /* both operands are copied there: copies and the small result then fit L2 together */
    GEMM_CHUNK_SMALL_DW = 256,
    /* f32 behind each copied row: keeps rows off the same cache sets; room for whole-vector stores */
    GEMM_PAD = 16,
    GEMM_MAX_TILES = 32,      /* of a strip */
    GEMM_SCRATCH_ROWS = 1024, /* rows at a time when there is more than one chunk */
};

typedef enum gemm_kind { GEMM_LINEAR, GEMM_DX, GEMM_DW } gemm_kind;

/* Sizes that follow from shapes, level and threads only. Bytes are multiples of 64. */
typedef struct gemm_plan {
    gemm_kind kind;
    int64_t rows, cols, depth;
    int threads;
    int mr, nr, strip; /* tile height, panel width, rows of a strip */
    /* Threads either share a packed B and split the rows; or each packs its own and they split columns (few
     * rows), or rows (small linear_dw: fetching what another core has packed would take longer than packing
     * it again). */
    bool own_b, split_columns;
    int64_t chunk, chunks;   /* depth of a chunk (a multiple of GEMM_KC but for the last) */
    int64_t block;           /* columns of B packed at a time, a multiple of nr */
    int64_t group;           /* chunks of them packed at a time: every time, the threads meet twice */
    int64_t scratch_rows;    /* rows at a time; all if one chunk */
    size_t b_bytes, c_bytes; /* packed B and sums between chunks: one each, or one a thread if own_b */
    size_t s_bytes;          /* linear_dw: sums for the bias gradient, one a row */
    size_t a_bytes, t_bytes; /* per thread: copy of a strip of A; sums of a strip of tiles */
} gemm_plan;

/* Lines that coming tiles want from memory: a tile asks for GEMM_LINES of them every GEMM_AHEAD_STEPS steps,
 * from `at` on one in each row, so that its multiplications hide their way. */
typedef struct gemm_ahead {
    const char *at;
    int64_t row_bytes;
} gemm_ahead;
enum { GEMM_LINE = 64, GEMM_AHEAD_STEPS = 8, GEMM_LINES = VF_LANES == 16 ? 16 : 8 };

/* One block of a chain: c[rows, nv vectors] (stride ldc f32) = or += A·B over `steps`; and then += bias, if
 * any. a: first word; strides in bytes for rows of a row-major A, unused for the packed form. ahead: NULL, or
 * an entry for every GEMM_AHEAD_STEPS steps begun, to be read from row `row` on. */
typedef void (*gemm_tile)(int64_t steps, const float *a, int64_t row_bytes, const float *b, float *c,
                          int64_t ldc, bool add, const float *bias, const gemm_ahead *ahead, int64_t row);
enum { GEMM_MAX_MR = 14 };

/* What A and B are turned into, and the tiles that read it. A step takes one 4-byte word of A's row and of
 * B's column.
 *
 * f32: the word is the element. dot: two bf16, for the dot product instruction of AVX512_BF16, vdpbf16ps: sum
 * = fma(even elements, fma(odd elements, sum)), subnormals taken as zero. Processors differ: AMD's issue it
 * at the rate of an f32 FMA (twice the work), Intel's (measured) at half of it. Hence at that level the f32
 * form of bf16 puts odd elements before even ones and also drops subnormals, so that both forms give the same
 * bits, and the faster one is taken. */
typedef struct gemm_form {
    /* elements a word; depth is padded with zeros to whole words (to pairs in the f32 form of bf16, at that
     * level) */
    int unit;
    const gemm_tile (*tiles)[2][GEMM_MAX_MR]; /* [packed A?][vectors - 1][rows - 1] */
    /* Columns [j0, j1) of B, `steps` words from element k0 on, panel after panel. */
    void (*pack_b)(const gemm_plan *p, float *to, const ls_tensor *b, int64_t k0, int64_t steps, int64_t j0,
                   int64_t j1);
    void (*copy_a)(float *to, int64_t to_ld, const ls_tensor *a, int64_t i0, int rows, int64_t k0,
                   int64_t steps);
    /* Tile t has rows [first_row[t], first_row[t + 1]). Also sums each row of A over depth into sums[row] (if
     * not NULL; `add`: on top of what is there): linear_dw's bias gradient. */
    void (*pack_a)(float *to, float *sums, bool add, const ls_tensor *a, const int *first_row, int tiles,
                   int64_t k0, int64_t steps);
} gemm_form;
extern const gemm_form LS_NAME(ls_gemm_f32_form);
extern const gemm_tile LS_NAME(ls_gemm_tiles)[2][2][GEMM_MAX_MR];
#ifdef LS_LEVEL_avx512bf16
extern const gemm_form LS_NAME(ls_gemm_dot_form);
extern const gemm_tile LS_NAME(ls_gemm_dot_tiles)[2][2][GEMM_MAX_MR];
extern int LS_NAME(ls_gemm_use_dot); /* -1: as suits the processor; tests set 0 and 1 */
#define GEMM_PAIRS(t) ((t) == LS_BF16)
#else
#define GEMM_PAIRS(t) ((void)(t), false)
#endif

/* vdpbf16ps takes subnormals for zero whatever the control word says; here it says so to all other
 * instructions. */
SIMD_FN unsigned ls_subnormals_off(bool wanted)
{
    unsigned before = 0;
#ifdef LS_LEVEL_avx512bf16
    if (wanted) {
        before = _mm_getcsr();
        _mm_setcsr(before | 0x8040);
    }
#endif
    (void)wanted;
    return before;
}
SIMD_FN void ls_subnormals_restore(bool wanted, unsigned before)
{
#ifdef LS_LEVEL_avx512bf16
    if (wanted)
        _mm_setcsr(before);
#endif
    (void)wanted;
    (void)before;
}

/* linear of one row (gemm_row.c). */
void LS_NAME(ls_gemm_row)(const ls_kernel_args *a);
size_t LS_NAME(ls_gemm_row_workspace)(const ls_kernel_args *a);

/* What is done with finished sums: rows i0 .. of columns j0 .., sums [rows][ld]. */
void LS_NAME(ls_gemm_finish)(const ls_kernel_args *a, gemm_kind kind, const float *sums, int64_t ld,
                             int64_t i0, int rows, int64_t j0, int cols);
/* A contiguous tensor from f32. */
void LS_NAME(ls_gemm_store)(const ls_tensor *to, const float *from);

/* Makes the compiler forget how it got this pointer, so that it goes on adding instead of keeping a pointer
 * for every row. */
#define OPAQUE(p) __asm__("" : "+r"(p))

/* VF_LANES rows of VF_LANES words, transposed: log2(lanes) rounds of interleaving rows i and i + lanes/2. */
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

/* Where part `part` of n rows cut into `parts` even parts begins. */
SIMD_FN int64_t part_begin(int64_t n, int64_t part, int64_t parts) { return n * part / parts; }
