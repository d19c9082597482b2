/* gemm.c - how fast linear, linear_dx and linear_dw are, beside what the machine can do in the same moment.
 *
 *   bench_gemm [isa|best] [threads] [f32|bf16|f16] [part of a shape's name]
 *
 * Clocks drift and machines are shared, so each shape is timed in turns with a burst of fused multiply-adds
 * of the same vector width (generic: 128-bit multiplies and adds) on as many threads; of both the best time
 * counts. Columns: GFLOP/s, percent of the burst. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "device/cpu/isa.h"
#include "memory.h"
#include "device/cpu/peak_rate.h"

typedef struct shape {
    const char *name, *op;
    int64_t m, n, k;
    ls_act act;
} shape;
static const shape shapes[] = {
    { "vit qkv", "linear", 1088, 384, 128, 0 },
    { "vit proj", "linear", 1088, 128, 128, 0 },
    { "vit mlp gelu", "linear", 1088, 128, 128, LS_ACT_GELU },
    { "vit patch", "linear", 1024, 128, 49, 0 },
    { "vit last block", "linear", 64, 128, 128, 0 },
    { "vit head", "linear", 64, 10, 128, 0 },
    { "vit qkv", "linear_dx", 1088, 384, 128, 0 },
    { "vit proj", "linear_dx", 1088, 128, 128, 0 },
    { "vit mlp gelu", "linear_dx", 1088, 128, 128, LS_ACT_GELU },
    { "vit qkv", "linear_dw", 1088, 384, 128, 0 },
    { "vit proj", "linear_dw", 1088, 128, 128, 0 },
    { "vit patch", "linear_dw", 1024, 128, 49, 0 },
    { "vit head", "linear_dw", 64, 10, 128, 0 },
    { "qwen proj", "linear", 512, 896, 896, 0 },
    { "qwen up", "linear", 512, 4864, 896, 0 },
    { "qwen down", "linear", 512, 896, 4864, 0 },
    { "qwen up", "linear_dx", 512, 4864, 896, 0 },
    { "qwen down", "linear_dx", 512, 896, 4864, 0 },
    { "qwen up", "linear_dw", 512, 4864, 896, 0 },
    { "qwen down", "linear_dw", 512, 896, 4864, 0 },
    { "qwen one token", "linear", 1, 4864, 896, 0 },
    { "resnet 3x3", "linear", 3136, 64, 576, 0 },
    { "resnet 3x3 wide", "linear", 784, 512, 4608, 0 },
    { "square", "linear", 2048, 2048, 2048, 0 },
    { "square", "linear_dw", 2048, 2048, 2048, 0 },
};

typedef struct call {
    ls_kernel_args a;
    const ls_kernel *kernel;
    ls_tensor in[4], out[2];
} call;

static ls_tensor filled(ls_dtype t, int64_t rows, int64_t cols)
{
    const ls_type type = rows ? LS_TYPE(t, rows, cols) : LS_TYPE(t, cols);
    ls_tensor x = ls_tensor_of(bench_memory(ls_type_bytes(&type)), &type);
    for (int64_t i = 0; i < ls_type_count(&type); i++) {
        if (t == LS_F32)
            ((float *)x.data)[i] = (float)(i % 13) / 8.0f;
        else
            ((uint16_t *)x.data)[i] = (uint16_t)(t == LS_BF16 ? 0x3f80 + i % 7 : 0x3c00 + i % 7);
    }
    return x;
}

static void prepare(call *c, const shape *s, const ls_device *d, ls_dtype t, const void *attrs)
{
    const ls_kernel_args shapes_only = {
        .in = c->in, .out = c->out, .attrs = attrs, .threads = d->threads, .arch = d->arch
    };
    c->a = shapes_only;
    const bool forward = strcmp(s->op, "linear") == 0, dx = strcmp(s->op, "linear_dx") == 0;
    for (int i = 0; i < 4; i++)
        c->in[i].type.ndim = -1;
    c->in[0] = filled(t, s->m, forward ? s->k : s->n);
    c->in[1] = forward || dx ? filled(t, s->n, s->k) : filled(t, s->m, s->k);
    if (forward)
        c->in[2] = filled(t, 0, s->n);
    if (dx && s->act)
        c->in[2] = filled(t, s->m, s->k);
    c->out[0] = forward ? filled(t, s->m, s->n) : dx ? filled(t, s->m, s->k) : filled(t, s->n, s->k);
    c->out[1] = forward ? filled(t, s->m, s->n) : filled(t, 0, s->n);
    c->a.n_in = forward || dx ? 4 : 2;
    c->a.n_out = forward ? (s->act ? 2 : 1) : dx ? 1 : 2;
    const char *why = NULL;
    c->kernel = ls_device_find(d, s->op, &c->a, &why);
    if (!c->kernel)
        return;
    const size_t bytes = c->kernel->workspace ? c->kernel->workspace(&c->a) : 0;
    c->a.workspace = bench_memory(bytes);
    memset(c->a.workspace, 0, bytes);
    c->kernel->run(&c->a);
}

static double seconds(const call *c, int times)
{
    const double t = ls_now();
    for (int i = 0; i < times; i++)
        c->kernel->run(&c->a);
    return (ls_now() - t) / times;
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "best", *filter = argc > 4 ? argv[4] : "";
    ls_isa isa = ls_isa_best();
    ls_dtype t = LS_F32;
    if (argc > 5 || (strcmp(word, "best") && !ls_isa_parse(word, &isa)) ||
        (argc > 3 && !ls_dtype_parse(argv[3], &t))) {
        fprintf(stderr, "usage: bench_gemm [level|best] [threads] [f32|bf16|f16] [part of a name]\n");
        return 2;
    }
    ls_device own;
    if (ls_device_open(&own, "cpu",
                       &(ls_device_opts){ .isa = ls_isa_name(isa),
                                          .threads = argc > 2 ? atoi(argv[2]) : 1,
                                          .kernels = "own" })) {
        fprintf(stderr, "%s\n", ls_error_message());
        return 1;
    }
    printf("%s, %d thread%s, %s\n%-16s %-10s %5s %5s %5s %9s %8s %7s\n", ls_isa_name(isa), own.threads,
           own.threads > 1 ? "s" : "", ls_dtype_name(t), "shape", "op", "m", "n", "k", "us", "GFLOP/s",
           "% FMA");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const shape *s = &shapes[i];
        if (!strstr(s->name, filter) && strcmp(s->op, filter))
            continue;
        const ls_linear_attrs act = { s->act };
        const ls_linear_dw_attrs dw = { 1 };
        const void *attrs = strcmp(s->op, "linear_dw") == 0 ? (const void *)&dw : &act;
        call a = { 0 };
        prepare(&a, s, &own, t, attrs);
        const double flop = 2.0 * (double)s->m * (double)s->n * (double)s->k;
        /* slices short enough to fall between what else the machine does */
        const int times = flop > 2e7 ? 1 : (int)(2e7 / flop);
        const double end = ls_now() + 0.4;
        double best = 1e9, burst = 0;
        for (int round = 0; round < 15 || ls_now() < end; round++) {
            const double rate = 1e-9 * ls_cpu_peak_rate(ls_isa_arch(isa), LS_F32, own.threads, 1),
                         mine = seconds(&a, times);
            burst = rate > burst ? rate : burst;
            best = mine < best ? mine : best;
        }
        printf("%-16s %-10s %5d %5d %5d %9.1f %8.1f %7.1f\n", s->name, s->op, (int)s->m, (int)s->n, (int)s->k,
               best * 1e6, flop / best / 1e9, flop / best / 1e7 / burst);
        bench_free_all();
    }
    return 0;
}
