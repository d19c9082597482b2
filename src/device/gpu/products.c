/* products.c - rows of matrix products: linear, its two gradients, batch_matmul. Each is a call of matmul.cu
 * with other sides (gpu/kernels/product.h says how it multiplies); here the tiles are chosen. */
#include "gpu.h"
#include "graph/tensor_attrs.h"
#include "kernels/matmul.h"

/* ---- tiles */

/* How numbers are multiplied: MULTIPLY of product.h. */
typedef enum way { MMA = 1, TF32, FMA } way;

typedef struct tile {
    int m, n, k, warps_m, warps_n, stages;
    double rate;       /* roughly, sums a multiprocessor makes in a time, against the largest tile's */
    bool whole;        /* only where rows can be fetched in 16 bytes: else it would need too many registers */
    bool left_along_k; /* only where left lines follow depth */
} tile;

/* From the largest on. A large tile reads less, a small one makes more blocks. The smallest is for few rows:
 * each weight is read once, so that memory sets the time. */
static const tile MMA_TILES[] = { { 128, 256, 64, 2, 4, 3, 1.0, true, false },
                                  { 128, 128, 32, 2, 2, 4, 0.9, false, false },
                                  { 64, 64, 64, 2, 2, 3, 0.6, false, false },
                                  { 16, 16, 128, 1, 1, 4, 0.2, false, false },
                                  { 0 } },
                  TF32_TILES[] = { { 128, 128, 32, 2, 4, 3, 1.0, false, false },
                                   { 64, 64, 32, 2, 2, 3, 0.6, false, false },
                                   { 16, 16, 64, 1, 1, 4, 0.2, false, false },
                                   { 0 } },
                  FMA_TILES[] = { { 128, 128, 16, 2, 4, 4, 1.0, false, false },
                                  { 64, 64, 32, 2, 2, 3, 0.7, false, false },
                                  { 8, 16, 64, 1, 1, 4, 0.15, false, true },
                                  { 0 } };

enum {
    PROCESSORS = 132, /* of an H100. A constant, so that a plan is the same everywhere. */
    PART_UNIT = 128,  /* parts of depth are multiples of every tile's k, */
    PART_LEAST = 512, /* are not shorter than this, */
    PARTS_MOST = 32   /* nor more */
};

/* The most bytes of shared memory that a block may have. */
static int64_t shared_most(int level)
{
    return (level == 80 || level == 87 ? 163 : level / 10 == 8 || level / 10 == 12 ? 99 : 227) << 10;
}

/* A product of matrices: what the rows below fill in, beside the arguments. */
typedef struct job {
    const ls_kernel_args *a;
    way way;
    bool left_along_k, right_along_k;
    int64_t batch;
    matmul_args k;
} job;

static int64_t size_of(const job *j) { return (int64_t)ls_dtype_size(j->a->in[0].type.dtype); }

/* The tile with which all blocks are done first, if a multiprocessor does one after the other. */
static const tile *choose_tile(const job *j, bool whole)
{
    const tile *list = j->way == MMA ? MMA_TILES : j->way == TF32 ? TF32_TILES : FMA_TILES, *best = NULL;
    double least = 0;
    for (const tile *t = list; t->m; t++) {
        const int64_t blocks = ls_gpu_blocks(j->k.m, t->m) * ls_gpu_blocks(j->k.n, t->n) * j->batch *
                               j->k.parts;
        const double time = (double)ls_gpu_blocks(blocks, PROCESSORS) * t->m * t->n / t->rate;
        if ((t->whole && !whole) || (t->left_along_k && !j->left_along_k) ||
            t->stages * (t->m + t->n) * t->k * size_of(j) > shared_most(j->a->arch->level))
            continue;
        if (!best || time < least) {
            best = t;
            least = time;
        }
    }
    return best;
}

/* ---- alignment */

static bool by_16(const job *j, at address, int64_t elements)
{
    return address % 16 == 0 && elements * size_of(j) % 16 == 0;
}
static bool whole_side(const job *j, at address, int64_t ld, int64_t step, bool along_k, int64_t outer)
{
    return by_16(j, address, ld) && by_16(j, 0, step) && by_16(j, 0, along_k ? j->k.k : outer);
}

/* ---- launches */

static void launch(job *j)
{
    matmul_args *k = &j->k;
    const bool whole = whole_side(j, k->left, k->ld_left, k->step_left, j->left_along_k, k->m) &&
                       whole_side(j, k->right, k->ld_right, k->step_right, j->right_along_k, k->n);
    const tile *t = choose_tile(j, whole);
    k->tiles_m = ls_gpu_blocks(k->m, t->m);
    k->tiles_n = ls_gpu_blocks(k->n, t->n);
    if (by_16(j, k->slope | k->pre, k->ld_slope | k->ld_pre))
        k->whole |= MATMUL_PRE;
    if (by_16(j, k->residual, k->ld_residual))
        k->whole |= MATMUL_RESIDUAL;
    if (by_16(j, k->bias, 0))
        k->whole |= MATMUL_BIAS;
    if (by_16(j, k->y, k->ld_y) && by_16(j, 0, k->step_y))
        k->whole |= MATMUL_Y;
    char before[400];
    snprintf(before, sizeof before,
             "#define ELEMENT %s\n#define MULTIPLY %d\n"
             "#define TILE_M %d\n#define TILE_N %d\n#define TILE_K %d\n"
             "#define WARPS_M %d\n#define WARPS_N %d\n#define STAGES %d\n"
             "#define LEFT_ALONG_K %d\n#define RIGHT_ALONG_K %d\n#define WHOLE %d\n#define PARTS %d\n",
             ls_gpu_type(&j->a->in[0]), j->way, t->m, t->n, t->k, t->warps_m, t->warps_n, t->stages,
             j->left_along_k, j->right_along_k, whole, k->parts > 1);
    ls_gpu_run(j->a->queue, &(ls_gpu_launch){ .file = "matmul.cu",
                                              .function = "matmul",
                                              .before = before,
                                              .blocks = k->tiles_m * k->tiles_n * j->batch * k->parts,
                                              .args = k,
                                              .bytes = sizeof *k });
}

static void launch_sum(const ls_kernel_args *a, const char *function, int64_t blocks, const void *args,
                       size_t bytes)
{
    char before[40];
    snprintf(before, sizeof before, "#define X %s\n", ls_gpu_type(&a->in[0]));
    ls_gpu_run(a->queue, &(ls_gpu_launch){ .file = "matmul_sums.cu",
                                           .function = function,
                                           .before = before,
                                           .blocks = blocks,
                                           .args = args,
                                           .bytes = bytes });
}

static way way_of(const ls_kernel_args *a) { return a->in[0].type.dtype == LS_F32 ? FMA : MMA; }

/* Elements from row to row, where one stride leads over all rows. */
static int64_t row_stride(const ls_tensor *t)
{
    for (int d = t->type.ndim - 2; d >= 0; d--)
        if (t->type.dims[d] > 1)
            return t->strides[d];
    return t->type.ndim ? t->type.dims[t->type.ndim - 1] : 1;
}
static int64_t columns(const ls_tensor *t) { return t->type.dims[t->type.ndim - 1]; }

static job job_of(const ls_kernel_args *a, way way, int64_t m, int64_t n, int64_t k)
{
    return (job){ .a = a,
                  .way = way,
                  .batch = 1,
                  .k = { .left = ls_gpu_at(a->in[0].data),
                         .right = ls_gpu_at(a->in[1].data),
                         .y = ls_gpu_at(a->out[0].data),
                         .m = m,
                         .n = n,
                         .k = k,
                         .ld_left = row_stride(&a->in[0]),
                         .ld_right = row_stride(&a->in[1]),
                         .ld_y = row_stride(&a->out[0]),
                         .part = k,
                         .parts = 1 } };
}
static bool given(const ls_kernel_args *a, int i) { return i < a->n_in && ls_gpu_present(&a->in[i]); }

/* ---- linear and linear_dx */

static void linear(const ls_kernel_args *a, way way) /* x, w, bias?, residual? -> y, pre if act */
{
    job j = job_of(a, way, ls_type_rows(&a->in[0].type), a->in[1].type.dims[0], a->in[1].type.dims[1]);
    j.left_along_k = j.right_along_k = true;
    j.k.act = (i32)((const ls_linear_attrs *)a->attrs)->act;
    if (given(a, 2))
        j.k.bias = ls_gpu_at(a->in[2].data);
    if (given(a, 3)) {
        j.k.residual = ls_gpu_at(a->in[3].data);
        j.k.ld_residual = row_stride(&a->in[3]);
    }
    if (j.k.act != LS_ACT_NONE) {
        j.k.pre = ls_gpu_at(a->out[1].data);
        j.k.ld_pre = row_stride(&a->out[1]);
    }
    launch(&j);
}

static void linear_dx(const ls_kernel_args *a, way way) /* dy, w, pre?, addend? -> dx */
{
    job j = job_of(a, way, ls_type_rows(&a->in[0].type), a->in[1].type.dims[1], a->in[1].type.dims[0]);
    j.left_along_k = true;
    j.k.act = (i32)((const ls_linear_attrs *)a->attrs)->act;
    if (j.k.act != LS_ACT_NONE) {
        j.k.slope = ls_gpu_at(a->in[2].data);
        j.k.ld_slope = row_stride(&a->in[2]);
    }
    if (given(a, 3)) {
        j.k.residual = ls_gpu_at(a->in[3].data);
        j.k.ld_residual = row_stride(&a->in[3]);
    }
    launch(&j);
}

/* ---- linear_dw: the sums go over rows, often many of them for few results, so depth is cut into parts */

/* How depth is cut: a function of the shapes only. */
typedef struct dw_plan {
    int64_t rows, m, n, part, parts, sum_parts;
    size_t parts_bytes, bytes; /* of workspace: the parts, and the column sums of rows behind them */
} dw_plan;

static dw_plan plan_dw(const ls_kernel_args *a)
{
    dw_plan p = { .rows = ls_type_rows(&a->in[0].type), .m = columns(&a->in[0]), .n = columns(&a->in[1]) };
    const int64_t tiles = ls_gpu_blocks(p.m, 128) * ls_gpu_blocks(p.n, 128),
                  longest = ls_gpu_blocks(p.rows, PART_LEAST);
    int64_t parts = tiles ? 2 * PROCESSORS / tiles : 1;
    parts = parts < longest ? parts : longest;
    parts = parts < 1 ? 1 : parts > PARTS_MOST ? PARTS_MOST : parts;
    p.part = ls_gpu_blocks(ls_gpu_blocks(p.rows, parts), PART_UNIT) * PART_UNIT;
    p.parts = p.part ? ls_gpu_blocks(p.rows, p.part) : 1;
    if (p.parts > 1)
        p.parts_bytes = ((size_t)(p.parts * p.m * p.n) * sizeof(float) + 255) / 256 * 256;
    p.sum_parts = p.rows > SUMS_ROWS ? ls_gpu_blocks(p.rows, SUMS_ROWS) : 1;
    p.bytes = p.parts_bytes;
    if (((const ls_linear_dw_attrs *)a->attrs)->bias && p.sum_parts > 1)
        p.bytes += (size_t)(p.sum_parts * p.m) * sizeof(float);
    return p;
}
static size_t workspace_dw(const ls_kernel_args *a) { return plan_dw(a).bytes; }

static void sum_parts(const ls_kernel_args *a, at parts, const ls_tensor *y, int64_t n, int64_t rows,
                      int64_t columns)
{
    const matmul_sum_args k = { .parts = parts,
                                .y = ls_gpu_at(y->data),
                                .n_parts = n,
                                .rows = rows,
                                .columns = columns,
                                .ld_y = rows > 1 ? row_stride(y) : columns };
    launch_sum(a, "matmul_sum", ls_gpu_blocks(rows * columns, SUMS_THREADS), &k, sizeof k);
}

static void linear_dw(const ls_kernel_args *a, way way) /* dy, x -> dw, db? */
{
    const dw_plan p = plan_dw(a);
    const at parts = ls_gpu_at(a->workspace), sums = parts + p.parts_bytes;
    job j = job_of(a, way, p.m, p.n, p.rows);
    if (p.parts > 1) {
        j.k.part = p.part;
        j.k.parts = p.parts;
        j.k.y = parts;
    }
    launch(&j);
    if (p.parts > 1)
        sum_parts(a, parts, &a->out[0], p.parts, p.m, p.n);
    if (!((const ls_linear_dw_attrs *)a->attrs)->bias)
        return;
    const column_sum_args k = { .x = ls_gpu_at(a->in[0].data),
                                .parts = sums,
                                .y = ls_gpu_at(a->out[1].data),
                                .rows = p.rows,
                                .columns = p.m,
                                .ld_x = row_stride(&a->in[0]) };
    launch_sum(a, "column_sum", p.sum_parts * ls_gpu_blocks(p.m, SUMS_COLUMNS), &k, sizeof k);
    if (p.sum_parts > 1)
        sum_parts(a, sums, &a->out[1], p.sum_parts, 1, p.m);
}

/* ---- batch_matmul */

static void batch_matmul(const ls_kernel_args *a, way way) /* a, b -> y */
{
    const ls_matmul_attrs *o = a->attrs;
    const ls_type *ta = &a->in[0].type, *tb = &a->in[1].type, *ty = &a->out[0].type;
    const int n = ty->ndim;
    job j = job_of(a, way, ty->dims[n - 2], ty->dims[n - 1], ta->dims[o->transpose_a ? n - 2 : n - 1]);
    j.left_along_k = !o->transpose_a;
    j.right_along_k = o->transpose_b;
    for (int d = 0; d < n - 2; d++)
        j.batch *= ty->dims[d];
    j.k.ld_left = ta->dims[n - 1];
    j.k.ld_right = tb->dims[n - 1];
    j.k.ld_y = ty->dims[n - 1];
    j.k.step_left = j.k.m * j.k.k;
    j.k.step_right = j.k.k * j.k.n;
    j.k.step_y = j.k.m * j.k.n;
    launch(&j);
}

/* ---- rows */

static const char *supports(const ls_kernel_args *a)
{
    for (int i = 0; i < a->n_in + a->n_out; i++) {
        const ls_tensor *t = i < a->n_in ? &a->in[i] : &a->out[i - a->n_in];
        if (!ls_gpu_present(t))
            continue;
        if (t->type.dtype != LS_F32 && t->type.dtype != LS_BF16 && t->type.dtype != LS_F16)
            return "only f32, bf16 and f16 (f64 is for device ref)";
        if (t->type.dtype != a->in[0].type.dtype)
            return "all operands must have one type";
    }
    return NULL;
}
static const char *supports_tf32(const ls_kernel_args *a)
{
    const char *why = supports(a);
    return why ? why : a->in[0].type.dtype == LS_F32 ? NULL : "kernels: tf32 is for f32";
}

#define RUNS(op)                                                        \
    static void run_##op(const ls_kernel_args *a) { op(a, way_of(a)); } \
    static void run_##op##_tf32(const ls_kernel_args *a) { op(a, TF32); }
RUNS(linear)
RUNS(linear_dx)
RUNS(linear_dw)
RUNS(batch_matmul)

/* Matrices may be row-strided. (The bias is a vector; batch_matmul has many matrices.) */
#define ROWS(suffix, supports_it)                                                           \
    { .op = "linear",                                                                       \
      .run = run_linear##suffix,                                                            \
      .supports = supports_it,                                                              \
      .rows_in = LS_OPERAND(0) | LS_OPERAND(1) | LS_OPERAND(3),                             \
      .rows_out = LS_OPERAND(0) | LS_OPERAND(1) },                                          \
        { .op = "linear_dx",                                                                \
          .run = run_linear_dx##suffix,                                                     \
          .supports = supports_it,                                                          \
          .rows_in = LS_OPERAND(0) | LS_OPERAND(1) | LS_OPERAND(2) | LS_OPERAND(3),         \
          .rows_out = LS_OPERAND(0) },                                                      \
        { .op = "linear_dw",                                                                \
          .run = run_linear_dw##suffix,                                                     \
          .workspace = workspace_dw,                                                        \
          .supports = supports_it,                                                          \
          .rows_in = LS_OPERAND(0) | LS_OPERAND(1),                                         \
          .rows_out = LS_OPERAND(0) },                                                      \
        { .op = "batch_matmul", .run = run_batch_matmul##suffix, .supports = supports_it }, \
    {                                                                                       \
        0                                                                                   \
    }

const ls_kernel ls_gpu_products[] = { ROWS(, supports) };
const ls_kernel ls_gpu_products_tf32[] = { ROWS(_tf32, supports_tf32) };
