/* rundir.c - makes, opens, locks and closes a run directory (result.c writes result.json). recipe.yaml, or
 * config.txt of a user's program, is the first file and is written at once. So a folder with one of them is a
 * run. A folder with other files is not touched. */
#include "rundir.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/oserror.h"
#include "base/shown.h"
#include "base/sys.h"
#include "metrics_csv.h"
#include "net/s3.h"
#include "remote.h"
#include "run_lock.h"
#include "shared.h"
#include "hparams.h"
#include "rundir_own.h"

/* ---- making and opening */

/* What a run is made of: a recipe, or the texts of a user's program. */
typedef struct identity {
    const char *storage, *name, *best_metric, *file; /* file: recipe.yaml or config.txt */
    const ls_recipe *recipe;                         /* NULL: a user's program */
    const char *config;                              /* then the contents of config.txt; NULL: as it is */
    bool allow_change;
} identity;

static identity of_recipe(const ls_recipe *r, bool allow_change)
{
    return (identity){ r->run.storage, r->run.name, r->checkpoint.best.metric, LS_RUN_RECIPE, r,
                       NULL,           allow_change };
}

static identity of_program(const ls_own_run *r)
{
    return (identity){ r->storage, r->name, r->best_metric, LS_RUN_CONFIG, NULL, r->config, false };
}

/* Whether an interrupted start may have left this file before recipe.yaml was complete, or ranks of a run
 * whose rank 0 was on another host. */
static bool is_left_over(const char *name)
{
    return !strcmp(name, ".") || !strcmp(name, "..") || !strcmp(name, "lock.txt") || !strcmp(name, "log") ||
           !strncmp(name, LS_RUN_RECIPE ".", 12) || !strncmp(name, LS_RUN_CONFIG ".", 11);
}

static ls_status refuse_foreign_folder(const char *path, const char *file)
{
    if (ls_run_is(path))
        return ls_fail(LS_E_USAGE, "%s holds a run of %s; choose another name or storage", path,
                       strcmp(file, LS_RUN_RECIPE) ? "a recipe, not of this program"
                                                   : "your own program, not of a recipe");
    DIR *dir = opendir(path);
    if (!dir)
        return ls_fail_os(path, "read", errno);
    bool foreign = false;
    for (const struct dirent *e; !foreign && (e = readdir(dir));)
        foreign = !is_left_over(e->d_name);
    closedir(dir);
    if (foreign)
        return ls_fail(
            LS_E_USAGE,
            "%s exists and is not a run directory (it has files but no %s); choose another name or storage",
            path, file);
    return LS_OK;
}

static ls_status open_append(const ls_rundir *d, const char *name, int *out)
{
    char *path = ls_path_join(d->path, name);
    ls_status s = LS_OK;
    *out = ls_sys_open(path, O_RDWR | O_CREAT | O_APPEND);
    if (*out < 0)
        s = ls_fail_os(path, "open", errno);
    free(path);
    return s;
}

/* A crash of the machine may have cut the last line. This ends it, so the next row begins a new line. */
static ls_status end_last_line(const ls_rundir *d, int fd, const char *name)
{
    char last;
    off_t size = lseek(fd, 0, SEEK_END);
    if (size > 0 && pread(fd, &last, 1, size - 1) == 1 && last != '\n')
        return ls_rundir_append(d, fd, name, "\n", 1);
    return LS_OK;
}

static ls_status open_log(ls_rundir *d)
{
    char name[32];
    snprintf(name, sizeof name, "rank-%d.log", d->rank);
    char *folder = ls_path_join(d->path, "log"), *path = ls_path_join(folder, name);
    ls_status s = ls_make_dirs(folder);
    if (s == LS_OK && (d->own->log = ls_sys_open(path, O_WRONLY | O_CREAT | O_APPEND)) < 0)
        s = ls_fail_os(path, "open", errno);
    free(folder);
    free(path);
    return s;
}

static ls_status open_files(ls_rundir *d, const identity *i)
{
    struct ls_rundir_private *own = d->own;
    LS_TRY(open_append(d, "metrics.jsonl", &own->metrics));
    LS_TRY(end_last_line(d, own->metrics, "metrics.jsonl"));
    LS_TRY(open_append(d, "metrics.csv", &own->csv));
    LS_TRY(end_last_line(d, own->csv, "metrics.csv"));
    if (i->recipe && !lseek(own->csv, 0, SEEK_END)) /* a user's program gets its columns from its reports */
        LS_TRY(ls_csv_begin(d, &LS_EPOCH_ROW));
    return open_log(d);
}

ls_status ls_rundir_save_recipe(ls_rundir *d, const ls_recipe *r)
{
    char *path = ls_path_join(d->path, LS_RUN_RECIPE), *yaml = ls_recipe_yaml(r, false);
    ls_status s = yaml ? ls_file_write(path, yaml, strlen(yaml)) : LS_E_MEMORY;
    free(path);
    free(yaml);
    return s;
}

/* Reads the result.json of an earlier process. The file may be missing if that process was killed early. */
static ls_status read_before(ls_rundir *d)
{
    char *path = ls_path_join(d->path, "result.json"), *text = NULL;
    size_t size;
    ls_run_info info;
    json_t *tree = NULL;
    ls_status s = LS_OK;
    d->before = LS_RUN_DIED;
    d->attempt = 1;
    LS_TRY_TO(s, ls_sys_have(path), done);
    if (!ls_file_exists(path))
        goto done;
    LS_TRY_TO(s, ls_run_info_read(&info, d->path), done);
    d->before = ls_run_state_lives(info.state) && info.state != LS_RUN_RESTARTING ? LS_RUN_DIED : info.state;
    d->metrics = info.metrics;
    ls_metric_list_move(&d->eval, &info.eval);
    ls_run_info_release(&info);
    LS_TRY_TO(s, ls_file_read(&text, &size, path), done);
    LS_TRY_TO(s, ls_json_parse(&tree, text, size, path), done);
    /* then the file has the number of the next attempt */
    d->attempt = json_integer_value(json_object_get(tree, "attempt")) + (d->before != LS_RUN_RESTARTING);
    d->own->restarts = json_incref(json_object_get(tree, "restarts"));
    d->own->builds = json_incref(json_object_get(tree, "builds"));
    size_t i;
    json_t *c, *list = json_object_get(tree, "checkpoints");
    const char *best = json_string_value(json_object_get(tree, "best_checkpoint"));
    json_array_foreach(list, i, c)
    {
        const char *where = json_string_value(json_object_get(c, "path"));
        if (where)
            ls_rundir_list_checkpoint(d, where, json_integer_value(json_object_get(c, "step")),
                                      json_integer_value(json_object_get(c, "epoch")),
                                      ls_metric_list_read(json_object_get(c, "metrics"), ""),
                                      best && !strcmp(best, where));
    }
done:
    d->state = d->before;
    json_decref(tree);
    free(text);
    free(path);
    return s;
}

/* Checks that the existing run has the same recipe, unless changes are allowed. */
static ls_status check_recipe(const ls_rundir *d, const ls_recipe *r, bool allow_change)
{
    ls_recipe *there;
    ls_status s = ls_recipe_load_run(&there, d->path, 0, NULL);
    if (s != LS_OK)
        return ls_fail_in(s, "run %s exists, but its recipe does not load", d->path);
    char *difference = ls_recipe_difference(r, there);
    if (!difference)
        s = LS_E_MEMORY;
    else if (*difference && !allow_change)
        s = ls_fail(LS_E_USAGE,
                    "%s holds a run of another recipe: %s; set run.name for a new run, or continue with "
                    "these changes: --allow-change",
                    d->path, difference);
    free(difference);
    ls_recipe_destroy(&there);
    return s;
}

/* The configuration of a user's program is not compared: the newest replaces the file. */
static ls_status save_config(const char *path, const char *config)
{
    char *before = NULL;
    size_t size = 0;
    if (ls_file_exists(path))
        LS_TRY(ls_file_read(&before, &size, path));
    bool same = before && size == strlen(config) && !memcmp(before, config, size);
    free(before);
    return same ? LS_OK : ls_file_write(path, config, strlen(config));
}

int64_t ls_rundir_micro_batch(const ls_recipe *r)
{
    char *run = ls_storage_run(r->run.storage, r->run.name), *path = ls_path_join(run, LS_RUN_RECIPE);
    ls_recipe *there = NULL;
    int64_t micro = 0;
    if (ls_file_exists(path) && ls_recipe_load_run(&there, run, 0, NULL) == LS_OK &&
        r->train.global_batch == there->train.global_batch)
        micro = there->train.micro_batch;
    ls_recipe_destroy(&there);
    free(path);
    free(run);
    return micro;
}

static ls_status open_at(ls_rundir *d, const identity *i, const char *path)
{
    LS_TRY(ls_make_dirs(d->path));
    bool exists = ls_file_exists(path);
    if (!exists)
        LS_TRY(refuse_foreign_folder(d->path, i->file));
    LS_TRY(ls_run_lock(&d->own->lock, d->path));
    ls_remove_temporaries(d->path);
    if (exists && i->recipe)
        LS_TRY(check_recipe(d, i->recipe, i->allow_change));
    if (exists)
        LS_TRY(read_before(d));
    if (i->config)
        LS_TRY(save_config(path, i->config));
    else if (!exists && i->recipe)
        LS_TRY(ls_rundir_save_recipe(d, i->recipe));
    LS_TRY(open_files(d, i));
    return exists ? LS_OK : ls_rundir_save_result(d, LS_RUN_STARTING, NULL);
}

static void destroy(ls_rundir **d)
{
    struct ls_rundir_private *own = (*d)->own;
    const int files[] = { own->log, own->events, own->beat, own->metrics, own->csv, own->lock };
    for (int i = 0; i < 6; i++)
        if (files[i] >= 0)
            close(files[i]); /* the last one releases the lock */
    for (int i = 0; i < own->n_checkpoints; i++) {
        free(own->checkpoints[i].path);
        ls_metric_list_release(&own->checkpoints[i].metrics);
    }
    ls_metric_list_release(&own->reported);
    ls_metric_list_release(&(*d)->eval);
    free(own->checkpoints);
    free(own->best_checkpoint);
    free(own->best_metric);
    json_decref(own->restarts);
    json_decref(own->builds);
    json_decref(own->recalled);
    free(own->name);
    ls_str_release(&own->row.out);
    ls_str_release(&own->header);
    ls_str_release(&own->hparams);
    free(own);
    free((*d)->path);
    free(*d);
    *d = NULL;
}

/* NULL: no memory. */
static ls_rundir *create(const identity *i)
{
    ls_rundir *d = ls_sys_calloc(1, sizeof *d);
    struct ls_rundir_private *own = ls_sys_calloc(1, sizeof *own);
    if (!d || !own) {
        free(d);
        free(own);
        return NULL;
    }
    *own = (struct ls_rundir_private){ .lock = -1,
                                       .metrics = -1,
                                       .csv = -1,
                                       .log = -1,
                                       .events = -1,
                                       .beat = -1,
                                       .wants_events = i->recipe && i->recipe->log.tensorboard,
                                       .name = ls_sys_strdup(i->name),
                                       .best_metric = ls_sys_strdup(i->best_metric) };
    d->own = own;
    d->path = ls_storage_run(i->storage, i->name);
    d->metrics = (ls_run_metrics){
        .loss = NAN, .lr = NAN, .best_value = NAN, .stop_value = NAN, .plateau_value = NAN
    };
    const bool whole = !own->wants_events || ls_hparams_summary(&own->hparams, i->recipe) == LS_OK;
    if (!whole || !d->path || (i->name && !own->name) || (i->best_metric && !own->best_metric))
        destroy(&d);
    return d;
}

static ls_status open_run(ls_rundir **out, const identity *i)
{
    ls_rundir *d = *out = create(i);
    if (!d)
        return ls_fail(LS_E_MEMORY, "run %s: out of memory", i->name);
    char *path = ls_path_join(d->path, i->file);
    ls_status s = path ? open_at(d, i, path) : ls_sys_have(path);
    free(path);
    if (s != LS_OK)
        destroy(&d);
    *out = d;
    return s;
}

static double rundir_number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* Keeps what only the ranks could measure when their parent writes result.json. */
static ls_status recall(ls_rundir *d)
{
    char *path = ls_path_join(d->path, "result.json"), *text = NULL;
    size_t size;
    json_t *part;
    const char *name;
    ls_status s;
    LS_TRY_TO(s, ls_sys_have(path), done);
    if (!ls_file_exists(path))
        goto done;
    LS_TRY_TO(s, ls_file_read(&text, &size, path), done);
    LS_TRY_TO(s, ls_json_parse(&d->own->recalled, text, size, path), done);
    const json_t *result = d->own->recalled, *timings = json_object_get(result, "timings");
    json_object_foreach(json_object_get(timings, "startup"), name, part)
    {
        if (!strcmp(name, "total"))
            d->startup.total = json_number_value(part);
        else if (d->startup.n < LS_STARTUP_PARTS) {
            d->startup.parts[d->startup.n].name = name;
            d->startup.parts[d->startup.n++].seconds = json_number_value(part);
        }
    }
    d->step_median = rundir_number(timings, "step_median");
    d->train_seconds = rundir_number(timings, "train");
    d->eval_seconds = rundir_number(timings, "eval");
    d->peak_rss = json_integer_value(json_object_get(result, "peak_rss"));
    d->data_note = json_string_value(json_object_get(result, "data"));
    d->builtin_data = json_is_true(json_object_get(result, "builtin_data"));
    const char *device = json_string_value(json_object_get(result, "device")),
               *hardware = json_string_value(json_object_get(result, "hardware"));
    snprintf(d->device, sizeof d->device, "%s", device ? device : "");
    snprintf(d->hardware, sizeof d->hardware, "%s", hardware ? hardware : "");
    ls_metric_list reported = ls_metric_list_read(json_object_get(result, "metrics"), "");
    d->own->no_memory = d->own->no_memory || reported.no_memory;
    ls_metric_list_move(&d->own->reported, &reported);
    const char *no_best = json_string_value(json_object_get(result, "no_best"));
    snprintf(d->no_best, sizeof d->no_best, "%s", no_best ? no_best : "");
done:
    free(text);
    free(path);
    return s;
}

static ls_status check_shared(const identity *i, ls_group *g)
{
    if (ls_s3_is(i->storage)) /* ls_remote_join has looked */
        return LS_OK;
    char *path = ls_storage_run(i->storage, i->name);
    ls_status s = ls_sys_have(path);
    s = s == LS_OK ? ls_shared_folder(path, i->storage, g) : s;
    free(path);
    return s;
}

static ls_status open_ranks(ls_rundir **out, const identity *i, ls_group *g)
{
    *out = NULL;
    struct {
        ls_run_state before;
        int64_t attempt;
        ls_run_metrics metrics;
    } found = { 0 };
    int rank = g ? ls_group_rank(g) : 0;
    if (rank == 0) {
        LS_TRY(open_run(out, i)); /* its failure ends the wait of the other ranks */
        found.before = (*out)->before;
        found.attempt = (*out)->attempt;
        found.metrics = (*out)->metrics;
    }
    if (g)
        LS_TRY(ls_group_broadcast(g, &found, sizeof found, 0));
    if (i->recipe && i->recipe->checkpoint.every_epochs >= 0) /* a program may save nothing */
        LS_TRY(check_shared(i, g));
    if (rank == 0)
        return LS_OK;
    ls_rundir *d = *out = create(i);
    if (!d)
        return ls_fail(LS_E_MEMORY, "run %s: out of memory", i->name);
    d->rank = rank;
    d->before = found.before;
    d->attempt = found.attempt;
    d->metrics = found.metrics;
    return open_log(d);
}

static ls_status open_between(ls_rundir **out, const identity *i)
{
    LS_TRY(open_run(out, i));
    ls_status s = recall(*out);
    if (s != LS_OK) {
        destroy(out);
        return s;
    }
    (*out)->own->last_saved = ls_now(); /* so that closing it always writes result.json */
    /* the failed attempt has written nothing */
    (*out)->attempt += (*out)->before == LS_RUN_NEW || (*out)->before == LS_RUN_RESTARTING;
    return LS_OK;
}

ls_status ls_rundir_open_between(ls_rundir **out, const ls_recipe *r, bool allow_change)
{
    const identity i = of_recipe(r, allow_change);
    return open_between(out, &i);
}

ls_status ls_rundir_open_own_between(ls_rundir **out, const char *run_dir)
{
    ls_run_info info;
    *out = NULL;
    LS_TRY(ls_run_info_read(&info, run_dir));
    ls_run_info_release(&info); /* the name of its metric stays */
    char *storage = ls_sys_strdup(run_dir), *slash = storage ? strrchr(storage, '/') : NULL;
    LS_TRY(ls_sys_have(storage));
    if (slash)
        *slash = 0;
    const identity i = { .storage = slash ? storage : ".",
                         .name = slash ? slash + 1 : storage,
                         .best_metric = *info.best_metric ? info.best_metric : NULL,
                         .file = LS_RUN_CONFIG };
    const ls_status s = open_between(out, &i);
    free(storage);
    return s;
}

ls_status ls_rundir_open_ranks(ls_rundir **out, const ls_recipe *r, ls_group *g, bool allow_change)
{
    const identity i = of_recipe(r, allow_change);
    return open_ranks(out, &i, g);
}

ls_status ls_rundir_open_own(ls_rundir **out, const ls_own_run *r, ls_group *g)
{
    const identity i = of_program(r);
    return open_ranks(out, &i, g);
}

ls_status ls_rundir_close(ls_rundir **d, ls_run_state state, const char *error)
{
    if (!*d)
        return LS_OK;
    bool untouched = (*d)->before != LS_RUN_NEW &&
                     (*d)->own->last_saved == 0; /* it existed, and nothing was done in it */
    ls_status s = state == LS_RUN_NEW || untouched ? LS_OK : ls_rundir_save_result(*d, state, error);
    destroy(d);
    return s;
}

void ls_rundir_log(ls_rundir *d, ls_level level, const char *message)
{
    static const char *const NAMES[] = { "error", "warning", "info", "debug", "trace" };
    struct timespec now;
    struct tm parts;
    char when[32], line[4500];
    ls_str shown = { 0 };
    ls_str_add_shown(&shown, message, true);
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &parts);
    int n = snprintf(line, sizeof line, "%s.%03ldZ %-7s %.4400s\n", when, now.tv_nsec / 1000000, NAMES[level],
                     ls_str_text(&shown));
    ls_str_release(&shown);
    /* One write: the line is in the file even if the process is killed now. A failure is ignored, because the
     * message was printed, too. */
    (void)!ls_sys_write(d->own->log, line, (size_t)n);
}
