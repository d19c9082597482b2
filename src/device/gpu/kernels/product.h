/* product.h - one tile of a product of matrices by a block: TILE_M x TILE_N sums over depth, of a left matrix
 * [m][k] and a right matrix [k][n] that the file which includes this one reads as it likes (matmul.cu: plain
 * matrices; a convolution: windows of pictures). The parts of both tiles for the next TILE_K of depth are
 * copied to shared memory, STAGES - 1 of them ahead of the multiplication.
 *
 * Every sum has one accumulator in f32, to which depth is added in ascending order (in steps of 16 for bf16
 * and f16, 8 for tf32, 1 for f32). So sizes of tiles, stages and other rows never change a result's bits.
 *
 * Defined in front of this file (by the host, or by the includer):
 *   ELEMENT                        bf16, f16 or f32
 *   MULTIPLY                       MULTIPLY_MMA (bf16, f16), MULTIPLY_TF32 or MULTIPLY_FMA (f32)
 *   TILE_M, TILE_N, TILE_K, WARPS_M, WARPS_N, STAGES (at least 2)
 *   LEFT_ALONG_K, RIGHT_ALONG_K    1: 16 bytes that are fetched at once follow depth: m (or n) is fixed;
 *                                  0: they follow m (or n), and depth is fixed
 *   LEFT_ASYNC, RIGHT_ASYNC        1: the fetch may use COPY_16; 0: it goes through registers
 *
 * Defined by the includer, after matrix.h (chunk, CHUNK, functions for plain matrices) and before this file:
 *   product_context                a struct: all that the functions below need to know
 *   left_place, right_place        structs: what a thread keeps about the m (or n) of its fetches, which is
 *                                  the same at every depth: addresses, coordinates
 *   left_place left_at(const product_context *c, i64 m)
 *   void left_fetch(const product_context *c, const left_place *p, i64 k, chunk *to)
 *                                  16 bytes, CHUNK elements from (m, k) on, into *to: by COPY_16 or by a
 *                                  plain store if LEFT_ASYNC, else always by a store to *to, which is in
 *                                  registers. Elements outside of the matrix must be zero.
 *   right_at, right_fetch          the same with n
 *   void finish(const product_context *c, i64 m, i64 n, const float *v)
 *                                  sums of row m, columns n to n + 7, of which some may lie outside
 *
 * The kernel then is
 *   KERNEL_SHARED(name, args, PRODUCT_THREADS, product_shared) { ...; product(&context, s, m0, n0, k0, k1); }
 * with a tile that begins at (m0, n0), and depth [k0, k1). With k1 <= k0 the sums are zeros. */
#pragma once
#include "matrix.h"

#define MULTIPLY_MMA 1
#define MULTIPLY_TF32 2
#define MULTIPLY_FMA 3

/* clang-format off */
enum {
    PRODUCT_THREADS = WARPS_M * WARPS_N * WARP,
    WARP_M = TILE_M / WARPS_M,
    WARP_N = TILE_N / WARPS_N,
    /* A tile in shared memory: lines of chunks. A thread fetches the same chunk of every LEFT_STEP-th
     * line. */
    LEFT_LINES = LEFT_ALONG_K ? TILE_M : TILE_K,
    LEFT_CHUNKS = (LEFT_ALONG_K ? TILE_K : TILE_M) / CHUNK,
    LEFT_STEP = PRODUCT_THREADS / LEFT_CHUNKS,
    LEFT_EACH = LEFT_LINES / LEFT_STEP,
    LEFT_PLACES = LEFT_ALONG_K ? LEFT_EACH : 1,
    RIGHT_LINES = RIGHT_ALONG_K ? TILE_N : TILE_K,
    RIGHT_CHUNKS = (RIGHT_ALONG_K ? TILE_K : TILE_N) / CHUNK,
    RIGHT_STEP = PRODUCT_THREADS / RIGHT_CHUNKS,
    RIGHT_EACH = RIGHT_LINES / RIGHT_STEP,
    RIGHT_PLACES = RIGHT_ALONG_K ? RIGHT_EACH : 1,
    RESULT_LINE = TILE_N + 8 /* floats from row to row: no two rows of a store meet in a bank */
};
/* clang-format on */
typedef char product_tiles_fit[LEFT_STEP * LEFT_CHUNKS == PRODUCT_THREADS &&
                                       LEFT_STEP * LEFT_EACH == LEFT_LINES &&
                                       RIGHT_STEP * RIGHT_CHUNKS == PRODUCT_THREADS &&
                                       RIGHT_STEP * RIGHT_EACH == RIGHT_LINES
                                   ? 1
                                   : -1];

typedef struct product_stage {
    chunk left[LEFT_LINES * LEFT_CHUNKS], right[RIGHT_LINES * RIGHT_CHUNKS];
} product_stage;
typedef union product_shared {
    product_stage stages[STAGES];
    float results[WARP_M * RESULT_LINE];
} product_shared;

/* Where a chunk of a line lies. Eight lines of the same chunk, or eight chunks of a line, are in different
 * banks. The threads of a warp read tf32 across lines one by one: 8 numbers of 4 lines. */
DEVICE int product_slot(int line, int position, int chunks, int along_k)
{
    const int mask = chunks < 8 ? chunks - 1 : 7;
    const int turn = MULTIPLY == MULTIPLY_TF32 && !along_k ? (line & 3) << 1
                     : chunks < 8                          ? line / (8 / chunks)
                                                           : line;
    return line * chunks + (position ^ (turn & mask));
}
#define LEFT_SLOT(line, position) product_slot(line, position, LEFT_CHUNKS, LEFT_ALONG_K)
#define RIGHT_SLOT(line, position) product_slot(line, position, RIGHT_CHUNKS, RIGHT_ALONG_K)

/* left_begin: the places of a thread's fetches. left_take: fetches, to shared memory or to `kept`.
 * left_put: from there to shared memory. */
#define PRODUCT_SIDE(side, SIDE)                                                                            \
    DEVICE void side##_begin(const product_context *c, side##_place *p, i64 first)                          \
    {                                                                                                       \
        const int line = THREAD / SIDE##_CHUNKS, position = THREAD % SIDE##_CHUNKS;                         \
        UNROLL for (int i = 0; i < SIDE##_PLACES; i++)                                                      \
            p[i] = side##_at(c, first + (SIDE##_ALONG_K ? line + i * SIDE##_STEP : position * CHUNK));      \
    }                                                                                                       \
    DEVICE void side##_take(const product_context *c, const side##_place *p, i64 k, chunk *to, chunk *kept) \
    {                                                                                                       \
        const int line = THREAD / SIDE##_CHUNKS, position = THREAD % SIDE##_CHUNKS;                         \
        UNROLL for (int i = 0; i < SIDE##_EACH; i++)                                                        \
        {                                                                                                   \
            const int l = line + i * SIDE##_STEP;                                                           \
            if (SIDE##_ASYNC)                                                                               \
                side##_fetch(c, &p[SIDE##_ALONG_K ? i : 0], k + (SIDE##_ALONG_K ? position * CHUNK : l),    \
                             to + SIDE##_SLOT(l, position));                                                \
            else                                                                                            \
                side##_fetch(c, &p[SIDE##_ALONG_K ? i : 0], k + (SIDE##_ALONG_K ? position * CHUNK : l),    \
                             &kept[i]);                                                                     \
        }                                                                                                   \
    }                                                                                                       \
    DEVICE void side##_put(chunk *to, const chunk *kept)                                                    \
    {                                                                                                       \
        const int line = THREAD / SIDE##_CHUNKS, position = THREAD % SIDE##_CHUNKS;                         \
        if (!SIDE##_ASYNC)                                                                                  \
            UNROLL for (int i = 0; i < SIDE##_EACH; i++)                                                    \
                chunk_store(to + SIDE##_SLOT(line + i * SIDE##_STEP, position), kept[i]);                   \
    }
PRODUCT_SIDE(left, LEFT)
PRODUCT_SIDE(right, RIGHT)

#if MULTIPLY == MULTIPLY_FMA
#include "product_fma.h"
#else
#include "product_mma.h"
#endif

DEVICE void product(const product_context *c, product_shared *s, i64 m0, i64 n0, i64 k0, i64 k1)
{
    left_place left[LEFT_PLACES];
    right_place right[RIGHT_PLACES];
    chunk left_kept[LEFT_EACH], right_kept[RIGHT_EACH];
    product_sums sums;
    product_zero(&sums);
    left_begin(c, left, m0);
    right_begin(c, right, n0);
    const i64 steps = k1 > k0 ? (k1 - k0 + TILE_K - 1) / TILE_K : 0;
    UNROLL for (int i = 0; i < STAGES - 1; i++)
    {
        if (i < steps) {
            left_take(c, left, k0 + i * TILE_K, s->stages[i].left, left_kept);
            right_take(c, right, k0 + i * TILE_K, s->stages[i].right, right_kept);
            left_put(s->stages[i].left, left_kept);
            right_put(s->stages[i].right, right_kept);
        }
        COPY_COMMIT();
    }
    int reads = 0, writes = STAGES - 1;
    for (i64 i = 0; i < steps; i++) {
        product_stage *const read = &s->stages[reads], *const write = &s->stages[writes];
        const i64 k = k0 + (i + STAGES - 1) * TILE_K;
        COPY_WAIT(STAGES - 2);
        BARRIER(); /* `read` is there for all, and all have multiplied what lay in `write` */
        if (k < k1) {
            left_take(c, left, k, write->left, left_kept);
            right_take(c, right, k, write->right, right_kept);
        }
        COPY_COMMIT();
        product_multiply(&sums, read->left, read->right);
        if (k < k1) {
            left_put(write->left, left_kept);
            right_put(write->right, right_kept);
        }
        reads = reads + 1 == STAGES ? 0 : reads + 1;
        writes = writes + 1 == STAGES ? 0 : writes + 1;
    }
    COPY_WAIT(0);
    /* The sums of one row of warps at a time go through shared memory, so that a thread finishes whole 8. */
    UNROLL for (int w = 0; w < WARPS_M; w++)
    {
        BARRIER();
        if (THREAD / WARP / WARPS_N == w)
            product_results(&sums, s->results);
        BARRIER();
        for (int i = THREAD; i < WARP_M * (TILE_N / 8); i += PRODUCT_THREADS) {
            const int row = i / (TILE_N / 8), column = i % (TILE_N / 8) * 8;
            float v[8];
            floats_load(s->results + row * RESULT_LINE + column, v);
            finish(c, m0 + w * WARP_M + row, n0 + column, v);
        }
    }
}

/* Tile number i of a result of tiles_m x tiles_n, in an order in which tiles that run at the same time share
 * rows and columns, which the L2 cache then holds: 8 rows of tiles, column by column. */
DEVICE void product_tile(i64 i, i64 tiles_m, i64 tiles_n, i64 *m, i64 *n)
{
    const i64 group = i / (8 * tiles_n), rest = i % (8 * tiles_n);
    const i64 rows = tiles_m - 8 * group < 8 ? tiles_m - 8 * group : 8;
    *m = 8 * group + rest % rows;
    *n = rest / rows;
}
