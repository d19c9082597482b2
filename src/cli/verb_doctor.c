/* verb_doctor.c - `lockstep doctor`: the machine's resources, missing parts, and its speed. Stores the
 * measured speed in the user's cache, where `plan` reads it. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "doctor.h"
#include "lockstep/data.h"
#include "plan/plan.h"

/* Counts the tokenized texts in the cache. */
static void texts(ls_doctor *d)
{
    char *cache = ls_cache_dir(), *dir = ls_path_join(cache, "tokens"), size[32];
    DIR *folder = dir ? opendir(dir) : NULL;
    int64_t n = 0, bytes = 0;
    for (const struct dirent *e; folder && (e = readdir(folder));) {
        const size_t length = strlen(e->d_name);
        char *path = ls_path_join(dir, e->d_name);
        if (length > 7 && !strcmp(e->d_name + length - 7, ".tokens")) {
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

static ls_status measure(ls_doctor *d, int threads, ls_calibration *out)
{
    ls_device cpu;
    LS_TRY(ls_device_open(&cpu, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = threads }));
    LS_TRY(ls_calibration_measure(out, &cpu));
    if (ls_calibration_save(out) != LS_OK)
        ls_doctor_note(d, "the measurement could not be kept: %s", ls_error_message());
    return LS_OK;
}

/* Measures with all threads, then with the threads that each of 2, 4, ... ranks would have. */
static ls_status speed(ls_doctor *d)
{
    ls_calibration c, part;
    ls_doctor_section(d, "Speed (measured now, kept for `lockstep plan`)");
    fflush(d->out);
    LS_TRY(measure(d, 0, &c));
    ls_doctor_line(d, "arithmetic",
                   "%.1f GFLOP/s peak on %d thread%s (%s); a typical product reaches %.0f %%", c.flops * 1e-9,
                   c.threads, c.threads == 1 ? "" : "s", ls_isa_name(c.isa), 100 * c.gemm_efficiency);
    ls_doctor_line(d, "memory", "%.1f GB/s in the caches, %.1f GB/s outside", c.bytes_cache * 1e-9,
                   c.bytes_memory * 1e-9);
    ls_doctor_line(d, "kernel call", "%.2f us", c.op_overhead * 1e6);
    for (int threads = c.threads / 2; threads >= 1; threads /= 2) {
        LS_TRY(measure(d, threads, &part));
        ls_doctor_line(d, "a part of it", "%.1f GFLOP/s on %d thread%s, as a rank of %d has",
                       part.flops * 1e-9, threads, threads == 1 ? "" : "s", c.threads / threads);
    }
    return LS_OK;
}

ls_status ls_verb_doctor(const ls_args *a, const ls_ui *ui)
{
    ls_doctor d = { .out = ui->out };
    ls_doctor_section(&d, "lockstep " LS_VERSION);
    ls_doctor_machine(&d);
    ls_doctor_ranks(&d);
    ls_doctor_libraries(&d);
    data(&d);
    ls_status s = ls_args_has(a, "--no-measure") ? LS_OK : speed(&d);
    if (d.notes)
        fprintf(d.out, "%d thing%s to look at:\n%s", d.notes, d.notes == 1 ? "" : "s",
                ls_str_text(&d.advice));
    else if (s == LS_OK)
        fprintf(d.out, "Nothing is missing.\n");
    ls_str_release(&d.advice);
    return s;
}
