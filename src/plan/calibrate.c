/* calibrate.c - measures the general speeds of this machine: how much it computes and moves per second with
 * the device's own kernels. It takes about half a second. On a GPU the measured calls are so large that each
 * takes about a millisecond, by the figures of its data sheet. */
#include <stdlib.h>

#include "base/affinity.h"
#include "base/clock.h"
#include "base/sys.h"
#include "base/thread_pool.h"
#include "internal.h"
#include "stopwatch.h"

typedef struct bench {
    const ls_kernel *kernel;
    ls_kernel_args args;
    ls_tensor in[4], out[2];
    ls_stopwatch watch;
    void *room;
    size_t bytes;
    void *to, *from; /* a copy of `bytes` bytes, where there is no kernel */
} bench;

/* Seconds of one call or copy: the fastest of all that fit into `budget` seconds; at least two are
 * measured. */
static ls_status fastest(double *best, bench *b, double budget)
{
    ls_stopwatch *w = &b->watch;
    *best = 1e30;
    const double start = ls_now();
    for (int n = 0; n < 2 || ls_now() - start < budget; n += w->ahead) {
        for (w->n = 0; w->n < w->ahead;) {
            LS_TRY(ls_stopwatch_begin(w, 0));
            if (b->kernel)
                w->ops->run(w->queue, b->kernel, &b->args);
            else
                w->ops->copy(w->queue, b->to, b->from, b->bytes);
            ls_stopwatch_end(w);
        }
        LS_TRY(w->ops->wait(w->queue, NULL));
        for (int i = 0; i < w->n; i++)
            *best = ls_stopwatch_seconds(w, i) < *best ? ls_stopwatch_seconds(w, i) : *best;
    }
    return LS_OK;
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

/* One room for all operands. It is filled with small numbers, because subnormal numbers or NaN would be
 * slower. */
static ls_status bench_room(bench *b)
{
    enum { PERIOD = 61, BLOCK = 2048 * PERIOD };
    ls_stopwatch *w = &b->watch;
    size_t bytes = b->kernel->workspace ? ls_align_up(b->kernel->workspace(&b->args)) : 0;
    const size_t workspace = bytes;
    for (int i = 0; i < b->args.n_in + 1; i++)
        bytes += ls_align_up(ls_type_bytes(i < b->args.n_in ? &b->in[i].type : &b->out[0].type));
    LS_TRY(w->ops->room(&b->room, w->device, bytes));
    b->bytes = bytes;
    float *block = ls_sys_malloc(BLOCK * sizeof *block);
    LS_TRY(ls_sys_have(block));
    for (int i = 0; i < BLOCK; i++)
        block[i] = (float)(i % PERIOD) / PERIOD - 0.5f;
    ls_stopwatch_fill(w, b->room, bytes, block, BLOCK * sizeof *block);
    const ls_status s = w->ops->wait(w->queue, NULL);
    free(block);
    char *at = (char *)b->room + workspace;
    b->args.workspace = workspace ? b->room : NULL;
    for (int i = 0; i < b->args.n_in + 1; i++) {
        ls_tensor *t = i < b->args.n_in ? &b->in[i] : &b->out[0];
        t->data = at;
        at += ls_align_up(ls_type_bytes(&t->type));
    }
    return s;
}

/* Seconds of one call of b's kernel. */
static ls_status bench_seconds(double *seconds, bench *b, const ls_device *d, double budget)
{
    LS_TRY(ls_stopwatch_open(&b->watch, d));
    const ls_queue_ops *q = b->watch.ops;
    b->args.queue = b->watch.queue;
    ls_status s = bench_room(b);
    if (s == LS_OK)
        s = fastest(seconds, b, budget);
    ls_stopwatch_close(&b->watch);
    if (b->room)
        q->release(b->room, b->bytes);
    return s == LS_OK ? s : ls_fail(s, "calibration: %s", ls_error_message());
}

/* FLOP/s of x [m, k] · w [n, k]ᵀ. */
static ls_status product_rate(double *rate, const ls_device *d, ls_dtype type, int64_t m, int64_t n,
                              int64_t k)
{
    const ls_linear_attrs attrs = { .act = LS_ACT_NONE };
    bench b;
    double seconds = 0;
    LS_TRY(bench_make(&b, d, "linear", &attrs, 2, (ls_type[]){ LS_TYPE(type, m, k), LS_TYPE(type, n, k) },
                      &LS_TYPE(type, m, n)));
    LS_TRY(bench_seconds(&seconds, &b, d, 0.03));
    *rate = 2.0 * (double)(m * n * k) / seconds;
    return LS_OK;
}

/* Seconds of adding two vectors. */
static ls_status add_seconds(double *seconds, const ls_device *d, int64_t n)
{
    bench b;
    LS_TRY(bench_make(&b, d, "add", NULL, 2, (ls_type[]){ LS_TYPE(LS_F32, n), LS_TYPE(LS_F32, n) },
                      &LS_TYPE(LS_F32, n)));
    /* large sizes are measured for longer, because other programs of the machine disturb memory most */
    return bench_seconds(seconds, &b, d, n > 1 << 20 ? 0.1 : 0.03);
}

int ls_calibration_cores(void)
{
    ls_cpu_set all;
    return ls_cpu_set_read(&all) ? ls_cpu_set_cores(&all, LS_SYS) : 1;
}

ls_status ls_calibration_check(const ls_device *d, int cores)
{
    const double least = 1.2; /* of two idle cores it is 1.8 to 2 */
    if (cores < 2 || !d->ops->peak)
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

/* Bytes/s of copies from pinned host memory to the device, and back. */
static ls_status copy_rates(ls_calibration *c, const ls_device *d)
{
    const size_t bytes = 16 << 20;
    const ls_queue_ops *q = d->ops->queue;
    double seconds;
    bench b = { .bytes = bytes };
    void *pinned;
    LS_TRY(q->pinned(&pinned, d, bytes));
    ls_status s = q->room(&b.room, d, bytes);
    if (s == LS_OK) {
        s = ls_stopwatch_open(&b.watch, d);
        for (int back = 0; back < 2 && s == LS_OK; back++) {
            b.to = back ? pinned : b.room;
            b.from = back ? b.room : pinned;
            s = fastest(&seconds, &b, 0.03);
            *(back ? &c->to_host : &c->to_device) = (double)bytes / seconds;
        }
        ls_stopwatch_close(&b.watch);
        q->release(b.room, bytes);
    }
    q->unpin(pinned, bytes);
    return s == LS_OK ? s : ls_fail(s, "calibration: %s", ls_error_message());
}

static ls_status measure_memory(ls_calibration *c, const ls_device *d, int64_t large)
{
    const int64_t small = large < 1 << 16 ? large : 1 << 16; /* 3 x 256 KiB */
    double cache = 0, memory = 0;
    LS_TRY(add_seconds(&cache, d, small));
    LS_TRY(add_seconds(&memory, d, large));
    c->bytes_cache = 12.0 * (double)small / cache;
    c->bytes_memory = 12.0 * (double)large / memory;
    return add_seconds(&c->op_overhead, d, 16);
}

/* The edge of a cube, a power of two, whose product takes about a millisecond. */
static int64_t edge_of(double flops)
{
    int64_t n = 64;
    while (n < 8192 && 2.0 * (double)(n * n * n) < 1e-3 * flops)
        n *= 2;
    return n;
}

/* Measures a device with a data sheet. Ranks side by side have a device each, so they share nothing of it. */
static ls_status measure_sheet(ls_calibration *c, const ls_device *d)
{
    ls_rates r;
    double wide = 0, narrow = 0;
    d->ops->rates(&r, d);
    const int64_t n = edge_of(r.flops), m = edge_of(r.narrow_flops), least = 1 << 12,
                  large = (int64_t)(1e-3 * r.memory / 12);
    LS_TRY(product_rate(&wide, d, LS_F32, n, n, n));
    LS_TRY(product_rate(&narrow, d, LS_BF16, m, m, m));
    c->flops = r.flops;
    c->narrow_flops = r.narrow_flops;
    c->gemm_efficiency = wide / c->flops;
    c->narrow_efficiency = narrow / c->narrow_flops;
    c->cores = d->threads;
    LS_TRY(measure_memory(c, d, large > least ? large : least));
    return copy_rates(c, d);
}

/* Measures one device, without `host`. */
static ls_status measure(ls_calibration *c, const ls_device *d)
{
    ls_calibration_of(c, d);
    if (d->ops->rates)
        return measure_sheet(c, d);
    c->flops = d->ops->peak(d->arch, LS_F32, d->threads, 5);
    const int64_t large = 8 << 20; /* 3 x 32 MiB */
    double tall = 0, cube = 0, memory = 0;
    /* so large that activations are not in L2, as in a step */
    LS_TRY(product_rate(&tall, d, LS_F32, 16384, 128, 128));
    LS_TRY(product_rate(&cube, d, LS_F32, 512, 512, 512));
    c->gemm_efficiency = (tall + cube) / 2 / c->flops;
    LS_TRY(measure_memory(c, d, large));
    ls_device whole = *d;
    whole.threads = c->cores = ls_cpu_count() > d->threads ? ls_cpu_count() : d->threads;
    c->all_flops = c->cores > c->threads ? d->ops->peak(d->arch, LS_F32, c->cores, 5) : c->flops;
    LS_TRY(add_seconds(&memory, &whole, large));
    c->all_memory = 12.0 * (double)large / memory;
    return ls_device_apart(d) ? copy_rates(c, d) : LS_OK;
}

ls_status ls_calibration_measure(ls_calibration *out, const ls_device *d)
{
    if (!ls_device_measured(d))
        return ls_fail(LS_E_UNSUPPORTED, "calibration is for devices cpu and cuda, not %s", d->ops->name);
    if (!d->here)
        return ls_fail(LS_E_UNSUPPORTED, "calibration: this machine has no %s", d->arch->name);
    ls_calibration c;
    ls_device host;
    LS_TRY(measure(&c, d));
    if (ls_device_apart(d)) {
        LS_TRY(ls_calibration_host(&host, d));
        LS_TRY(ls_sys_have(c.host = ls_sys_calloc(1, sizeof *c.host)));
        /* (with the times of kernels that the host has already) */
        ls_status s = ls_calibration_load(c.host, &host);
        if (s != LS_OK)
            s = measure(c.host, &host);
        if (s != LS_OK) {
            ls_calibration_release(&c);
            return s;
        }
    }
    *out = c;
    return LS_OK;
}
