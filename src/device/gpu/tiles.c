/* tiles.c - with which tile a product is made. */
#include "tiles.h"

/* A large tile reads less, a small one makes more blocks. The smallest is for few rows: each weight is read
 * once, so memory sets the time. */
static const ls_gpu_tile MMA[] = { { 128, 256, 64, 2, 4, 3, 1.0, true, false },
                                   { 128, 128, 32, 2, 2, 4, 0.9, false, false },
                                   { 64, 64, 64, 2, 2, 3, 0.6, false, false },
                                   { 16, 16, 128, 1, 1, 4, 0.2, false, false },
                                   { 0 } },
                         TF32[] = { { 128, 128, 32, 2, 4, 3, 1.0, false, false },
                                    { 64, 64, 32, 2, 2, 3, 0.6, false, false },
                                    { 16, 16, 64, 1, 1, 4, 0.2, false, false },
                                    { 0 } },
                         FMA[] = { { 128, 128, 16, 2, 4, 4, 1.0, false, false },
                                   { 64, 64, 32, 2, 2, 3, 0.7, false, false },
                                   { 8, 16, 64, 1, 1, 4, 0.15, false, true },
                                   { 0 } };
const ls_gpu_tile *const ls_gpu_tiles[LS_GPU_WAYS] = { NULL, MMA, TF32, FMA };

enum { PROCESSORS = 132 /* of an H100. A constant, so that a plan is the same everywhere. */ };

/* The most bytes of shared memory that a block may have. */
static int64_t shared_most(int level)
{
    return (level == 80 || level == 87 ? 163 : level / 10 == 8 || level / 10 == 12 ? 99 : 227) << 10;
}

static int64_t size_of(const ls_gpu_product *p) { return (int64_t)ls_dtype_size(p->type); }

bool ls_gpu_tile_fits(const ls_gpu_tile *t, const ls_gpu_product *p, bool whole)
{
    return (whole || !t->whole) && (p->left_along_k || !t->left_along_k) &&
           t->stages * (t->m + t->n) * t->k * size_of(p) <= shared_most(p->arch->level);
}

/* A multiprocessor is taken to make one block after the other. */
const ls_gpu_tile *ls_gpu_tile_for(const ls_gpu_product *p, int64_t m, int64_t n, int64_t results, bool whole)
{
    const ls_gpu_tile *best = NULL;
    double least = 0;
    for (const ls_gpu_tile *t = ls_gpu_tiles[p->way]; t->m; t++) {
        const int64_t blocks = ls_gpu_blocks(m, t->m) * ls_gpu_blocks(n, t->n) * results;
        const double time = (double)ls_gpu_blocks(blocks, PROCESSORS) * t->m * t->n / t->rate;
        if (!ls_gpu_tile_fits(t, p, whole) || (best && time >= least))
            continue;
        best = t;
        least = time;
    }
    return best;
}

static bool by_16(const ls_gpu_product *p, gpu_address address, int64_t elements)
{
    return address % 16 == 0 && elements * size_of(p) % 16 == 0;
}

bool ls_gpu_product_whole(const ls_gpu_product *p)
{
    const matmul_args *k = &p->k;
    return by_16(p, k->left, k->ld_left) && by_16(p, 0, k->step_left) &&
           by_16(p, 0, p->left_along_k ? k->k : k->m) && by_16(p, k->right, k->ld_right) &&
           by_16(p, 0, k->step_right) && by_16(p, 0, p->right_along_k ? k->k : k->n);
}

/* What can be read or written in 16 bytes. */
static u32 whole_of(const ls_gpu_product *p)
{
    const matmul_args *k = &p->k;
    return (by_16(p, k->slope | k->pre, k->ld_slope | k->ld_pre) ? MATMUL_PRE : 0u) |
           (by_16(p, k->residual, k->ld_residual) ? MATMUL_RESIDUAL : 0u) |
           (by_16(p, k->bias, 0) ? MATMUL_BIAS : 0u) |
           (by_16(p, k->y, k->ld_y) && by_16(p, 0, k->step_y) ? MATMUL_Y : 0u) |
           (by_16(p, k->left, k->ld_left) ? MATMUL_LEFT : 0u);
}

void ls_gpu_tile_text(char before[LS_GPU_TILE_TEXT], const ls_gpu_product *p, const ls_gpu_tile *t)
{
    snprintf(before, LS_GPU_TILE_TEXT,
             "#define ELEMENT %s\n#define MULTIPLY %d\n"
             "#define TILE_M %d\n#define TILE_N %d\n#define TILE_K %d\n"
             "#define WARPS_M %d\n#define WARPS_N %d\n#define STAGES %d\n"
             "#define LEFT_ALONG_K %d\n#define RIGHT_ALONG_K %d\n#define WHOLE %d\n#define PARTS %d\n",
             ls_dtype_name(p->type), p->way, t->m, t->n, t->k, t->warps_m, t->warps_n, t->stages,
             p->left_along_k, p->right_along_k, ls_gpu_product_whole(p), p->k.parts > 1);
}

void ls_gpu_product_run(ls_gpu_product *p, const ls_gpu_tile *t)
{
    matmul_args *k = &p->k;
    k->tiles_m = ls_gpu_blocks(k->m, t->m);
    k->tiles_n = ls_gpu_blocks(k->n, t->n);
    k->whole = whole_of(p);
    char before[LS_GPU_TILE_TEXT];
    ls_gpu_tile_text(before, p, t);
    ls_gpu_run(p->queue, &(ls_gpu_launch){ .file = "matmul.cu",
                                           .function = "matmul",
                                           .before = before,
                                           .blocks = k->tiles_m * k->tiles_n * p->batch * k->parts,
                                           .args = k,
                                           .bytes = sizeof *k });
}

void ls_gpu_product_finish(ls_gpu_product *p)
{
    matmul_args *k = &p->k;
    k->whole = whole_of(p);
    char before[40];
    snprintf(before, sizeof before, "#define ELEMENT %s\n", ls_dtype_name(p->type));
    ls_gpu_run(p->queue,
               &(ls_gpu_launch){ .file = "matmul_finish.cu",
                                 .function = "matmul_finish",
                                 .before = before,
                                 .blocks = ls_gpu_blocks(k->m * ls_gpu_blocks(k->n, 8), SUMS_THREADS),
                                 .args = k,
                                 .bytes = sizeof *k });
}
