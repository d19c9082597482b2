/* update.c - passes over the parameters, as bytes moved in a second, beside what the machine's memory gives.
 *
 *   bench_update [--millions 100] [--threads 1] [--rounds 9]
 *
 * `triad` is a[i] = b[i] + c * d[i] over three arrays of f32. `scale` changes one array in place. Both are
 * what memory gives to a pass of that kind. Then come the kernels: the cast of parameters to bf16, Adam on
 * gradients of f32 and of bf16, Lion, and the moving average of the parameters. Prints one JSON line each:
 * `ms` (median), `gb` (bytes that the pass must move) and `gb_per_s`. The passes take turns in every round,
 * so a slow minute of the machine slows all of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/sys.h"
#include "base/thread_pool.h"
#include "device/device.h"
#include "graph/update_attrs.h"
#include "memory.h"

enum { PASSES = 8, MOST = 100, BLOCK = 1 << 16 };
static const char *const NAMES[PASSES] = { "triad",     "scale",        "cast", "adam",
                                           "adam_bf16", "adam_weights", "lion", "ema" };
static const double BYTES[PASSES] = { 12, 8, 6, 28, 26, 28, 20, 12 }; /* of an element */

static int64_t n = 100000000;
static int threads = 1;
static float *p, *m, *v, *g;
static uint16_t *w;
static int64_t step = 10;
static double lr = 1e-4;

static void triad(void *context, int64_t begin, int64_t end, int worker)
{
    (void)context, (void)worker;
    for (int64_t i = begin * BLOCK; i < end * BLOCK && i < n; i++)
        g[i] = p[i] + 1e-9f * m[i];
}
static void scale(void *context, int64_t begin, int64_t end, int worker)
{
    (void)context, (void)worker;
    for (int64_t i = begin * BLOCK; i < end * BLOCK && i < n; i++)
        g[i] *= 0.999f;
}

static void run(const ls_device *d, const char *op, ls_kernel_args *a)
{
    const char *why;
    const ls_kernel *k = ls_device_find(d, op, a, &why);
    if (!k) {
        fprintf(stderr, "%s: %s\n", op, why);
        exit(1);
    }
    k->run(a);
}

static ls_tensor flat(void *data, ls_dtype t)
{
    const ls_type type = LS_TYPE(t, n);
    return ls_tensor_of(data, &type);
}

static void adam(const ls_device *d, void *gradient, ls_dtype t, bool weights)
{
    const ls_type i64 = LS_SCALAR(LS_I64), f64 = LS_SCALAR(LS_F64);
    const ls_adam_attrs at = { 0.9, 0.999, 1e-8, 0.01, 1 };
    const ls_tensor none = { .type = { .ndim = -1 } },
                    in[] = { flat(p, LS_F32),
                             flat(gradient, t),
                             flat(m, LS_F32),
                             flat(v, LS_F32),
                             ls_tensor_of(&step, &i64),
                             ls_tensor_of(&lr, &f64),
                             none,
                             none,
                             flat(w, LS_BF16) },
                    out[] = { in[0], in[2], in[3], in[8] };
    run(d, "adam",
        &(ls_kernel_args){ .n_in = weights ? 9 : 8,
                           .n_out = weights ? 4 : 3,
                           .in = in,
                           .out = out,
                           .attrs = &at,
                           .threads = threads,
                           .arch = d->arch });
}

static void lion(const ls_device *d)
{
    const ls_type f64 = LS_SCALAR(LS_F64);
    const ls_lion_attrs at = { 0.9, 0.99, 0.01 };
    const ls_tensor in[] = { flat(p, LS_F32), flat(g, LS_F32), flat(m, LS_F32), ls_tensor_of(&lr, &f64) },
                    out[] = { in[0], in[2] };
    run(d, "lion",
        &(ls_kernel_args){
            .n_in = 4, .n_out = 2, .in = in, .out = out, .attrs = &at, .threads = threads, .arch = d->arch });
}

static void ema(const ls_device *d)
{
    const ls_type i64 = LS_SCALAR(LS_I64);
    const ls_ema_attrs at = { 0.999 };
    const ls_tensor in[] = { flat(v, LS_F32), flat(p, LS_F32), ls_tensor_of(&step, &i64) };
    run(d, "ema",
        &(ls_kernel_args){
            .n_in = 3, .n_out = 1, .in = in, .out = in, .attrs = &at, .threads = threads, .arch = d->arch });
}

static void pass(const ls_device *d, int which)
{
    const int64_t blocks = (n + BLOCK - 1) / BLOCK;
    if (which == 0)
        ls_parallel_for(threads, blocks, triad, NULL);
    else if (which == 1)
        ls_parallel_for(threads, blocks, scale, NULL);
    else if (which == 2)
        run(d, "cast",
            &(ls_kernel_args){ .n_in = 1,
                               .n_out = 1,
                               .in = (ls_tensor[]){ flat(p, LS_F32) },
                               .out = (ls_tensor[]){ flat(w, LS_BF16) },
                               .attrs = &(ls_cast_attrs){ .to = LS_BF16 },
                               .threads = threads,
                               .arch = d->arch });
    else if (which == 6)
        lion(d);
    else if (which == 7)
        ema(d);
    else
        adam(d, which == 3 ? (void *)g : w, which == 3 ? LS_F32 : LS_BF16, which == 5);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    int rounds = 9;
    static double times[PASSES][MOST];
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--millions"))
            n = atol(argv[i + 1]) * 1000000;
        else if (!strcmp(argv[i], "--threads"))
            threads = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--rounds") && atoi(argv[i + 1]) <= MOST)
            rounds = atoi(argv[i + 1]);
    }
    ls_device d;
    if (ls_device_open(&d, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = threads }) != LS_OK)
        return 1;
    p = bench_memory((size_t)n * 4), m = bench_memory((size_t)n * 4), v = bench_memory((size_t)n * 4),
    g = bench_memory((size_t)n * 4);
    w = bench_memory((size_t)n * 2);
    for (int64_t i = 0; i < n; i++)
        p[i] = 0.01f, m[i] = 1e-3f, v[i] = 1e-4f, g[i] = 1e-3f;
    for (int r = -1; r < rounds; r++)
        for (int k = 0; k < PASSES; k++) {
            const double start = ls_now();
            pass(&d, k);
            if (r >= 0)
                times[k][r] = ls_now() - start;
        }
    for (int k = 0; k < PASSES; k++) {
        qsort(times[k], (size_t)rounds, sizeof **times, ascending);
        const double s = times[k][rounds / 2], gb = 1e-9 * BYTES[k] * (double)n;
        printf("{\"pass\": \"%s\", \"threads\": %d, \"ms\": %.1f, \"gb\": %.2f, \"gb_per_s\": %.1f}\n",
               NAMES[k], threads, 1e3 * s, gb, gb / s);
    }
    return 0;
}
