/* calibrate.c - the general speeds of this machine: how much it computes and moves per second, measured with
 * the device's own kernels in about half a second. */
#include <stdlib.h>

#include "base/affinity.h"
#include "base/clock.h"
#include "base/sys.h"
#include "base/thread_pool.h"
#include "internal.h"

typedef struct bench {
    const ls_kernel *kernel;
    ls_kernel_args args;
    ls_tensor in[4], out[2];
} bench;

/* Seconds of one call: the fastest of all calls that fit into `budget` seconds, at least two. */
static double fastest(bench *b, double budget)
{
    double best = 1e30;
    const double start = ls_now();
    for (int n = 0; n < 2 || ls_now() - start < budget; n++) {
        const double t = ls_now();
        b->kernel->run(&b->args);
        const double seconds = ls_now() - t;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static ls_status bench_make(bench *b, const ls_device *d, const char *op, const void *attrs, int n_in,
                            const ls_type *in, const ls_type *out)
{
    *b = (bench){ .args = { .n_in = n_in,
                            .n_out = 1,
                            .in = b->in,
                            .out = b->out,
                            .attrs = attrs,
                            .threads = d->threads,
                            .arch = d->arch } };
    for (int i = 0; i < 4; i++)
        b->in[i] = (ls_tensor){ .type = { .ndim = -1 } };
    b->out[1] = (ls_tensor){ .type = { .ndim = -1 } };
    for (int i = 0; i < n_in; i++)
        b->in[i] = ls_tensor_of(NULL, &in[i]);
    b->out[0] = ls_tensor_of(NULL, out);
    const char *why = NULL;
    b->kernel = ls_device_find(d, op, &b->args, &why);
    return b->kernel
               ? LS_OK
               : ls_fail(LS_E_UNSUPPORTED, "calibration: device %s cannot run %s: %s", d->ops->name, op, why);
}

/* One block of memory for all operands. It is filled with small numbers, because subnormal numbers or NaN
 * would be slower. */
static ls_status bench_memory(bench *b, void **memory)
{
    size_t bytes = b->kernel->workspace ? ls_align_up(b->kernel->workspace(&b->args)) : 0;
    const size_t workspace = bytes;
    for (int i = 0; i < b->args.n_in + 1; i++)
        bytes += ls_align_up(ls_type_bytes(i < b->args.n_in ? &b->in[i].type : &b->out[0].type));
    float *p = ls_sys_aligned_alloc(LS_ALIGN, bytes);
    if (!p)
        return ls_fail(LS_E_MEMORY, "calibration: out of memory (%zu bytes)", bytes);
    for (size_t i = 0; i < bytes / sizeof *p; i++)
        p[i] = (float)(i % 61) / 61 - 0.5f;
    *memory = p;
    char *at = (char *)p + workspace;
    b->args.workspace = workspace ? p : NULL;
    for (int i = 0; i < b->args.n_in + 1; i++) {
        ls_tensor *t = i < b->args.n_in ? &b->in[i] : &b->out[0];
        t->data = at;
        at += ls_align_up(ls_type_bytes(&t->type));
    }
    return LS_OK;
}

/* FLOP/s of x [m, k] · w [n, k]ᵀ. */
static ls_status product_rate(double *rate, const ls_device *d, int64_t m, int64_t n, int64_t k)
{
    const ls_linear_attrs attrs = { .act = LS_ACT_NONE };
    bench b;
    void *memory;
    LS_TRY(bench_make(&b, d, "linear", &attrs, 2, (ls_type[]){ LS_TYPE(LS_F32, m, k), LS_TYPE(LS_F32, n, k) },
                      &LS_TYPE(LS_F32, m, n)));
    LS_TRY(bench_memory(&b, &memory));
    *rate = 2.0 * (double)(m * n * k) / fastest(&b, 0.03);
    free(memory);
    return LS_OK;
}

/* Seconds of adding two vectors. */
static ls_status add_seconds(double *seconds, const ls_device *d, int64_t n)
{
    bench b;
    void *memory;
    LS_TRY(bench_make(&b, d, "add", NULL, 2, (ls_type[]){ LS_TYPE(LS_F32, n), LS_TYPE(LS_F32, n) },
                      &LS_TYPE(LS_F32, n)));
    LS_TRY(bench_memory(&b, &memory));
    *seconds = fastest(&b, n > 1 << 20 ? 0.1 : 0.03); /* memory is what neighbours disturb most */
    free(memory);
    return LS_OK;
}

int ls_calibration_cores(void)
{
    ls_cpu_set all;
    return ls_cpu_set_read(&all) ? ls_cpu_set_cores(&all, LS_SYS) : 1;
}

ls_status ls_calibration_check(const ls_device *d, int cores)
{
    const double least = 1.2; /* of two idle cores it is 1.8 to 2 */
    if (cores < 2)
        return LS_OK;
    const double one = d->ops->peak(d->arch, LS_F32, 1, 5), two = d->ops->peak(d->arch, LS_F32, 2, 5);
    return two > least * one
               ? LS_OK
               : ls_fail(LS_E_IO,
                         "two threads compute no faster than one (%.1f and %.1f GFLOP/s): other "
                         "programs use the cores, and what is measured now is too slow; measure "
                         "again when the machine is quiet",
                         two * 1e-9, one * 1e-9);
}

ls_status ls_calibration_measure(ls_calibration *out, const ls_device *d)
{
    if (!d->ops->peak)
        return ls_fail(LS_E_UNSUPPORTED, "calibration is for device cpu, not %s", d->ops->name);
    if (!d->here)
        return ls_fail(LS_E_UNSUPPORTED, "calibration: this machine has no %s", d->arch->name);
    ls_calibration c = { .arch = d->arch->name, .threads = d->threads };
    ls_calibration_cpu(c.cpu);
    c.flops = d->ops->peak(d->arch, LS_F32, d->threads, 5);
    double tall = 0, cube = 0, cache = 0, memory = 0;
    /* so large that activations are not in L2, as in a step */
    LS_TRY(product_rate(&tall, d, 16384, 128, 128));
    LS_TRY(product_rate(&cube, d, 512, 512, 512));
    c.gemm_efficiency = (tall + cube) / 2 / c.flops;
    const int64_t small = 1 << 16, large = 8 << 20; /* 3 x 256 KiB; 3 x 32 MiB */
    LS_TRY(add_seconds(&cache, d, small));
    LS_TRY(add_seconds(&memory, d, large));
    c.bytes_cache = 12.0 * (double)small / cache;
    c.bytes_memory = 12.0 * (double)large / memory;
    LS_TRY(add_seconds(&c.op_overhead, d, 16));
    ls_device whole = *d;
    whole.threads = c.cores = ls_cpu_count() > d->threads ? ls_cpu_count() : d->threads;
    c.all_flops = c.cores > c.threads ? d->ops->peak(d->arch, LS_F32, c.cores, 5) : c.flops;
    LS_TRY(add_seconds(&memory, &whole, large));
    c.all_memory = 12.0 * (double)large / memory;
    *out = c;
    return LS_OK;
}
