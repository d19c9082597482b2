/* runs.c - reads result.json of runs, and prints the table of `lockstep runs`. */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include "base/file.h"
#include "base/oserror.h"
#include "base/sys.h"
#include "rouge_mean.h"
#include "run_owner.h"
#include "rundir_own.h"
#include "table.h"

bool ls_run_is(const char *dir) { return ls_file_in(dir, LS_RUN_RECIPE) || ls_file_in(dir, LS_RUN_CONFIG); }

static double number(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static int64_t integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static ls_status read_info(ls_run_info *out, const json_t *tree, const char *path)
{
    const char *state = json_string_value(json_object_get(tree, "state"));
    int known = -1;
    for (int i = LS_RUN_STARTING; i < LS_RUN_DIED; i++)
        if (state && !strcmp(state, ls_run_state_name((ls_run_state)i)))
            known = i;
    if (known < 0 || !json_is_integer(json_object_get(tree, "time")))
        return ls_fail(LS_E_FORMAT, "%s: not the result of a run (no state, or no time)", path);
    out->state = (ls_run_state)known;
    out->seconds_ago = difftime(time(NULL), (time_t)integer(tree, "time"));
    const json_t *eval = json_object_get(tree, "eval"), *best = json_object_get(tree, "best");
    out->metrics = (ls_run_metrics){ .step = integer(tree, "step"),
                                     .epoch = integer(tree, "epoch"),
                                     .loss = number(tree, "loss"),
                                     .lr = number(tree, "lr"),
                                     .eval = ls_evaluation_read(eval, ""),
                                     .eval_rouge = ls_rouge_read(eval, ""),
                                     .eval_step = integer(eval, "step"),
                                     .best_value = number(best, "value"),
                                     .best_step = integer(best, "step"),
                                     .best_epoch = integer(best, "epoch") };
    const char *metric = json_string_value(json_object_get(best, "metric"));
    snprintf(out->best_metric, sizeof out->best_metric, "%s", metric ? metric : "");
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(tree, "metrics"), name, value) if (json_is_number(value))
        ls_evaluation_set(&out->reported, name, json_number_value(value));
    out->attempt = integer(tree, "attempt");
    const char *error = json_string_value(json_object_get(tree, "error"));
    snprintf(out->error, sizeof out->error, "%s", error ? error : "");
    out->builtin_data = json_is_true(json_object_get(tree, "builtin_data"));
    out->restarts = (int)json_array_size(json_object_get(tree, "restarts"));
    const json_t *list = json_object_get(tree, "checkpoints");
    const char *last = json_string_value(
        json_object_get(json_array_get(list, json_array_size(list) - 1), "path"));
    snprintf(out->checkpoint, sizeof out->checkpoint, "%s", last ? last : "");
    return LS_OK;
}

/* Also returns the text of the file; malloc'ed. */
static ls_status read_file(ls_run_info *out, char **text, const char *path)
{
    size_t size;
    json_t *tree = NULL;
    LS_TRY(ls_file_read(text, &size, path));
    ls_status s = ls_json_parse(&tree, *text, size, path);
    if (s == LS_OK)
        s = read_info(out, tree, path);
    json_decref(tree);
    return s;
}

/* Between two attempts there is a moment in which the parent has released the lock and the ranks do not have
 * it yet. */
static bool is_alive(const ls_run_info *i, const char *run_dir)
{
    return ls_run_is_held(run_dir) || (i->state == LS_RUN_RESTARTING && ls_run_owner_lives(run_dir));
}

/* A run may change its state between the look at its state and the look at its lock. It has died only if the
 * state is the same after both. */
ls_status ls_run_info_read(ls_run_info *out, const char *run_dir)
{
    char *path = ls_path_join(run_dir, "result.json"), *text = NULL, *before = NULL;
    bool same, credible;
    ls_status s;
    *out = (ls_run_info){ 0 };
    const char *slash = strrchr(run_dir, '/');
    snprintf(out->name, sizeof out->name, "%s", slash && slash[1] ? slash + 1 : run_dir);
    do {
        free(before);
        before = text;
        text = NULL;
        LS_TRY_TO(s, read_file(out, &text, path), done);
        same = before && !strcmp(before, text);
        credible = !ls_run_state_lives(out->state) || is_alive(out, run_dir);
    } while (!credible && !same);
    if (!credible)
        out->state = LS_RUN_DIED;
done:
    free(before);
    free(text);
    free(path);
    return s;
}

static const char *cell(char buffer[32], const char *format, double x)
{
    *buffer = 0;
    if (!isnan(x))
        snprintf(buffer, 32, format, x); /* the callers' formats are literals */
    return buffer;
}

static const ls_column COLUMNS[] = { { "run", true, 0 },        { "state", true, 0 },
                                     { "step", false, 0 },      { "epoch", false, 3 },
                                     { "loss", false, 1 },      { "eval loss", false, 4 },
                                     { "accuracy", false, 0 },  { "restarts", false, 5 },
                                     { "checkpoint", true, 6 }, { "updated", false, 2 } };

static void add_row(ls_table *t, const ls_run_info *i)
{
    char step[32], epoch[32], loss[32], eval[32], accuracy[32], duration[32], ago[40], restarts[32];
    const char *slash = strrchr(i->checkpoint, '/');
    snprintf(ago, sizeof ago, i->seconds_ago < 1 ? "just now" : "%s ago",
             ls_format_duration(duration, i->seconds_ago));
    snprintf(step, sizeof step, "%lld", (long long)i->metrics.step);
    snprintf(epoch, sizeof epoch, "%lld", (long long)i->metrics.epoch);
    snprintf(restarts, sizeof restarts, i->restarts ? "%d" : "", i->restarts);
    ls_table_row(t,
                 (const char *const[]){
                     i->name, ls_run_state_name(i->state), step, epoch, cell(loss, "%.4f", i->metrics.loss),
                     cell(eval, "%.4f", ls_evaluation_get(&i->metrics.eval, "loss")),
                     cell(accuracy, "%.2f%%", 100 * ls_evaluation_get(&i->metrics.eval, "accuracy")),
                     restarts, slash ? slash + 1 : i->checkpoint, ago },
                 *i->error                              ? i->error
                 : i->builtin_data && i->metrics.eval.n ? LS_BUILTIN_NOTE
                                                        : NULL);
}

static void add_broken(ls_table *t, const char *name, const char *why)
{
    ls_table_row(t, (const char *const[]){ name, "broken", "", "", "", "", "", "", "", "" }, why);
}

static void json_row(ls_json *j, const ls_run_info *i)
{
    ls_json_text(j, "state", ls_run_state_name(i->state));
    ls_json_int(j, "step", i->metrics.step);
    ls_json_int(j, "epoch", i->metrics.epoch);
    ls_json_f32(j, "loss", (float)i->metrics.loss);
    ls_json_f64(j, "eval_loss", ls_evaluation_get(&i->metrics.eval, "loss"));
    ls_json_f64(j, "eval_accuracy", ls_evaluation_get(&i->metrics.eval, "accuracy"));
    ls_evaluation_write(j, "eval_", &i->metrics.eval, false);
    ls_json_bool(j, "builtin_data", i->builtin_data);
    ls_json_int(j, "restarts", i->restarts);
    ls_json_f64(j, "seconds_ago", i->seconds_ago);
    ls_json_text(j, "error", *i->error ? i->error : NULL);
    ls_json_text(j, "checkpoint", *i->checkpoint ? i->checkpoint : NULL);
}

/* Adds the row of a run. A damaged run gets a row with its error. */
static void show(ls_table *t, ls_json *j, const char *storage, const char *name)
{
    ls_run_info info;
    char *dir = ls_path_join(storage, name);
    if (ls_run_is(dir)) {
        const bool fine = ls_run_info_read(&info, dir) == LS_OK;
        const char *why = fine ? NULL : ls_error_message();
        ls_json_object(j, NULL);
        ls_json_text(j, "name", name);
        if (fine)
            json_row(j, &info);
        else
            ls_json_text(j, "broken", why);
        ls_json_close_object(j);
        if (fine)
            add_row(t, &info);
        else
            add_broken(t, name, why);
    }
    free(dir);
}

ls_status ls_runs_print(FILE *out, const char *storage, bool json, int width)
{
    struct dirent **entries;
    int n = scandir(storage, &entries, NULL, alphasort);
    if (n < 0 && errno != ENOENT)
        return ls_fail_os(storage, "read", errno);
    if (n < 0 && strcmp(storage, "runs"))
        return ls_fail(LS_E_USAGE, "%s: no such folder of runs", storage);
    ls_table t = { .n_columns = sizeof COLUMNS / sizeof COLUMNS[0], .columns = COLUMNS };
    ls_json j = { 0 };
    ls_json_array(&j, NULL);
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.')
            show(&t, &j, storage, entries[i]->d_name);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
    ls_json_close_array(&j);
    ls_status s = json ? ls_str_status(&j.out) : LS_OK;
    if (json && s == LS_OK)
        fprintf(out, "%s\n", ls_str_text(&j.out));
    else if (!json && (t.n_rows || t.no_memory))
        s = ls_table_print(out, &t, width);
    else if (!json)
        fprintf(out, "no runs in %s\n", storage);
    ls_str_release(&j.out);
    ls_table_release(&t);
    return s;
}

/* When a run last wrote, by the times of its files; 0: it is no run. */
static double last_write(const char *dir)
{
    static const char *const FILES[] = { LS_RUN_RECIPE, LS_RUN_CONFIG, "result.json", "metrics.jsonl" };
    double latest = 0;
    for (size_t i = 0; ls_run_is(dir) && i < sizeof FILES / sizeof FILES[0]; i++) {
        char *path = ls_path_join(dir, FILES[i]);
        struct stat info;
        if (path && stat(path, &info) == 0)
            latest = fmax(latest, (double)info.st_mtim.tv_sec + 1e-9 * (double)info.st_mtim.tv_nsec);
        free(path);
    }
    return latest;
}

ls_status ls_runs_latest(char **out, const char *storage)
{
    DIR *dir = opendir(storage);
    double latest = 0;
    ls_status s = LS_OK;
    *out = NULL;
    if (!dir)
        return errno == ENOENT || errno == ENOTDIR ? LS_OK : ls_fail_os(storage, "read", errno);
    for (const struct dirent *e; s == LS_OK && (e = readdir(dir));) {
        if (*e->d_name == '.')
            continue;
        char *path = ls_path_join(storage, e->d_name);
        const double at = path ? last_write(path) : 0;
        s = ls_sys_have(path);
        if (at > latest) {
            free(*out);
            *out = path;
            latest = at;
        } else {
            free(path);
        }
    }
    closedir(dir);
    return s;
}
