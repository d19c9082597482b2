/* pictures.c - rows of kernels for GPUs: pooling and resizing of pictures; convolution is in conv.c. */
#include "gpu.h"
#include "pictures.h"
#include "kernels/pool.h"
#include "kernels/resize.h"

enum { LARGE_WINDOW = 256 }; /* elements; a warp adds them up */

static void gpu_pictures_run(const ls_kernel_args *a, const char *file, const char *function,
                             const char *before, int64_t threads, const void *args, size_t bytes)
{
    _Static_assert((int)POOL_THREADS == (int)RESIZE_THREADS, "one number of threads");
    ls_gpu_run(a->queue, &(ls_gpu_launch){ .file = file,
                                           .function = function,
                                           .before = before,
                                           .blocks = ls_gpu_blocks(threads, POOL_THREADS),
                                           .args = args,
                                           .bytes = bytes });
}

/* ---- pools. x: the picture, y: the result; `writes` is the one that is written */

static void pool(const ls_kernel_args *a, pool_args p, const char *function, const ls_tensor *x,
                 const ls_tensor *y, const ls_tensor *writes, int lanes)
{
    char before[64];
    p.x = ls_gpu_at(x->data);
    p.y = ls_gpu_at(y->data);
    p.planes = x->type.dims[0] * x->type.dims[1];
    p.h = x->type.dims[2];
    p.w = x->type.dims[3];
    p.oh = y->type.dims[2];
    p.ow = y->type.dims[3];
    snprintf(before, sizeof before, "#define X %s\n#define LANES %d\n", ls_gpu_type(x), lanes);
    gpu_pictures_run(a, "pool.cu", function, before, ls_gpu_count(&writes->type) * lanes, &p, sizeof p);
}

static pool_args of_maximum(const ls_kernel_args *a, const ls_tensor *where)
{
    const ls_max_pool_attrs *o = a->attrs;
    return (pool_args){ .where = ls_gpu_at(where->data),
                        .kernel_h = o->kernel_h,
                        .kernel_w = o->kernel_w,
                        .stride_h = o->stride_h,
                        .stride_w = o->stride_w,
                        .pad_h = o->pad_h,
                        .pad_w = o->pad_w };
}

static void max_pool2d(const ls_kernel_args *a) /* x -> y, where */
{
    pool(a, of_maximum(a, &a->out[1]), "max_pool2d", &a->in[0], &a->out[0], &a->out[0], 1);
}

static void max_pool2d_grad(const ls_kernel_args *a) /* dy, where -> dx */
{
    pool(a, of_maximum(a, &a->in[1]), "max_pool2d_grad", &a->out[0], &a->in[0], &a->out[0], 1);
}

static pool_args of_mean(const ls_kernel_args *a)
{
    const ls_avg_pool_attrs *o = a->attrs;
    return (pool_args){ .kernel_h = o->kernel_h,
                        .kernel_w = o->kernel_w,
                        .stride_h = o->stride_h,
                        .stride_w = o->stride_w,
                        .pad_h = o->pad_h,
                        .pad_w = o->pad_w,
                        .whole = o->whole };
}

static void avg_pool2d(const ls_kernel_args *a)
{
    const pool_args p = of_mean(a);
    const int64_t *x = a->in[0].type.dims, *y = a->out[0].type.dims,
                  h = p.kernel_h ? p.kernel_h : x[2] / y[2], w = p.kernel_w ? p.kernel_w : x[3] / y[3];
    pool(a, p, "avg_pool2d", &a->in[0], &a->out[0], &a->out[0], h * w < LARGE_WINDOW ? 1 : 32);
}

static void avg_pool2d_grad(const ls_kernel_args *a) /* dy -> dx */
{
    pool(a, of_mean(a), "avg_pool2d_grad", &a->out[0], &a->in[0], &a->out[0], 1);
}

/* ---- resize */

/* Lines of the picture from one line of the resized one to the next, as ls_resized has it. */
static double step(int64_t in, int64_t out, int64_t mode)
{
    if (mode == LS_BY_NEAREST)
        return (float)in / (float)out;
    if (mode == LS_BY_CENTRES)
        return (double)in / (double)out;
    return out > 1 ? (double)(in - 1) / (double)(out - 1) : 0;
}

static void resize(const ls_kernel_args *a, const char *function, const ls_tensor *x, const ls_tensor *y)
{
    _Static_assert((int)LS_BY_NEAREST == BY_NEAREST && (int)LS_BY_CENTRES == BY_CENTRES &&
                       (int)LS_BY_CORNERS == BY_CORNERS,
                   "kernels have the modes by other names");
    const int64_t mode = ((const ls_resize_attrs *)a->attrs)->mode, *in = x->type.dims, *out = y->type.dims;
    const resize_args r = { .x = ls_gpu_at(x->data),
                            .y = ls_gpu_at(y->data),
                            .planes = in[0] * in[1],
                            .h = in[2],
                            .w = in[3],
                            .oh = out[2],
                            .ow = out[3],
                            .step_h = step(in[2], out[2], mode),
                            .step_w = step(in[3], out[3], mode) };
    char before[64];
    snprintf(before, sizeof before, "#define X %s\n#define MODE %d\n", ls_gpu_type(x), (int)mode);
    gpu_pictures_run(a, "resize.cu", function, before, ls_gpu_count(&a->out[0].type), &r, sizeof r);
}
static void resize2d(const ls_kernel_args *a) { resize(a, "resize2d", &a->in[0], &a->out[0]); }
static void resize2d_grad(const ls_kernel_args *a) { resize(a, "resize2d_grad", &a->out[0], &a->in[0]); }

const ls_kernel ls_gpu_pictures[] = {
    { "max_pool2d", max_pool2d, .supports = ls_gpu_no_f64 },
    { "max_pool2d_grad", max_pool2d_grad, .supports = ls_gpu_no_f64 },
    { "avg_pool2d", avg_pool2d, .supports = ls_gpu_no_f64 },
    { "avg_pool2d_grad", avg_pool2d_grad, .supports = ls_gpu_no_f64 },
    { "resize2d", resize2d, .supports = ls_gpu_no_f64 },
    { "resize2d_grad", resize2d_grad, .supports = ls_gpu_no_f64 },
    { "conv2d", ls_gpu_conv2d, .workspace = ls_gpu_conv2d_workspace, .supports = ls_gpu_conv_supports },
    { "conv2d_dx", ls_gpu_conv2d_dx, .workspace = ls_gpu_conv2d_dx_workspace,
      .supports = ls_gpu_conv_supports },
    { "conv2d_dw", ls_gpu_conv2d_dw, .workspace = ls_gpu_conv2d_dw_workspace,
      .supports = ls_gpu_conv_supports },
    { 0 },
};
