/* products.c - rows of matrix products: linear, its two gradients, batch_matmul. Each is a call of matmul.cu
 * with other sides. */
#include "graph/tensor_attrs.h"
#include "grouped_linear.h"
#include "pictures.h"
#include "products.h"

enum {
    PROCESSORS = 132, /* of an H100. A constant, so that a plan is the same everywhere. */
    PART_UNIT = 128,  /* parts of depth are multiples of every tile's k, */
    PART_LEAST = 512, /* are not shorter than this, */
    PARTS_MOST = 32   /* nor more */
};

void ls_gpu_product_make(ls_gpu_product *p)
{
    const matmul_args *k = &p->k;
    ls_gpu_product_run(p, ls_gpu_tile_for(p, k->m, k->n, p->batch * k->parts, ls_gpu_product_whole(p)));
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

/* Elements from row to row, where one stride leads over all rows. */
static int64_t row_stride(const ls_tensor *t)
{
    for (int d = t->type.ndim - 2; d >= 0; d--)
        if (t->type.dims[d] > 1)
            return t->strides[d];
    return t->type.ndim ? t->type.dims[t->type.ndim - 1] : 1;
}
static int64_t columns(const ls_tensor *t) { return t->type.dims[t->type.ndim - 1]; }

static ls_gpu_product product_of(const ls_kernel_args *a, int64_t m, int64_t n, int64_t k)
{
    return (ls_gpu_product){ .queue = a->queue,
                             .arch = a->arch,
                             .type = a->in[0].type.dtype,
                             .way = a->in[0].type.dtype == LS_F32 ? LS_GPU_FMA : LS_GPU_MMA,
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
static bool gpu_products_given(const ls_kernel_args *a, int i)
{
    return i < a->n_in && ls_gpu_present(&a->in[i]);
}

/* ---- linear and linear_dx */

ls_gpu_product ls_gpu_linear(const ls_kernel_args *a) /* x, w, bias?, residual? -> y, pre if act */
{
    ls_gpu_product j = product_of(a, ls_type_rows(&a->in[0].type), a->in[1].type.dims[0],
                                  a->in[1].type.dims[1]);
    j.left_along_k = j.right_along_k = true;
    j.k.act = (i32)((const ls_linear_attrs *)a->attrs)->act;
    if (gpu_products_given(a, 2))
        j.k.bias = ls_gpu_at(a->in[2].data);
    if (gpu_products_given(a, 3)) {
        j.k.residual = ls_gpu_at(a->in[3].data);
        j.k.ld_residual = row_stride(&a->in[3]);
    }
    if (j.k.act != LS_ACT_NONE) {
        j.k.pre = ls_gpu_at(a->out[1].data);
        j.k.ld_pre = row_stride(&a->out[1]);
    }
    return j;
}

ls_gpu_product ls_gpu_linear_dx(const ls_kernel_args *a) /* dy, w, pre?, addend? -> dx */
{
    ls_gpu_product j = product_of(a, ls_type_rows(&a->in[0].type), a->in[1].type.dims[1],
                                  a->in[1].type.dims[0]);
    j.left_along_k = true;
    j.k.act = (i32)((const ls_linear_attrs *)a->attrs)->act;
    if (j.k.act != LS_ACT_NONE) {
        j.k.slope = ls_gpu_at(a->in[2].data);
        j.k.ld_slope = row_stride(&a->in[2]);
    }
    if (gpu_products_given(a, 3)) {
        j.k.residual = ls_gpu_at(a->in[3].data);
        j.k.ld_residual = row_stride(&a->in[3]);
    }
    return j;
}

/* ---- linear_dw: the sums go over rows, often many of them for few results, so depth is cut into parts */

/* How depth is cut: a function of the shapes only. */
typedef struct dw_plan {
    int64_t rows, m, n, part, parts;
    size_t parts_bytes; /* of workspace: the parts; the column sums of rows are behind them */
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
    return p;
}
static size_t workspace_dw(const ls_kernel_args *a)
{
    return plan_dw(a).parts_bytes + ls_gpu_linear_db_workspace(a);
}

static void sum_parts(const ls_kernel_args *a, gpu_address parts, const ls_tensor *y, int64_t n, int64_t rows,
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

ls_gpu_product ls_gpu_linear_dw(const ls_kernel_args *a)
{
    return product_of(a, columns(&a->in[0]), columns(&a->in[1]), ls_type_rows(&a->in[0].type));
}

size_t ls_gpu_linear_db_workspace(const ls_kernel_args *a)
{
    const int64_t rows = ls_type_rows(&a->in[0].type);
    if (!((const ls_linear_dw_attrs *)a->attrs)->bias || rows <= SUMS_ROWS)
        return 0;
    return (size_t)(ls_gpu_blocks(rows, SUMS_ROWS) * columns(&a->in[0])) * sizeof(float);
}

void ls_gpu_linear_db(const ls_kernel_args *a, gpu_address sums)
{
    if (!((const ls_linear_dw_attrs *)a->attrs)->bias)
        return;
    const int64_t rows = ls_type_rows(&a->in[0].type), m = columns(&a->in[0]),
                  parts = rows > SUMS_ROWS ? ls_gpu_blocks(rows, SUMS_ROWS) : 1;
    const column_sum_args k = { .x = ls_gpu_at(a->in[0].data),
                                .parts = sums,
                                .y = ls_gpu_at(a->out[1].data),
                                .rows = rows,
                                .columns = m,
                                .ld_x = row_stride(&a->in[0]) };
    launch_sum(a, "column_sum", parts * ls_gpu_blocks(m, SUMS_COLUMNS), &k, sizeof k);
    if (parts > 1)
        sum_parts(a, sums, &a->out[1], parts, 1, m);
}

static void linear_dw(const ls_kernel_args *a, ls_gpu_way way) /* dy, x -> dw, db? */
{
    const dw_plan p = plan_dw(a);
    const gpu_address parts = ls_gpu_at(a->workspace);
    ls_gpu_product j = ls_gpu_linear_dw(a);
    j.way = way;
    if (p.parts > 1) {
        j.k.part = p.part;
        j.k.parts = p.parts;
        j.k.y = parts;
    }
    ls_gpu_product_make(&j);
    if (p.parts > 1)
        sum_parts(a, parts, &a->out[0], p.parts, p.m, p.n);
    ls_gpu_linear_db(a, parts + p.parts_bytes);
}

/* ---- batch_matmul */

ls_gpu_product ls_gpu_batch_matmul(const ls_kernel_args *a) /* a, b -> y */
{
    const ls_matmul_attrs *o = a->attrs;
    const ls_type *ta = &a->in[0].type, *tb = &a->in[1].type, *ty = &a->out[0].type;
    const int n = ty->ndim;
    ls_gpu_product j = product_of(a, ty->dims[n - 2], ty->dims[n - 1],
                                  ta->dims[o->transpose_a ? n - 2 : n - 1]);
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
    return j;
}

/* ---- rows */

const char *ls_gpu_product_supports(const ls_kernel_args *a)
{
    if (gpu_products_given(a, 4))
        return "weights of 4 bits: dequantize makes numbers of them first";
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
static const char TF32_IS_FOR_F32[] = "kernels: tf32 is for f32";
static const char *supports_tf32(const ls_kernel_args *a)
{
    const char *why = ls_gpu_product_supports(a);
    return why ? why : a->in[0].type.dtype == LS_F32 ? NULL : TF32_IS_FOR_F32;
}

#define RUNS(op)                                         \
    static void run_##op(const ls_kernel_args *a)        \
    {                                                    \
        ls_gpu_product p = ls_gpu_##op(a);               \
        ls_gpu_product_make(&p);                         \
    }                                                    \
    static void run_##op##_tf32(const ls_kernel_args *a) \
    {                                                    \
        ls_gpu_product p = ls_gpu_##op(a);               \
        p.way = LS_GPU_TF32;                             \
        ls_gpu_product_make(&p);                         \
    }
RUNS(linear)
RUNS(linear_dx)
RUNS(batch_matmul)
static void run_linear_dw(const ls_kernel_args *a) { linear_dw(a, ls_gpu_linear_dw(a).way); }
static void run_linear_dw_tf32(const ls_kernel_args *a) { linear_dw(a, LS_GPU_TF32); }

/* Matrices may be row-strided. (The bias is a vector; batch_matmul has many matrices.) */
#define ROWS(suffix, by_it, supports_it)                                                            \
    { .op = "linear",                                                                               \
      .by = by_it,                                                                                  \
      .run = run_linear##suffix,                                                                    \
      .supports = supports_it,                                                                      \
      .rows_in = LS_OPERAND(0) | LS_OPERAND(1) | LS_OPERAND(3),                                     \
      .rows_out = LS_OPERAND(0) | LS_OPERAND(1) },                                                  \
        { .op = "linear_dx",                                                                        \
          .by = by_it,                                                                              \
          .run = run_linear_dx##suffix,                                                             \
          .supports = supports_it,                                                                  \
          .rows_in = LS_OPERAND(0) | LS_OPERAND(1) | LS_OPERAND(2) | LS_OPERAND(3),                 \
          .rows_out = LS_OPERAND(0) },                                                              \
        { .op = "linear_dw",                                                                        \
          .by = by_it,                                                                              \
          .run = run_linear_dw##suffix,                                                             \
          .workspace = workspace_dw,                                                                \
          .supports = supports_it,                                                                  \
          .rows_in = LS_OPERAND(0) | LS_OPERAND(1),                                                 \
          .rows_out = LS_OPERAND(0) },                                                              \
    {                                                                                               \
        .op = "batch_matmul", .by = by_it, .run = run_batch_matmul##suffix, .supports = supports_it \
    }

/* (offsets and weights are whole; the weights' number is the experts') */
#define GROUPED_ROWS(suffix, by_it, supports_it)                                                     \
    { .op = "grouped_linear",                                                                        \
      .by = by_it,                                                                                   \
      .run = ls_gpu_grouped_linear##suffix,                                                          \
      .supports = supports_it,                                                                       \
      .rows_in = LS_OPERAND(0),                                                                      \
      .rows_out = LS_OPERAND(0) },                                                                   \
        { .op = "grouped_linear_dx",                                                                 \
          .by = by_it,                                                                               \
          .run = ls_gpu_grouped_linear_dx##suffix,                                                   \
          .supports = supports_it,                                                                   \
          .rows_in = LS_OPERAND(0),                                                                  \
          .rows_out = LS_OPERAND(0) },                                                               \
    {                                                                                                \
        .op = "grouped_linear_dw", .by = by_it, .run = ls_gpu_grouped_linear_dw##suffix,             \
        .supports = supports_it, .rows_in = LS_OPERAND(0) | LS_OPERAND(1), .rows_out = LS_OPERAND(0) \
    }

const ls_kernel ls_gpu_products[] = { ROWS(, NULL, ls_gpu_product_supports),
                                      GROUPED_ROWS(, NULL, ls_gpu_no_f64),
                                      { 0 } };

static const char *grouped_supports_tf32(const ls_kernel_args *a)
{
    return a->in[0].type.dtype == LS_F32 ? NULL : TF32_IS_FOR_F32;
}

static const char *conv_supports_tf32(const ls_kernel_args *a)
{
    const char *why = ls_gpu_conv_supports(a);
    return why ? why : supports_tf32(a);
}
const ls_kernel ls_gpu_products_tf32[] = {
    ROWS(_tf32, "tf32", supports_tf32),
    GROUPED_ROWS(_tf32, "tf32", grouped_supports_tf32),
    { .op = "conv2d",
      .by = "tf32",
      .run = ls_gpu_conv2d_tf32,
      .workspace = ls_gpu_conv2d_workspace,
      .supports = conv_supports_tf32 },
    { .op = "conv2d_dx",
      .by = "tf32",
      .run = ls_gpu_conv2d_dx_tf32,
      .workspace = ls_gpu_conv2d_dx_workspace,
      .supports = conv_supports_tf32 },
    { .op = "conv2d_dw",
      .by = "tf32",
      .run = ls_gpu_conv2d_dw_tf32,
      .workspace = ls_gpu_conv2d_dw_workspace,
      .supports = conv_supports_tf32 },
    { 0 },
};
