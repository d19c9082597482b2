/* gemm.h - the packed matrix product behind linear, linear_dx and linear_dw: what its files share.
 *
 * All three are C[rows, cols] = sum over `depth` of A(row, k) B(k, col):
 *
 *   op          rows  cols  depth          A                          B
 *   linear      M     N     K              x, row-major               w[N, K], transposed while packing
 *   linear_dx   M     K     N              dy, row-major              w[N, K], copied while packing
 *   linear_dw   N     K     M (rows of x)  dy[M, N], k-major          x[M, K], copied while packing
 *
 * B is packed into panels of `nr` columns, [k][nr] (zeros to the right of the last column), so that a tile of up to mr rows reads two
 * vectors of it per step. A is read where it lies when it can be (f32, row-major), else copied: rows as f32 with a padded stride, or
 * for linear_dw tiles of [k][VF_LANES]. Tiles are cut evenly (height ceil or floor of rows/tiles), so none is a sliver.
 *
 * Order of summation, the same for every element whatever tile or thread makes it: depth is cut into blocks of GEMM_KC; a block is one
 * ascending chain of fused multiply-adds that starts at zero; blocks are added in ascending order. Hence no result depends on threads,
 * nor a row's on the rows beside it.
 *
 * A strip is as many rows as share a B panel while it is in L1; its part of A stays in half of L2.
 * A chunk is as much depth as is packed at a time. With more than one, sums wait in f32 scratch between chunks. */
#pragma once
#include "kernel.h"

enum {
    GEMM_KC = 256,   /* depth of one chain: a B panel of it fills 32 KB (16 KB on AVX2), which stays in L1 over a strip of tiles */
    GEMM_CHUNK = 1024,
    GEMM_CHUNK_DW = 512, /* both operands are copied there: what is in use fits L2 */
    GEMM_PAD = 16,   /* f32 behind each copied row: keeps rows off the same cache sets; room for whole-vector stores */
    GEMM_SCRATCH_ROWS = 1024, /* rows at a time when there is more than one chunk */
};

typedef enum gemm_kind { GEMM_LINEAR, GEMM_DX, GEMM_DW } gemm_kind;

/* Sizes that follow from shapes, level and threads only. Bytes are multiples of 64. */
typedef struct gemm_plan {
    gemm_kind kind;
    int64_t rows, cols, depth;
    int threads;
    int mr, nr, strip;        /* tile height, panel width, rows of a strip */
    bool by_columns;          /* few rows: threads share the columns and pack their own B */
    int64_t chunk, chunks;    /* depth of a chunk (a multiple of GEMM_KC but for the last) */
    int64_t block;            /* columns of B packed at a time, a multiple of nr */
    int64_t scratch_rows;     /* rows at a time; all if one chunk */
    size_t b_bytes, c_bytes;  /* packed B and sums between chunks: one each, or one a thread when by_columns */
    size_t s_bytes;           /* linear_dw: sums for the bias gradient, one a row */
    size_t a_bytes, t_bytes;  /* per thread: copy of a strip of A; sums of a strip of tiles */
} gemm_plan;

/* One block of a chain: sums[rows, nv vectors] (stride ldc f32) = or += A·B over depth. a: first element; strides in bytes for
 * rows of a row-major A, unused for the packed form. */
typedef void (*gemm_tile)(int64_t depth, const float *a, int64_t row_bytes, const float *b, float *c, int64_t ldc, bool add);

/* [packed A?][vectors - 1][rows - 1] */
enum { GEMM_MAX_MR = 14 };
extern const gemm_tile LS_NAME(ls_gemm_tiles)[2][2][GEMM_MAX_MR];

/* Columns [j0, j1) of B, depth k0 .., panel after panel. */
void LS_NAME(ls_gemm_pack_b)(const gemm_plan *p, float *to, const ls_tensor *b, int64_t k0, int64_t depth, int64_t j0, int64_t j1);
void LS_NAME(ls_gemm_copy_a)(float *to, int64_t to_ld, const ls_tensor *a, int64_t i0, int rows, int64_t k0, int64_t depth);
/* Also sums each row of A over depth into sums[row] (if not NULL; `add`: on top of what is there): linear_dw's bias gradient. */
void LS_NAME(ls_gemm_pack_a)(float *to, float *sums, bool add, const ls_tensor *a, int64_t i0, int rows, int tiles, int64_t k0,
                             int64_t depth);

/* What is done with finished sums: rows i0 .. of columns j0 .., sums [rows][ld]. */
void LS_NAME(ls_gemm_finish)(const ls_kernel_args *a, gemm_kind kind, const float *sums, int64_t ld, int64_t i0, int rows, int64_t j0,
                             int cols);
/* A contiguous tensor from f32. */
void LS_NAME(ls_gemm_store)(const ls_tensor *to, const float *from);

/* Makes the compiler forget how it got this pointer, so that it goes on adding instead of keeping a pointer for every row. */
#define OPAQUE(p) __asm__("" : "+r"(p))

/* Row t of n rows cut into `parts` even parts. */
SIMD_FN int64_t part_begin(int64_t n, int64_t part, int64_t parts) { return n * part / parts; }
