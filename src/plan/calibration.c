/* calibration.c - a device's calibration: its file, and its time for a kernel call.
 *
 * The file is JSON in the user's cache, one for each processor, device, arch, number of threads and program.
 * A hash of the program's code stands in its name and in it: with other kernels its times would be wrong. So
 * builds that are used in turns keep their files. */
#include "calibration.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/code_hash.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/sys.h"
#include "device/queue.h"
#include "graph/op.h"
#include "node.h"

enum { VERSION = 3 };

/* Of the program or library that contains the kernels. */
static uint64_t code_hash(void) { return ls_code_hash((const void *)(uintptr_t)&code_hash); }

/* ---- calls */

static uint64_t add_type(uint64_t h, const ls_type *t, bool dims)
{
    const int64_t head[2] = { t->ndim < 0 ? -1 : (int64_t)t->dtype, dims ? t->ndim : 0 };
    h = ls_hash64_more(h, head, sizeof head);
    return dims && t->ndim > 0 ? ls_hash64_more(h, t->dims, sizeof *t->dims * (size_t)t->ndim) : h;
}

void ls_call_digest(const ls_graph *g, const ls_node *n, double flops, uint64_t *call, uint64_t *kind)
{
    *kind = ls_hash_text(n->op->name);
    *call = ls_hash64_more(*kind, &flops, sizeof flops); /* masks and windows change it, not the types */
    for (int j = 0; j < ls_operands(n); j++) {
        const ls_value v = ls_operand_value(n, j);
        *call = add_type(*call, ls_type_of(g, v), true);
        if (j < 4) /* pack and the norms have any number of operands */
            *kind = add_type(*kind, ls_type_of(g, v), false);
    }
}

static ls_kernel_time *calibration_find(const ls_calibration *c, uint64_t call)
{
    for (int i = 0; i < c->n_times; i++)
        if (c->times[i].call == call)
            return &c->times[i];
    return NULL;
}

bool ls_calibration_has(const ls_calibration *c, uint64_t call) { return calibration_find(c, call) != NULL; }

ls_status ls_calibration_add(ls_calibration *c, ls_kernel_time t)
{
    ls_kernel_time *same = calibration_find(c, t.call);
    if (same) {
        free(same->text);
        *same = t;
        return LS_OK;
    }
    ls_kernel_time *times = ls_sys_grow(c->times, c->n_times, &c->room, sizeof *times);
    if (!times || !t.text) {
        c->times = times ? times : c->times;
        free(t.text);
        return ls_fail(LS_E_MEMORY, "calibration: out of memory");
    }
    c->times = times;
    c->times[c->n_times++] = t;
    return LS_OK;
}

void ls_calibration_release(ls_calibration *c)
{
    for (int i = 0; i < c->n_times; i++)
        free(c->times[i].text);
    free(c->times);
    c->times = NULL;
    c->n_times = c->room = 0;
    if (c->host)
        ls_calibration_release(c->host);
    free(c->host);
    c->host = NULL;
}

ls_dtype ls_call_type(const ls_graph *g, const ls_node *n)
{
    return n->n_in && ls_present(n->in[0]) ? ls_type_of(g, n->in[0])->dtype : LS_F32;
}

static bool narrow(const ls_calibration *c, ls_dtype type)
{
    return c->narrow_flops > 0 && (type == LS_BF16 || type == LS_F16);
}

/* Seconds of arithmetic at `fraction` of the peak, or of memory traffic, whichever takes longer. */
static double slower(const ls_calibration *c, double peak, double fraction, ls_cost cost)
{
    const double cached = 1 << 20; /* a size that fits into L2 of nearly all processors */
    const double arithmetic = cost.flops / (peak * fraction),
                 traffic = cost.bytes / (cost.bytes <= cached ? c->bytes_cache : c->bytes_memory);
    return arithmetic > traffic ? arithmetic : traffic;
}

double ls_calibration_peak(const ls_calibration *c, ls_dtype type)
{
    return narrow(c, type) ? c->narrow_flops : c->flops;
}

double ls_calibration_least(const ls_calibration *c, ls_dtype type, ls_cost cost)
{
    return slower(c, ls_calibration_peak(c, type), 1, cost);
}

/* Seconds by the general speeds. */
static double general(const ls_calibration *c, ls_dtype type, ls_cost cost)
{
    return narrow(c, type) ? slower(c, c->narrow_flops, c->narrow_efficiency, cost)
                           : slower(c, c->flops, c->gemm_efficiency, cost);
}

static double apart(double a, double b) { return fabs(log((a + 1) / (b + 1))); }

double ls_calibration_seconds(const ls_calibration *c, uint64_t call, uint64_t kind, ls_dtype type,
                              ls_cost cost)
{
    const ls_kernel_time *nearest = NULL;
    double least = INFINITY;
    for (int i = 0; i < c->n_times; i++) {
        const ls_kernel_time *t = &c->times[i];
        if (t->call == call)
            return t->seconds;
        const double far = apart(t->flops, cost.flops) + apart(t->bytes, cost.bytes);
        if (t->kind == kind && far < least) {
            least = far;
            nearest = t;
        }
    }
    if (!nearest)
        return general(c, type, cost) + c->op_overhead;
    const double measured = general(c, type, (ls_cost){ nearest->flops, nearest->bytes });
    if (!(measured > 0))
        return nearest->seconds;
    const double rest = nearest->seconds - c->op_overhead;
    return c->op_overhead + (rest > 0 ? rest : 0) * general(c, type, cost) / measured;
}

/* ---- the file */

static const char CPU[] = "cpu"; /* the device of names and files that name none */

void ls_calibration_of(ls_calibration *out, const ls_device *d)
{
    *out = (ls_calibration){ .device = d->ops->computes ? d->ops->name : CPU, /* (null is an idle CPU) */
                             .arch = d->arch->name,
                             .threads = d->threads };
    ls_calibration_hardware(out->hardware, d);
}

ls_status ls_calibration_host(ls_device *out, const ls_device *d)
{
    ls_device_opts o = { LS_DEVICE_DEFAULTS, .threads = d->threads };
    const ls_arch *a;
    for (int i = 0; (a = ls_device_cpu.usable(i)); i++)
        if (a == d->arch) /* the device has the CPU's kernels */
            o.isa = a->name;
    return ls_device_open(out, CPU, &o);
}

const ls_calibration *ls_calibration_for(const ls_calibration *c, const ls_device *d)
{
    return c && (c->host || c->to_device > 0) && !ls_device_apart(d) ? c->host : c;
}

void ls_calibration_hardware(char out[64], const ls_device *d)
{
    if (d->ops->hardware)
        d->ops->hardware(out, d);
    else
        ls_calibration_cpu(out);
}

void ls_calibration_cpu(char out[64])
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

/* The beginning of the names of all programs' files: calibration-<hash of the hardware's
 * name>-<device>-<arch>-<threads>, of device cpu without the device. */
static void stem_of(char stem[96], const ls_calibration *c)
{
    const bool cpu = strcmp(c->device, CPU) == 0;
    snprintf(stem, 96, "calibration-%08x-%s%s%s-%d", (unsigned)ls_hash_text(c->hardware),
             cpu ? "" : c->device, cpu ? "" : "-", c->arch, c->threads);
}

/* The file <stem>-<hash of the code>.json of the cache folder; malloc'ed. */
static char *calibration_path_of(const ls_calibration *c)
{
    char stem[96], name[128], *dir = ls_cache_dir();
    stem_of(stem, c);
    snprintf(name, sizeof name, "%s-%016llx.json", stem, (unsigned long long)code_hash());
    char *path = ls_path_join(dir, name);
    free(dir);
    return path;
}

/* The path of the oldest of the files with this stem, malloc'ed; NULL if there are no more than `most`. */
static char *oldest_beyond(const char *dir, const char *stem, int most)
{
    char *oldest = NULL;
    struct timespec when = { 0 };
    int n = 0;
    DIR *folder = opendir(dir);
    for (const struct dirent *e; folder && (e = readdir(folder));) {
        const size_t length = strlen(stem);
        struct stat st;
        if (strncmp(e->d_name, stem, length) || (e->d_name[length] != '-' && e->d_name[length] != '.'))
            continue;
        char *path = ls_path_join(dir, e->d_name);
        if (!path || stat(path, &st)) {
            free(path);
            continue;
        }
        n++;
        const struct timespec t = st.st_mtim;
        if (!oldest || t.tv_sec < when.tv_sec || (t.tv_sec == when.tv_sec && t.tv_nsec < when.tv_nsec)) {
            free(oldest);
            oldest = path;
            when = t;
        } else {
            free(path);
        }
    }
    if (folder)
        closedir(folder);
    if (n > most)
        return oldest;
    free(oldest);
    return NULL;
}

static void remove_old(const ls_calibration *c)
{
    char stem[96], *dir = ls_cache_dir(), *path;
    stem_of(stem, c);
    while (dir && (path = oldest_beyond(dir, stem, LS_CALIBRATIONS))) {
        const int failed = ls_sys_remove(path); /* (else it stays: it does no harm) */
        free(path);
        if (failed)
            break;
    }
    free(dir);
}

typedef struct field {
    const char *key;
    double *to;
} field;
enum { NEEDED = 5, FIELDS = 11 }; /* those after NEEDED are 0 if the file lacks them */
static void fields(field f[FIELDS], ls_calibration *c)
{
    const field all[FIELDS] = { { "flops", &c->flops },
                                { "gemm_efficiency", &c->gemm_efficiency },
                                { "bytes_cache", &c->bytes_cache },
                                { "bytes_memory", &c->bytes_memory },
                                { "op_overhead", &c->op_overhead },
                                { "all_flops", &c->all_flops },
                                { "all_memory", &c->all_memory },
                                { "to_device", &c->to_device },
                                { "to_host", &c->to_host },
                                { "narrow_flops", &c->narrow_flops },
                                { "narrow_efficiency", &c->narrow_efficiency } };
    memcpy(f, all, sizeof all);
}

static void hex_json(ls_json *j, const char *key, uint64_t x)
{
    char text[20];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)x);
    ls_json_text(j, key, text);
}

static void times_json(ls_json *j, const ls_calibration *c)
{
    ls_json_array(j, "times");
    for (int i = 0; i < c->n_times; i++) {
        const ls_kernel_time *t = &c->times[i];
        ls_str_add(&j->out, "\n");
        ls_json_object(j, NULL);
        ls_json_text(j, "kernel", t->text);
        ls_json_f64(j, "seconds", t->seconds);
        ls_json_f64(j, "flops", t->flops);
        ls_json_f64(j, "bytes", t->bytes);
        hex_json(j, "call", t->call);
        hex_json(j, "kind", t->kind);
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
}

ls_status ls_calibration_save(const ls_calibration *given)
{
    ls_calibration c = *given;
    field f[FIELDS];
    fields(f, &c);
    char *path = calibration_path_of(&c);
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_text(&j, "what",
                 "what this machine can do, measured by `lockstep doctor` and `lockstep plan --measure`; "
                 "seconds, FLOP/s, bytes/s; it may be deleted");
    ls_json_int(&j, "version", VERSION);
    hex_json(&j, "code", code_hash());
    ls_json_text(&j, "hardware", c.hardware);
    ls_json_text(&j, "device", c.device);
    ls_json_text(&j, "isa", c.arch);
    ls_json_int(&j, "threads", c.threads);
    ls_json_int(&j, "cores", c.cores);
    for (int i = 0; i < FIELDS; i++)
        if (i < NEEDED || *f[i].to != 0)
            ls_json_f64(&j, f[i].key, *f[i].to);
    times_json(&j, &c);
    ls_json_close_object(&j);
    const ls_status s = ls_json_write(&j, path);
    if (s == LS_OK)
        remove_old(&c);
    free(path);
    return s == LS_OK && c.host ? ls_calibration_save(c.host) : s;
}

static const char *calibration_text_of(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text ? text : "";
}

static ls_status read_times(ls_calibration *c, const json_t *times, const char *path)
{
    size_t i;
    const json_t *o;
    json_array_foreach(times, i, o)
    {
        ls_kernel_time t = { .call = strtoull(calibration_text_of(o, "call"), NULL, 16),
                             .kind = strtoull(calibration_text_of(o, "kind"), NULL, 16),
                             .flops = json_number_value(json_object_get(o, "flops")),
                             .bytes = json_number_value(json_object_get(o, "bytes")),
                             .seconds = json_number_value(json_object_get(o, "seconds")),
                             .text = ls_sys_strdup(calibration_text_of(o, "kernel")) };
        if (!(t.seconds > 0) || !(t.flops >= 0) || !(t.bytes >= 0)) {
            free(t.text);
            return ls_fail(LS_E_FORMAT,
                           "%s: number %zu of \"times\" cannot have been measured; `lockstep doctor` "
                           "measures again",
                           path, i);
        }
        LS_TRY(ls_calibration_add(c, t));
    }
    return LS_OK;
}

static ls_status no_number(const char *path, const char *key)
{
    return ls_fail(LS_E_FORMAT, "%s: \"%s\" must be a positive number; `lockstep doctor` measures again",
                   path, key);
}

static ls_status read_calibration(ls_calibration *out, const json_t *root, const char *path)
{
    char hash[20];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)code_hash());
    if (json_integer_value(json_object_get(root, "version")) != VERSION ||
        strcmp(calibration_text_of(root, "code"), hash))
        return ls_fail(
            LS_E_IO, "%s was measured by another build of lockstep; `lockstep doctor` measures again", path);
    const char *device = calibration_text_of(root, "device");
    if (strcmp(calibration_text_of(root, "hardware"), out->hardware) ||
        strcmp(*device ? device : CPU, out->device) || strcmp(calibration_text_of(root, "isa"), out->arch) ||
        json_integer_value(json_object_get(root, "threads")) != out->threads)
        return ls_fail(LS_E_IO,
                       "%s is for another processor, device, instruction set or number of threads; `lockstep "
                       "doctor` measures again",
                       path);
    const json_int_t cores = json_integer_value(json_object_get(root, "cores"));
    if (cores < 1 || cores > INT_MAX)
        return no_number(path, "cores");
    out->cores = (int)cores;
    field f[FIELDS];
    fields(f, out);
    for (int i = 0; i < FIELDS; i++) {
        const json_t *number = json_object_get(root, f[i].key);
        *f[i].to = json_number_value(number);
        if (!(*f[i].to > 0) && (number || i < NEEDED))
            return no_number(path, f[i].key);
    }
    return read_times(out, json_object_get(root, "times"), path);
}

/* Of one device, without `host`. */
static ls_status calibration_load(ls_calibration *out, const ls_device *d)
{
    ls_calibration c;
    ls_calibration_of(&c, d);
    char *path = calibration_path_of(&c), *text = NULL;
    size_t size;
    json_t *root = NULL;
    ls_status s = ls_file_read(&text, &size, path);
    if (s == LS_OK)
        s = ls_json_parse(&root, text, size, path);
    if (s == LS_OK)
        s = read_calibration(&c, root, path);
    if (s == LS_OK && ls_device_apart(d) && !(c.to_device > 0 && c.to_host > 0))
        s = no_number(path, c.to_device > 0 ? "to_host" : "to_device");
    if (s == LS_OK)
        *out = c;
    else
        ls_calibration_release(&c);
    json_decref(root);
    free(text);
    free(path);
    return s;
}

ls_status ls_calibration_load(ls_calibration *out, const ls_device *d)
{
    ls_device host;
    if (d->ops == &ls_device_ref)
        return ls_fail(LS_E_UNSUPPORTED, "calibration is for device cpu, not ref");
    ls_calibration c;
    LS_TRY(calibration_load(&c, d));
    ls_status s = LS_OK;
    if (ls_device_apart(d)) {
        s = ls_calibration_host(&host, d);
        if (s == LS_OK)
            s = ls_sys_have(c.host = ls_sys_calloc(1, sizeof *c.host));
        if (s == LS_OK)
            s = calibration_load(c.host, &host);
    }
    if (s == LS_OK)
        *out = c;
    else
        ls_calibration_release(&c);
    return s;
}
