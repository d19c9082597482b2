/* tiles.h - a product of matrices on a GPU: with which tile it is made, and its launch (kernels/matmul.cu).
 */
#pragma once
#include "gpu.h"
#include "kernels/matmul.h"

/* How numbers are multiplied: MULTIPLY of kernels/product.h. */
typedef enum ls_gpu_way { LS_GPU_MMA = 1, LS_GPU_TF32, LS_GPU_FMA, LS_GPU_WAYS } ls_gpu_way;

/* The numbers that kernels/product.h is compiled with. */
typedef struct ls_gpu_tile {
    int m, n, k, warps_m, warps_n, stages;
    double rate; /* roughly, sums a multiprocessor makes in a time, against the largest tile's */
    /* only where rows of both sides can be fetched in 16 bytes: else it would need too many registers */
    bool whole;
    bool left_along_k; /* only where lines of the left side follow depth */
} ls_gpu_tile;

/* All tiles of each way, from the largest on; m is 0 behind the last. */
extern const ls_gpu_tile *const ls_gpu_tiles[LS_GPU_WAYS];

typedef struct ls_gpu_product {
    struct ls_queue *queue;
    const ls_arch *arch;
    ls_dtype type;
    ls_gpu_way way;
    bool left_along_k, right_along_k; /* whether lines of a side follow depth */
    int64_t batch;
    matmul_args k; /* all but tiles and `whole`, which the launch fills in */
} ls_gpu_product;

/* Whether rows of both sides can be fetched in 16 bytes. */
bool ls_gpu_product_whole(const ls_gpu_product *p);
/* Whether the tile can make this product: it has room in shared memory and registers. */
bool ls_gpu_tile_fits(const ls_gpu_tile *t, const ls_gpu_product *p, bool whole);
/* The tile with which `results` of m x n are made soonest. No bit of a result depends on it. */
const ls_gpu_tile *ls_gpu_tile_for(const ls_gpu_product *p, int64_t m, int64_t n, int64_t results,
                                   bool whole);
/* What the kernels' text has in front for this product and tile. */
enum { LS_GPU_TILE_TEXT = 400 };
void ls_gpu_tile_text(char before[LS_GPU_TILE_TEXT], const ls_gpu_product *p, const ls_gpu_tile *t);
void ls_gpu_product_run(ls_gpu_product *p, const ls_gpu_tile *t);
/* What follows a product of one matrix that was made elsewhere, with its bias, and lies at `left`
 * (matmul_finish.cu). */
void ls_gpu_product_finish(ls_gpu_product *p);
