/* norms_channels.c - rows of batch_norm, group_norm and their gradients for GPUs (kernels/channels.cu). How x
 * is cut into parts depends on its shape and type alone. */
#include "norms.h"
#include "graph/tensor_attrs.h"
#include "kernels/channels.h"

typedef struct channels_plan {
    channels_args args; /* the sizes */
    int64_t blocks;
    char before[192];
} channels_plan;

/* n / by for n < 2^32 (kernels/channels.h) */
static divisor divisor_of(uint32_t by)
{
    divisor d = { 1, 0 };
    while ((uint64_t)1 << d.shift < by)
        d.shift++;
    d.multiply = (uint32_t)((((((uint64_t)1 << d.shift) - by) << 32) / by) + 1);
    return d;
}

/* Sets of `runs` runs of `run` elements; positions: what a piece must not reach beyond. Small runs, which one
 * image gives fewer bytes of than memory moves at once, are read beside those of neighbouring sets. */
static channels_plan gpu_channels_plan_of(const ls_tensor *x, int64_t sets, int64_t runs, int64_t run,
                                          int64_t positions, bool grouped, bool aligned)
{
    enum { SECTOR = 32, THREADS_MOST = 256 };
    const int64_t size = (int64_t)ls_dtype_size(x->type.dtype), v = 16 / size;
    const bool narrow = !grouped && run * size < SECTOR;
    const int64_t width = !narrow && positions % v == 0 ? v : 1, chunks = width == 1 ? 16 : 4;
    int64_t threads = THREADS_MOST;
    while (!narrow && threads > 32 && threads / 2 * chunks * width >= runs * run)
        threads /= 2;
    channels_plan p = { .args = { .sets = sets, .runs = runs, .run = run, .positions = positions } };
    p.args.by_run = divisor_of((uint32_t)(run / width));
    p.args.by_positions = divisor_of((uint32_t)(positions / width));
    p.args.parts = narrow ? ls_gpu_blocks(runs, PART_RUNS)
                          : ls_gpu_blocks(runs * run, threads * chunks * width);
    p.blocks = (narrow ? ls_gpu_blocks(sets, COLUMN_LANES / run) : sets) * p.args.parts;
    snprintf(p.before, sizeof p.before,
             "#define X %s\n#define SIZE %d\n#define CHUNKS %d\n#define WIDTH %d\n#define NARROW %d\n"
             "#define VECTOR %d\n",
             ls_gpu_type(x), (int)threads, (int)chunks, (int)width, narrow, aligned && width > 1);
    return p;
}

static int64_t positions_of(const ls_type *x)
{
    int64_t n = 1;
    for (int d = 2; d < x->ndim; d++)
        n *= x->dims[d];
    return n;
}
static channels_plan batch_plan(const ls_tensor *x, bool aligned)
{
    const int64_t run = positions_of(&x->type);
    return gpu_channels_plan_of(x, x->type.dims[1], x->type.dims[0], run, run, false, aligned);
}
static channels_plan group_plan(const ls_kernel_args *a, const ls_tensor *x, bool aligned)
{
    const int64_t channels = ((const ls_group_norm_attrs *)a->attrs)->channels,
                  groups = x->type.dims[1] / channels, positions = positions_of(&x->type);
    channels_plan p = gpu_channels_plan_of(x, x->type.dims[0] * groups, 1, channels * positions, positions,
                                           true, aligned);
    p.args.groups = groups;
    p.args.channels = channels;
    return p;
}

/* Places in a set are 32-bit numbers. */
const char *ls_gpu_channels_supports(const ls_kernel_args *a)
{
    const ls_type *x = &a->in[0].type;
    if (x->ndim > 1 && x->dims[1] * positions_of(x) > INT32_MAX)
        return "more than 2^31 - 1 numbers of one sample";
    return ls_gpu_no_f64(a);
}

static bool aligned(const ls_tensor *t) { return !ls_gpu_present(t) || (uintptr_t)t->data % 16 == 0; }
static size_t sums_bytes(const channels_plan *p)
{
    return p->args.parts > 1 ? 2 * sizeof(float) * (size_t)(p->args.sets * p->args.parts) : 0;
}
static gpu_address address(const ls_tensor *t) { return ls_gpu_present(t) ? ls_gpu_at(t->data) : 0; }

static void gpu_channels_launch(const ls_kernel_args *a, const channels_plan *p, const char *file,
                                const char *function, int64_t blocks)
{
    ls_gpu_run(a->queue, &(ls_gpu_launch){ file, function, p->before, blocks, &p->args, sizeof p->args });
}

/* Two kernels, the first of them if sets have several parts. */
static void gpu_channels_run(const ls_kernel_args *a, channels_plan *p, const char *first, const char *second)
{
    p->args.sums = ls_gpu_at(a->workspace);
    if (p->args.parts > 1)
        gpu_channels_launch(a, p, "channels.cu", first, p->blocks);
    gpu_channels_launch(a, p, "channels.cu", second, p->blocks);
}

/* ---- batch_norm */

void ls_gpu_batch_norm(const ls_kernel_args *a) /* x, gain, bias, residual? -> y, mean, rstd, variance */
{
    const ls_batch_norm_attrs *attrs = a->attrs;
    channels_plan p = batch_plan(&a->in[0], aligned(&a->in[0]) && aligned(&a->in[3]) && aligned(&a->out[0]));
    p.args.x = address(&a->in[0]);
    p.args.gain = address(&a->in[1]);
    p.args.bias = address(&a->in[2]);
    p.args.extra = address(&a->in[3]);
    p.args.y = address(&a->out[0]);
    p.args.mean = address(&a->out[1]);
    p.args.rstd = address(&a->out[2]);
    p.args.variance = address(&a->out[3]);
    p.args.eps = attrs->eps;
    p.args.relu = attrs->act == LS_ACT_RELU;
    gpu_channels_run(a, &p, "moments", "normalize");
}
size_t ls_gpu_batch_norm_workspace(const ls_kernel_args *a)
{
    const channels_plan p = batch_plan(&a->in[0], false);
    return sums_bytes(&p);
}

void ls_gpu_batch_norm_eval(const ls_kernel_args *a) /* x, gain, bias, mean, variance, residual? -> y */
{
    const ls_batch_norm_attrs *attrs = a->attrs;
    channels_plan p = batch_plan(&a->in[0], aligned(&a->in[0]) && aligned(&a->in[5]) && aligned(&a->out[0]));
    p.args.x = address(&a->in[0]);
    p.args.gain = address(&a->in[1]);
    p.args.bias = address(&a->in[2]);
    p.args.mean = address(&a->in[3]);
    p.args.variance = address(&a->in[4]);
    p.args.extra = address(&a->in[5]);
    p.args.y = address(&a->out[0]);
    p.args.eps = attrs->eps;
    p.args.relu = attrs->act == LS_ACT_RELU;
    p.args.fixed = 1;
    gpu_channels_launch(a, &p, "channels.cu", "normalize", p.blocks);
}

void ls_gpu_batch_norm_grad(const ls_kernel_args *a) /* dy, x, gain, mean, rstd, y? -> dx, dgain, dbias */
{
    channels_plan p = batch_plan(&a->in[1], aligned(&a->in[0]) && aligned(&a->in[1]) && aligned(&a->in[5]) &&
                                                aligned(&a->out[0]));
    p.args.dy = address(&a->in[0]);
    p.args.x = address(&a->in[1]);
    p.args.gain = address(&a->in[2]);
    p.args.mean = address(&a->in[3]);
    p.args.rstd = address(&a->in[4]);
    p.args.extra = address(&a->in[5]);
    p.args.dx = address(&a->out[0]);
    p.args.dgain = address(&a->out[1]);
    p.args.dbias = address(&a->out[2]);
    gpu_channels_run(a, &p, "products", "gradient");
}
size_t ls_gpu_batch_norm_grad_workspace(const ls_kernel_args *a)
{
    const channels_plan p = batch_plan(&a->in[1], false);
    return sums_bytes(&p);
}

/* running mean, running variance, tracked, mean, variance, apply? */
void ls_gpu_batch_norm_update(const ls_kernel_args *a)
{
    const double momentum = ((const ls_batch_norm_update_attrs *)a->attrs)->momentum;
    const running_args r = { .running_mean = address(&a->out[0]),
                             .running_variance = address(&a->out[1]),
                             .tracked = address(&a->out[2]),
                             .mean = address(&a->in[3]),
                             .variance = address(&a->in[4]),
                             .apply = address(&a->in[5]),
                             .channels = a->in[0].type.dims[0],
                             .keep = (float)(1 - momentum),
                             .take = (float)momentum };
    ls_gpu_run(a->queue, &(ls_gpu_launch){ "running.cu", "running", NULL,
                                           ls_gpu_blocks(r.channels, RUNNING_THREADS), &r, sizeof r });
}

/* ---- group_norm */

void ls_gpu_group_norm(const ls_kernel_args *a) /* x, gain, bias -> y, mean, rstd */
{
    channels_plan p = group_plan(a, &a->in[0], aligned(&a->in[0]) && aligned(&a->out[0]));
    p.args.x = address(&a->in[0]);
    p.args.gain = address(&a->in[1]);
    p.args.bias = address(&a->in[2]);
    p.args.y = address(&a->out[0]);
    p.args.mean = address(&a->out[1]);
    p.args.rstd = address(&a->out[2]);
    p.args.eps = ((const ls_group_norm_attrs *)a->attrs)->eps;
    gpu_channels_run(a, &p, "moments", "normalize");
}
size_t ls_gpu_group_norm_workspace(const ls_kernel_args *a)
{
    const channels_plan p = group_plan(a, &a->in[0], false);
    return sums_bytes(&p);
}

void ls_gpu_group_norm_grad(const ls_kernel_args *a) /* dy, x, gain, mean, rstd -> dx, dgain, dbias */
{
    channels_plan p = group_plan(a, &a->in[1],
                                 aligned(&a->in[0]) && aligned(&a->in[1]) && aligned(&a->out[0]));
    p.args.dy = address(&a->in[0]);
    p.args.x = address(&a->in[1]);
    p.args.gain = address(&a->in[2]);
    p.args.mean = address(&a->in[3]);
    p.args.rstd = address(&a->in[4]);
    p.args.dx = address(&a->out[0]);
    p.args.dgain = address(&a->out[1]);
    p.args.dbias = address(&a->out[2]);
    p.args.sums = ls_gpu_at(a->workspace);
    const int64_t channels = p.args.groups * p.args.channels, samples = a->in[1].type.dims[0];
    gpu_channels_launch(a, &p, "group_grad.cu", "group_sums",
                        ls_gpu_blocks(samples * channels, CHANNEL_WARPS));
    gpu_channels_launch(a, &p, "group_grad.cu", "group_gradient", p.blocks);
    gpu_channels_launch(a, &p, "group_grad.cu", "group_parameters",
                        ls_gpu_blocks(channels, PARAMETER_THREADS));
}
size_t ls_gpu_group_norm_grad_workspace(const ls_kernel_args *a)
{
    return 2 * sizeof(float) * (size_t)(a->in[1].type.dims[0] * a->in[1].type.dims[1]);
}
