/* calibrate.c - how much this machine computes and moves per second. The device's own kernels are measured in
 * about half a second. The result is a JSON file in the user's cache: one for each processor, instruction set
 * and number of threads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/sys.h"
#include "burst.h"
#include "internal.h"

static void cpu_name(char out[64])
{
    snprintf(out, 64, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256], name[192];
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "model name : %191[^\n]", name) == 1) {
            snprintf(out, 64, "%.63s", name);
            break;
        }
    if (f)
        fclose(f);
}

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
                            .isa = d->isa } };
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
    *seconds = fastest(&b, 0.03);
    free(memory);
    return LS_OK;
}

ls_status ls_calibration_measure(ls_calibration *out, const ls_device *d)
{
    if (d->ops != &ls_device_cpu)
        return ls_fail(LS_E_UNSUPPORTED, "calibration is for device cpu, not %s", d->ops->name);
    if (d->isa > ls_isa_best())
        return ls_fail(LS_E_UNSUPPORTED, "calibration: this machine has no %s", ls_isa_name(d->isa));
    ls_calibration c = { .isa = d->isa, .threads = d->threads };
    cpu_name(c.cpu);
    c.flops = ls_burst(d->isa, d->threads, 5);
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
    *out = c;
    return LS_OK;
}

/* The file calibration-<hash of the processor's name>-<isa>-<threads>.json of the cache folder; malloc'ed. */
static char *path_of(const ls_calibration *c)
{
    char name[96], *dir = ls_cache_dir();
    snprintf(name, sizeof name, "calibration-%08x-%s-%d.json", (unsigned)ls_hash_text(c->cpu),
             ls_isa_name(c->isa), c->threads);
    char *path = ls_path_join(dir, name);
    free(dir);
    return path;
}

ls_status ls_calibration_save(const ls_calibration *c)
{
    char *dir = ls_cache_dir(), *path = path_of(c);
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_text(&j, "cpu", c->cpu);
    ls_json_text(&j, "isa", ls_isa_name(c->isa));
    ls_json_int(&j, "threads", c->threads);
    ls_json_f64(&j, "flops", c->flops);
    ls_json_f64(&j, "gemm_efficiency", c->gemm_efficiency);
    ls_json_f64(&j, "bytes_cache", c->bytes_cache);
    ls_json_f64(&j, "bytes_memory", c->bytes_memory);
    ls_json_f64(&j, "op_overhead", c->op_overhead);
    ls_json_close_object(&j);
    ls_str_add(&j.out, "\n");
    ls_status s = ls_make_dirs(dir);
    if (s == LS_OK)
        s = ls_file_write_text(path, &j.out);
    ls_str_release(&j.out);
    free(path);
    free(dir);
    return s;
}

static ls_status read_calibration(ls_calibration *out, const json_t *root, const char *path)
{
    struct {
        const char *key;
        double *to;
    } fields[] = { { "flops", &out->flops },
                   { "gemm_efficiency", &out->gemm_efficiency },
                   { "bytes_cache", &out->bytes_cache },
                   { "bytes_memory", &out->bytes_memory },
                   { "op_overhead", &out->op_overhead } };
    const char *cpu = json_string_value(json_object_get(root, "cpu")),
               *isa = json_string_value(json_object_get(root, "isa"));
    const json_int_t threads = json_integer_value(json_object_get(root, "threads"));
    if (!cpu || strcmp(cpu, out->cpu) || !isa || strcmp(isa, ls_isa_name(out->isa)) ||
        threads != out->threads)
        return ls_fail(LS_E_IO,
                       "%s is for another processor, instruction set or number of threads; `lockstep doctor` "
                       "measures again",
                       path);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        *fields[i].to = json_number_value(json_object_get(root, fields[i].key));
        if (!(*fields[i].to > 0))
            return ls_fail(LS_E_FORMAT,
                           "%s: \"%s\" must be a positive number; `lockstep doctor` measures again", path,
                           fields[i].key);
    }
    return LS_OK;
}

ls_status ls_calibration_load(ls_calibration *out, const ls_device *d)
{
    if (d->ops == &ls_device_ref)
        return ls_fail(LS_E_UNSUPPORTED, "calibration is for device cpu, not ref");
    ls_calibration c = { .isa = d->isa, .threads = d->threads };
    cpu_name(c.cpu);
    char *path = path_of(&c), *text = NULL;
    size_t size;
    json_t *root = NULL;
    ls_status s = ls_file_read(&text, &size, path);
    if (s == LS_OK)
        s = ls_json_parse(&root, text, size, path);
    if (s == LS_OK)
        s = read_calibration(&c, root, path);
    if (s == LS_OK)
        *out = c;
    json_decref(root);
    free(text);
    free(path);
    return s;
}
