/* verb_doctor.c - `lockstep doctor`: the machine's resources, missing parts, and its speed. Stores the
 * measured speed in the user's cache, where `plan` reads it. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "base/sys.h"
#include "base/thread_pool.h"
#include "comm/environment.h"
#include "doctor.h"
#include "lockstep/data.h"
#include "plan/collective_speed.h"
#include "setup/compiled_recipe.h"

/* Counts the tokenized texts in the cache. */
static void texts(ls_doctor *d)
{
    char *cache = ls_cache_dir(), *dir = ls_path_join(cache, "tokens"), size[32];
    DIR *folder = dir ? opendir(dir) : NULL;
    int64_t n = 0, bytes = 0;
    for (const struct dirent *e; folder && (e = readdir(folder));) {
        char *path = ls_path_join(dir, e->d_name);
        if (ls_ends_with(e->d_name, ".tokens")) {
            n++;
            bytes += ls_file_size(path);
        }
        free(path);
    }
    if (folder)
        closedir(folder);
    ls_doctor_line(d, "text", "%lld tokenized, %s in %s", (long long)n,
                   ls_format_bytes(size, (uint64_t)bytes), dir);
    free(dir);
    free(cache);
}

/* Looks for data sets in the same places as training, but downloads nothing and uses no built-in set. */
static void data(ls_doctor *d)
{
    static const char *const SETS[] = { "fashion-mnist", "mnist" };
    ls_doctor_section(d, "Data");
    for (int i = 0; i < 2; i++) {
        ls_dataset *set;
        if (ls_dataset_open(&set, SETS[i], LS_SPLIT_TRAIN, .download = false, .fallback = false) == LS_OK) {
            ls_doctor_line(d, SETS[i], "%s", set->source);
            ls_dataset_close(&set);
        } else {
            ls_doctor_line(d, SETS[i],
                           "not here; training downloads it, or without a network uses the built-in set, "
                           "with a warning");
        }
    }
    texts(d);
}

/* Whether two threads are faster than one. From the first time on that they are not, nothing is kept. */
static bool quiet(ls_doctor *d)
{
    ls_device cpu;
    if (d->keep && (ls_device_open(&cpu, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS }) != LS_OK ||
                    ls_calibration_check(&cpu, ls_calibration_cores()) != LS_OK)) {
        ls_doctor_note(d, "%s. What is measured meanwhile is not kept", ls_error_message());
        d->keep = false;
    }
    return d->keep;
}

/* The device whose kernels are measured: that of recipes with device: auto, but beside a GPU the CPU. */
static ls_status measured_device(ls_device *out, int threads)
{
    const ls_device_opts o = { LS_DEVICE_DEFAULTS, .threads = threads };
    LS_TRY(ls_device_open(out, NULL, &o));
    return strcmp(out->ops->name, "cuda") ? LS_OK : ls_device_open(out, "cpu", &o);
}

static ls_status measure(ls_doctor *d, int threads, ls_calibration *out)
{
    ls_device device;
    LS_TRY(measured_device(&device, threads));
    LS_TRY(ls_calibration_measure(out, &device));
    if (quiet(d) && ls_calibration_save(out) != LS_OK)
        ls_doctor_note(d, "the measurement could not be kept: %s", ls_error_message());
    return LS_OK;
}

/* Steps whose kernels are measured, so that `plan` estimates others from shapes that are near. */
static const struct {
    const char *recipe, *sets[6];
} STEPS[] = {
    { "vit-fashion-mnist", { "train.global_batch=64" } },
    { "resnet18-mnist", { "train.global_batch=64" } },
    { "qwen2.5-wikitext",
      { "model.init=random", "parallel.mesh={dp: auto}", "model.layers=2", "model.vocab_size=8192",
        "train.global_batch=1" } },
    { "t5-summarise",
      { "model.layers=2", "model.hidden_size=768", "model.heads=12", "model.mlp_size=3072",
        "train.global_batch=1" } },
};
enum { SETS = 6, N_STEPS = sizeof STEPS / sizeof *STEPS };

static ls_status kernels(ls_doctor *d, int threads, int *known)
{
    static const char *const TYPES[] = { "precision={param: f32}", "precision={param: bf16}" };
    ls_device measured;
    LS_TRY(measured_device(&measured, threads));
    for (int i = 0; i < 2 * N_STEPS && d->keep; i++) {
        char text[32], device[32];
        const char *sets[SETS + 5] = { "workers=1", TYPES[i % 2], text, device };
        int n = 4;
        snprintf(text, sizeof text, "threads=%d", threads);
        snprintf(device, sizeof device, "device=%s", measured.ops->name);
        for (int k = 0; k < SETS && STEPS[i / 2].sets[k]; k++)
            sets[n++] = STEPS[i / 2].sets[k];
        ls_compiled_recipe c;
        LS_TRY(ls_compiled_recipe_make(
            &c, &(ls_recipe_arg){ .name = STEPS[i / 2].recipe, .n_sets = n, .sets = sets }, 0, NULL));
        ls_status s = ls_compiled_recipe_time(&c);
        if (s == LS_OK && quiet(d))
            s = ls_calibration_save(&c.store);
        *known = c.store.n_times;
        ls_compiled_recipe_release(&c);
        LS_TRY(s);
    }
    return LS_OK;
}

/* ---- collectives */

typedef struct measuring {
    ls_group *group;
    ls_collective_speed wires[LS_COLLECTIVE_SPEEDS];
    bool keep;
    ls_status status;
    char message[512];
} measuring;

static void *measure_wires(void *context)
{
    measuring *m = context;
    ls_collective_speeds_load(m->wires); /* what these ranks cannot measure stays */
    m->status = ls_collective_speeds_measure(m->wires, m->group);
    if (m->status == LS_OK && m->keep && ls_group_local_rank(m->group) == 0)
        m->status = ls_collective_speeds_save(m->wires);
    snprintf(m->message, sizeof m->message, "%s", m->status == LS_OK ? "" : ls_error_message());
    if (m->status != LS_OK)
        ls_group_fail(m->group, m->status, m->message);
    ls_group_destroy(&m->group);
    return NULL;
}

static void wires_text(ls_doctor *d, const measuring *m)
{
    static const char *const NAMES[LS_COLLECTIVE_SPEEDS] = { "on this host", "between hosts" };
    if (m->status != LS_OK)
        ls_doctor_note(d, "collectives could not be measured: %s", m->message);
    for (int i = 0; i < LS_COLLECTIVE_SPEEDS && m->status == LS_OK; i++) {
        if (m->wires[i].bandwidth > 0)
            ls_doctor_line(d, NAMES[i], "ranks meet in %.1f us, %.1f GB/s", 1e6 * m->wires[i].latency,
                           1e-9 * m->wires[i].bandwidth);
        else
            ls_doctor_line(d, NAMES[i], "not known: `%s lockstep doctor` measures it",
                           i ? "mpirun" : "lockstep launch --workers 2");
    }
}

/* Of the ranks that a launcher started, else of two threads. */
static ls_status collectives(ls_doctor *d, ls_group *launched,
                             ls_collective_speed wires[LS_COLLECTIVE_SPEEDS])
{
    measuring m[2] = { { .group = launched, .keep = d->keep } };
    ls_group *groups[2];
    ls_doctor_section(d, "Collectives (measured now)");
    if (launched) {
        measure_wires(&m[0]);
    } else if (ls_cpu_count() > 1) {
        pthread_t other;
        LS_TRY(ls_group_threads(groups, 2));
        m[0].group = groups[0];
        m[1].group = groups[1];
        if (ls_sys_thread(&other, measure_wires, &m[1])) {
            ls_group_destroy(&groups[1]);
            ls_group_destroy(&groups[0]);
            return ls_fail(LS_E_MEMORY, "collectives: no thread for a second rank");
        }
        measure_wires(&m[0]);
        pthread_join(other, NULL);
    } else {
        ls_collective_speeds_load(m[0].wires);
    }
    wires_text(d, &m[0]);
    memcpy(wires, m[0].wires, sizeof m[0].wires);
    return LS_OK;
}

/* The threads that a rank of `ranks` has. */
static ls_status part(ls_doctor *d, int threads, int ranks)
{
    int known;
    char name[32];
    ls_calibration c;
    LS_TRY(measure(d, threads, &c));
    snprintf(name, sizeof name, "%d thread%s", threads, threads == 1 ? "" : "s");
    ls_doctor_line(d, name, "%.1f GFLOP/s, as a rank of %d has", c.flops * 1e-9, ranks);
    ls_calibration_release(&c);
    return kernels(d, threads, &known);
}

static ls_status lines(ls_doctor *d, const ls_calibration *c)
{
    int known = 0;
    ls_doctor_line(
        d, "arithmetic", "%.1f GFLOP/s peak on %d thread%s (%s); a typical product reaches %.0f %%",
        c->flops * 1e-9, c->threads, c->threads == 1 ? "" : "s", c->arch, 100 * c->gemm_efficiency);
    ls_doctor_line(d, "memory", "%.1f GB/s in the caches, %.1f GB/s outside", c->bytes_cache * 1e-9,
                   c->bytes_memory * 1e-9);
    ls_doctor_line(d, "kernel call", "%.2f us", c->op_overhead * 1e6);
    if (c->to_device > 0)
        ls_doctor_line(d, "copies", "%.1f GB/s to device %s, %.1f GB/s from it", c->to_device * 1e-9,
                       c->device, c->to_host * 1e-9);
    if (d->keep) {
        LS_TRY(kernels(d, c->threads, &known));
        ls_doctor_line(d, "kernels", "%d calls measured, of steps like those of the bundled recipes", known);
    }
    for (int threads = c->threads / 2; threads >= 1; threads /= 2)
        LS_TRY(part(d, threads, c->threads / threads));
    return LS_OK;
}

/* The general speeds of the GPU. `plan --measure` measures the kernels of a recipe. */
static ls_status gpu_speed(ls_doctor *d)
{
    ls_device gpu;
    ls_calibration c;
    if (ls_device_open(&gpu, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS }) != LS_OK)
        return LS_OK;
    ls_doctor_section(d, d->keep ? "GPU speed (measured now, kept for `lockstep plan`)"
                                 : "GPU speed (measured now, not kept)");
    fflush(d->out);
    LS_TRY(ls_calibration_measure(&c, &gpu));
    if (d->keep && ls_calibration_save(&c) != LS_OK)
        ls_doctor_note(d, "the measurement could not be kept: %s", ls_error_message());
    ls_doctor_line(d, "products", "f32 %.4g TFLOP/s (%.0f %% of the data sheet), bf16 %.4g TFLOP/s (%.0f %%)",
                   1e-12 * c.flops * c.gemm_efficiency, 100 * c.gemm_efficiency,
                   1e-12 * c.narrow_flops * c.narrow_efficiency, 100 * c.narrow_efficiency);
    ls_doctor_line(d, "memory", "%.4g GB/s", 1e-9 * c.bytes_memory);
    ls_doctor_line(d, "kernel call", "%.2f us", 1e6 * c.op_overhead);
    ls_doctor_line(d, "copies", "%.1f GB/s to the GPU, %.1f GB/s from it", 1e-9 * c.to_device,
                   1e-9 * c.to_host);
    ls_doctor_line(d, "kernels", "`lockstep plan RECIPE --measure` measures those of a recipe");
    ls_calibration_release(&c);
    return LS_OK;
}

/* The launcher has bound this rank to some of the cores that it could use: the file would have these alone.
 */
static void tell_bound(ls_doctor *d)
{
    const int bound = ls_calibration_cores(), all = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (bound < all)
        ls_doctor_note(
            d,
            "this rank may use %d of the %d cores of its host, and so host.cores of the file is %d: if "
            "the launcher binds ranks, use mpirun --bind-to none or srun --cpu-bind=none",
            bound, all, bound);
}

/* The file of --write-machine: of a GPU if there is one, as device: auto has it. */
static ls_status machine_file(ls_doctor *d, const char *path, int ranks,
                              const ls_collective_speed wires[LS_COLLECTIVE_SPEEDS])
{
    ls_device device;
    ls_calibration c;
    LS_TRY(ls_device_open(&device, NULL, &(ls_device_opts){ LS_DEVICE_DEFAULTS }));
    if (ls_calibration_load(&c, &device) != LS_OK)
        LS_TRY(ls_calibration_measure(&c, &device));
    const ls_status s = ls_doctor_write_machine(path, &c, ranks, !d->keep, wires);
    ls_calibration_release(&c);
    const char *quote = strpbrk(path, " \t&;()$'\"") ? "'" : "";
    if (s == LS_OK)
        ls_doctor_line(d, "file", "%s, for `lockstep plan RECIPE --machine %s%s%s`%s", path, quote, path,
                       quote,
                       d->keep ? "" : "; its figures are too slow: measure again when the machine is quiet");
    return s;
}

/* Measures with all threads, then with the threads that each of 2, 4, ... ranks would have. */
static ls_status speed(ls_doctor *d)
{
    ls_calibration c;
    ls_doctor_section(d, d->keep ? "Speed (measured now, kept for `lockstep plan`)"
                                 : "Speed (measured now, not kept)");
    fflush(d->out);
    LS_TRY(measure(d, 0, &c));
    const ls_status s = lines(d, &c);
    ls_calibration_release(&c);
    return s;
}

ls_status ls_verb_doctor(const ls_args *a, const ls_ui *ui)
{
    ls_doctor d = { .out = ui->out, .quiet = ui->quiet, .as_json = ls_args_has(a, "--json") };
    const char *need = ls_args_value(a, "--need");
    const char *file = ls_args_value(a, "--write-machine");
    ls_collective_speed wires[LS_COLLECTIVE_SPEEDS];
    ls_environment place;
    ls_group *ranks = NULL;
    int each = 1;
    if (need)
        LS_TRY(ls_doctor_check_names(need));
    if (!ls_args_has(a, "--no-measure") && ls_environment_read(&place) == LS_OK && place.size != 1) {
        LS_TRY(ls_group_from_environment(&ranks));
        if (ls_group_rank(ranks)) { /* the first rank speaks */
            measuring m = { .group = ranks, .keep = true };
            measure_wires(&m);
            return m.status == LS_OK ? LS_OK : ls_fail(m.status, "%s", m.message);
        }
    }
    ls_doctor_begin(&d);
    if (d.as_json)
        ls_json_text(&d.json, "version", LS_VERSION);
    else
        ls_doctor_section(&d, "lockstep " LS_VERSION);
    ls_doctor_machine(&d);
    ls_doctor_ranks(&d);
    ls_doctor_parts(&d);
    ls_doctor_libraries(&d);
    ls_doctor_gpu(&d);
    data(&d);
    ls_status s = LS_OK;
    if (!ls_args_has(a, "--no-measure")) {
        /* (ranks beside this one compute, too) */
        d.keep = true;
        if (!ranks)
            quiet(&d);
        each = ranks ? ls_group_local_size(ranks) : 1;
        s = collectives(&d, ranks, wires);
        if (s == LS_OK && !ranks) /* ranks beside this one would disturb */
            s = speed(&d);
        if (s == LS_OK && !ranks)
            s = gpu_speed(&d);
        if (s == LS_OK && file)
            s = machine_file(&d, file, each, wires);
        if (s == LS_OK && file && ranks)
            tell_bound(&d);
    }
    d.failed = s != LS_OK;
    const ls_status printed = ls_doctor_end(&d);
    LS_TRY(s);
    LS_TRY(printed);
    return need ? ls_doctor_need(need) : LS_OK;
}
