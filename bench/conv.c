/* conv.c - how fast the convolutions of a ResNet are, beside what the machine can do in the same moment.
 *
 *   bench_conv [isa|best] [threads] [batch] [28|224] [18|50]
 *
 * Each op is timed in turns with a burst of fused multiply-adds on as many threads; of each the best time
 * counts. GFLOP/s are nominal: they count products with padding, which the kernels leave out, and all of a 3
 * x 3 kernel's, of which they make fewer: some are above the burst. Last row: all layers of a step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "device/conv.h"
#include "device/cpu/isa.h"
#include "memory.h"
#include "device/cpu/peak_rate.h"

typedef struct layer {
    int64_t in, out, size, kernel, stride;
    int times;
} layer;

/* Seconds of one op: y, dx or dw. */
static double best_of(const ls_device *d, const layer *l, int64_t batch, int which, double *burst)
{
    static const char *const names[] = { "conv2d", "conv2d_dx", "conv2d_dw" };
    const int64_t size = (l->size + 2 * (l->kernel / 2) - l->kernel) / l->stride + 1;
    const ls_type x = LS_TYPE(LS_F32, batch, l->in, l->size, l->size),
                  w = LS_TYPE(LS_F32, l->out, l->in, l->kernel, l->kernel);
    const ls_type y = LS_TYPE(LS_F32, batch, l->out, size, size);
    const ls_type types[3][3] = { { x, w, y }, { y, w, x }, { y, x, w } };
    ls_conv_attrs attrs = { .stride_h = l->stride,
                            .stride_w = l->stride,
                            .pad_h = l->kernel / 2,
                            .pad_w = l->kernel / 2,
                            .dilation_h = 1,
                            .dilation_w = 1,
                            .groups = 1 };
    attrs.height = attrs.width = which == 1 ? l->size : l->kernel;
    ls_tensor t[3], in[3];
    for (int k = 0; k < 3; k++) {
        const size_t bytes = ls_type_bytes(&types[which][k]);
        t[k] = ls_tensor_of(bench_memory(bytes), &types[which][k]);
        for (size_t i = 0; i < bytes / 4; i++)
            ((float *)t[k].data)[i] = (float)(i % 13) / 8.0f - 0.7f;
    }
    memcpy(in, t, sizeof in);
    in[2] = (ls_tensor){ .type.ndim = -1 };
    ls_kernel_args a = {
        .n_in = 2, .n_out = 1, .in = in, .out = &t[2], .attrs = &attrs, .threads = d->threads, .arch = d->arch
    };
    const ls_kernel *kernel = ls_device_find(d, names[which], &a, NULL);
    a.workspace = bench_memory(kernel->workspace(&a));
    kernel->run(&a);
    double best = 1e9;
    const double end = ls_now() + 0.3;
    for (int round = 0; round < 8 || ls_now() < end; round++) {
        const double rate = ls_cpu_peak_rate(d->arch, LS_F32, d->threads, 1), begin = ls_now();
        kernel->run(&a);
        const double seconds = ls_now() - begin;
        best = seconds < best ? seconds : best;
        *burst = rate > *burst ? rate : *burst;
    }
    bench_free_all();
    return best;
}

enum { MOST = 64 };

/* The layers of a ResNet18, or of a ResNet50, whose blocks have a product before and behind a convolution. */
static int layers_of(layer *l, int depth, int64_t picture)
{
    static const int deep[] = { 3, 4, 6, 3 };
    int64_t size = (picture + 1) / 2, in = 64;
    int n = 0;
    l[n++] = (layer){ picture == 28 ? 1 : 3, 64, picture, 7, 2, 1 };
    size = (size + 1) / 2;
    for (int stage = 0; stage < 4; stage++) {
        const int64_t width = 64 << stage, stride = stage ? 2 : 1, small = (size + stride - 1) / stride,
                      out = depth == 50 ? 4 * width : width;
        const int blocks = depth == 50 ? deep[stage] : 2;
        if (depth == 50) {
            l[n++] = (layer){ in, width, size, 1, 1, 1 };
            l[n++] = (layer){ width, width, size, 3, stride, 1 };
            l[n++] = (layer){ out, width, small, 1, 1, blocks - 1 };
            l[n++] = (layer){ width, width, small, 3, 1, blocks - 1 };
            l[n++] = (layer){ width, out, small, 1, 1, blocks };
        } else {
            l[n++] = (layer){ in, width, size, 3, stride, 1 };
            l[n++] = (layer){ width, width, small, 3, 1, 2 * blocks - 1 };
        }
        if (in != out)
            l[n++] = (layer){ in, out, size, 1, stride, 1 };
        in = out;
        size = small;
    }
    return n;
}

int main(int argc, char **argv)
{
    ls_isa isa = ls_isa_best();
    const char *word = argc > 1 ? argv[1] : "best";
    const int64_t batch = argc > 3 ? atoi(argv[3]) : 64, picture = argc > 4 ? atoi(argv[4]) : 28;
    const int depth = argc > 5 ? atoi(argv[5]) : 18;
    ls_device d;
    if (argc > 6 || (strcmp(word, "best") && !ls_isa_parse(word, &isa)) || batch < 1 || picture < 1 ||
        (depth != 18 && depth != 50)) {
        fprintf(stderr, "usage: bench_conv [level|best] [threads] [batch] [size] [18|50]\n");
        return 2;
    }
    const ls_device_opts opts = { .isa = ls_isa_name(isa),
                                  .threads = argc > 2 ? atoi(argv[2]) : 1,
                                  .kernels = "own" };
    if (ls_device_open(&d, "cpu", &opts)) {
        fprintf(stderr, "%s\n", ls_error_message());
        return 1;
    }
    layer layers[MOST];
    const int n = layers_of(layers, depth, picture);
    double total_flop = 0, total_seconds = 0, burst = 0;
    printf("%s, %d thread%s, batch %d, pictures of %d; us and GFLOP/s of y, dx, dw\n", ls_isa_name(isa),
           d.threads, d.threads > 1 ? "s" : "", (int)batch, (int)picture);
    for (int i = 0; i < n; i++) {
        const layer *l = &layers[i];
        const int64_t out = (l->size - 1) / l->stride + 1;
        const double flop = 2.0 * (double)(batch * out * out * l->out * l->in * l->kernel * l->kernel);
        printf("%dx%d s%d %4d ->%4d @%3d x%d ", (int)l->kernel, (int)l->kernel, (int)l->stride, (int)l->in,
               (int)l->out, (int)l->size, l->times);
        for (int which = 0; which < 3; which++) {
            if (i == 0 && which == 1) {
                printf("%18s", "-");
                continue;
            }
            const double seconds = best_of(&d, l, batch, which, &burst);
            printf("%9.0f %8.1f", seconds * 1e6, flop / seconds * 1e-9);
            total_flop += l->times * flop;
            total_seconds += l->times * seconds;
        }
        printf("\n");
    }
    const double rate = total_flop / total_seconds;
    printf("all: %.1f GFLOP in %.1f ms, %.1f GFLOP/s; burst %.1f; %.0f %%\n", total_flop * 1e-9,
           total_seconds * 1e3, rate * 1e-9, burst * 1e-9, 100 * rate / burst);
    return 0;
}
