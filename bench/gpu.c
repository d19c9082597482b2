/* gpu.c - the speed of kernels of device cuda beside what the card gives: a copy, and a product.
 *
 *   bench_gpu [--small] [--device cuda] [--rounds 20]
 *
 * Prints a line of JSON for each case: `name`, `ms` (median of the rounds, by events of the queue), and
 * `gb_per_s` (each operand once) or `tflops`. Each round begins behind a fill of 512 MiB: the case finds
 * nothing in the GPU's caches, and its launch waits for no host. bench/gpu_kernels.py measures the cases of
 * the same names with PyTorch in the same way.
 * --small: sizes for the emulator, which say nothing about speed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/queue.h"
#include "ops/rules.h"

enum { INPUTS = 8, MOST_ROUNDS = 100 };

typedef struct bench_case {
    const char *name, *op, *kernels;
    const void *attrs;
    int n_in;
    ls_type in[INPUTS];
} bench_case;

#define T(dtype, ...) LS_TYPE(LS_##dtype, __VA_ARGS__)
#define NONE                   \
    {                          \
        .dtype = 0, .ndim = -1 \
    }
static const ls_linear_attrs PLAIN;
static const ls_attention_attrs CAUSAL = { .head_dim = 64, .causal = 1, .scale = 0.125, .pad = -1 };
static const ls_norm_attrs NORM = { 1e-5 };
static const ls_adam_attrs ADAM = { 0.9, 0.999, 1e-8, 0.01, 1 };

/* s: 1, or what sizes are divided by for the emulator */
static int cases(bench_case *out, int64_t s)
{
    const int64_t product = 4096 / s, rows = 8192 / s, batch = s > 1 ? 1 : 8, length = 1024 / s,
                  numbers = (int64_t)(64 << 20) / s / s;
    const ls_type none = NONE, step = LS_SCALAR(LS_I64), rate = LS_SCALAR(LS_F64),
                  q = T(BF16, batch, length, 896), k = T(BF16, batch, length, 128),
                  lse = T(F32, batch, 14, length);
    const bench_case list[] = {
        { "product bf16",
          "linear",
          "own",
          &PLAIN,
          2,
          { T(BF16, product, product), T(BF16, product, product) } },
        { "product f32", "linear", "own", &PLAIN, 2, { T(F32, product, product), T(F32, product, product) } },
        { "product tf32",
          "linear",
          "tf32",
          &PLAIN,
          2,
          { T(F32, product, product), T(F32, product, product) } },
        { "mlp bf16", "linear", "own", &PLAIN, 2, { T(BF16, rows, 896), T(BF16, 4864 / s, 896) } },
        { "attention bf16", "attention", "own", &CAUSAL, 3, { q, k, k } },
        { "attention gradient bf16", "attention_grad", "own", &CAUSAL, 7, { q, q, k, k, none, q, lse } },
        { "layer norm f32", "layer_norm", "own", &NORM, 3, { T(F32, rows, 768), T(F32, 768), T(F32, 768) } },
        { "rms norm bf16", "rms_norm", "own", &NORM, 2, { T(BF16, rows, 896), T(BF16, 896) } },
        { "softmax f32", "softmax", "own", NULL, 1, { T(F32, rows, 1024) } },
        { "adam f32",
          "adam",
          "own",
          &ADAM,
          6,
          { T(F32, numbers), T(F32, numbers), T(F32, numbers), T(F32, numbers), step, rate } },
    };
    memcpy(out, list, sizeof list);
    return (int)(sizeof list / sizeof *list);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

typedef struct timer {
    ls_queue *q;
    ls_event *from, *to;
    const ls_queue_ops *ops;
    void *before; /* memory that is filled before each round */
    size_t before_bytes;
    int rounds;
} timer;

static void print(const char *name, double seconds, double bytes, double flops)
{
    printf("{\"name\": \"%s\", \"ms\": %.4f, \"gb_per_s\": %.1f, \"tflops\": %.2f}\n", name, 1e3 * seconds,
           1e-9 * bytes / seconds, 1e-12 * flops / seconds);
    fflush(stdout);
}

/* The median of the rounds, of a kernel or, with k NULL, of a copy. */
static ls_status measure(double *seconds, const timer *t, const ls_kernel *k, const ls_kernel_args *a,
                         size_t bytes)
{
    double all[MOST_ROUNDS];
    for (int r = -2; r < t->rounds; r++) {
        t->ops->fill(t->q, t->before, r & 1, t->before_bytes);
        t->ops->record(t->q, t->from);
        if (k)
            t->ops->run(t->q, k, a);
        else
            t->ops->copy(t->q, a->out[0].data, a->in[0].data, bytes);
        t->ops->record(t->q, t->to);
        LS_TRY(t->ops->wait(t->q, NULL));
        if (r >= 0)
            all[r] = t->ops->elapsed(t->from, t->to);
    }
    qsort(all, (size_t)t->rounds, sizeof *all, ascending);
    *seconds = all[t->rounds / 2];
    return LS_OK;
}

/* Memory for a tensor, full of 0.0115, which is that in f32, bf16 and f16 (1.06). */
static ls_status place(ls_tensor *out, const timer *t, const ls_device *d, const ls_type *type)
{
    *out = ls_tensor_of(NULL, type);
    if (type->ndim < 0)
        return LS_OK;
    LS_TRY(t->ops->room(&out->data, d, (size_t)ls_type_bytes(type)));
    t->ops->fill(t->q, out->data, 0x3c, (size_t)ls_type_bytes(type));
    return LS_OK;
}

static ls_status run_case(const bench_case *c, const timer *t, ls_device *d)
{
    const ls_op *op = ls_op_find(c->op);
    ls_infer i = { .op = op, .n_in = c->n_in, .in = c->in, .attrs = c->attrs, .n_out = op->n_out };
    ls_tensor in[LS_KERNEL_INPUTS], out[LS_MAX_OUT];
    void *workspace = NULL;
    size_t bytes = 0;
    double seconds;
    LS_TRY(op->infer(&i));
    for (int j = 0; j < LS_KERNEL_INPUTS; j++)
        LS_TRY(place(&in[j], t, d, j < c->n_in ? &c->in[j] : &(ls_type)NONE));
    for (int j = 0; j < i.n_out; j++) {
        LS_TRY(op->alias[j] ? LS_OK : place(&out[j], t, d, &i.out[j]));
        if (op->alias[j])
            out[j] = in[op->alias[j] - 1];
    }
    ls_kernel_args a = { .n_in = c->n_in,
                         .n_out = i.n_out,
                         .in = in,
                         .out = out,
                         .attrs = c->attrs,
                         .threads = d->threads,
                         .arch = d->arch,
                         .queue = t->q };
    const char *why;
    const ls_kernel *k = ls_device_find(d, c->op, &a, &why);
    if (!k)
        return ls_fail(LS_E_UNSUPPORTED, "%s", why);
    if (k->workspace && (bytes = k->workspace(&a)))
        LS_TRY(t->ops->room(&workspace, d, bytes));
    a.workspace = workspace;
    LS_TRY(measure(&seconds, t, k, &a, 0));
    const ls_cost cost = op->cost ? op->cost(&i) : (ls_cost){ 0 };
    double moved = 0;
    for (int j = 0; j < c->n_in; j++)
        moved += in[j].type.ndim < 0 ? 0 : (double)ls_type_bytes(&in[j].type);
    for (int j = 0; j < i.n_out; j++)
        moved += (double)ls_type_bytes(&out[j].type);
    print(c->name, seconds, moved, cost.flops);
    for (int j = 0; j < c->n_in; j++)
        if (in[j].type.ndim >= 0)
            t->ops->release(in[j].data, (size_t)ls_type_bytes(&in[j].type));
    for (int j = 0; j < i.n_out; j++)
        if (!op->alias[j])
            t->ops->release(out[j].data, (size_t)ls_type_bytes(&out[j].type));
    if (workspace)
        t->ops->release(workspace, bytes);
    return LS_OK;
}

static ls_status copy_ceiling(const timer *t, const ls_device *d, int64_t bytes)
{
    const ls_type type = T(F32, bytes / 4);
    ls_tensor in, out;
    double seconds;
    LS_TRY(place(&in, t, d, &type));
    LS_TRY(place(&out, t, d, &type));
    LS_TRY(measure(&seconds, t, NULL, &(ls_kernel_args){ .in = &in, .out = &out }, (size_t)bytes));
    print("copy", seconds, 2.0 * (double)bytes, 0);
    t->ops->release(in.data, (size_t)bytes);
    t->ops->release(out.data, (size_t)bytes);
    return LS_OK;
}

/* A case, or the copy of so many bytes, with a queue of its own. */
static ls_status run_alone(const bench_case *c, timer *t, const char *device, int64_t bytes)
{
    ls_device d;
    LS_TRY(ls_device_open(&d, device,
                          &(ls_device_opts){ LS_DEVICE_DEFAULTS, .kernels = c ? c->kernels : "own" }));
    t->ops = d.ops->queue;
    LS_TRY(t->ops->open(&t->q, &d));
    LS_TRY(t->ops->event(&t->from, &d));
    LS_TRY(t->ops->event(&t->to, &d));
    LS_TRY(t->ops->room(&t->before, &d, t->before_bytes = (size_t)bytes / 2));
    const ls_status s = c ? run_case(c, t, &d) : copy_ceiling(t, &d, bytes);
    t->ops->release(t->before, t->before_bytes);
    t->ops->close(&t->q);
    t->ops->forget(&t->from);
    t->ops->forget(&t->to);
    return s;
}

int main(int argc, char **argv)
{
    const char *device = "cuda";
    int64_t s = 1;
    timer t = { .rounds = 20 };
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--small"))
            s = 64, t.rounds = 1;
        else if (!strcmp(argv[i], "--device") && i + 1 < argc)
            device = argv[++i];
        else if (!strcmp(argv[i], "--rounds") && i + 1 < argc && atoi(argv[i + 1]) <= MOST_ROUNDS)
            t.rounds = atoi(argv[++i]);
    static bench_case list[32];
    const int n = cases(list, s);
    int bad = 0;
    for (int i = -1; i < n; i++)
        if (run_alone(i < 0 ? NULL : &list[i], &t, device, (1 << 30) / s / s) != LS_OK) {
            fprintf(stderr, "%s: %s\n", i < 0 ? "copy" : list[i].name, ls_error_message());
            bad = 1;
        }
    return bad;
}
