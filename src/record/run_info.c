/* run_info.c - reads result.json of a run. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/file.h"
#include "run_owner.h"
#include "rundir_own.h"

bool ls_run_is(const char *dir) { return ls_file_in(dir, LS_RUN_RECIPE) || ls_file_in(dir, LS_RUN_CONFIG); }

/* The rest of a long message is left out behind a word; result.json has all of it. */
static void take_error(ls_run_info *out, const char *error)
{
    enum { ROOM = sizeof out->error };
    snprintf(out->error, ROOM, "%s", error);
    if (strlen(error) < ROOM)
        return;
    out->error[ROOM - 5] = 0;
    char *cut = strrchr(out->error, ' ');
    snprintf(cut ? cut : out->error, 5, " ...");
}

static double run_info_number(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    return json_is_number(v) ? json_number_value(v) : NAN;
}

static int64_t integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* What a program reported has these names already; then `loss` and the evaluation say the same again. */
static void name_metrics(ls_run_info *i)
{
    char name[LS_METRIC_NAME + 8];
    i->named = ls_metric_list_copy(&i->reported);
    ls_metric_list_set(&i->named, "loss", i->metrics.loss);
    for (int k = 0; k < i->eval.n; k++) {
        snprintf(name, sizeof name, "eval_%s", i->eval.at[k].name);
        ls_metric_list_set(&i->named, name, i->eval.at[k].value);
    }
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
    const json_t *eval = json_object_get(tree, "eval"), *best = json_object_get(tree, "best"),
                 *stop = json_object_get(tree, "early_stopping");
    out->metrics = (ls_run_metrics){ .step = integer(tree, "step"),
                                     .epoch = integer(tree, "epoch"),
                                     .loss = run_info_number(tree, "loss"),
                                     .lr = run_info_number(tree, "lr"),
                                     .eval_step = integer(eval, "step"),
                                     .eval_texts = integer(eval, "texts"),
                                     .best_value = run_info_number(best, "value"),
                                     .best_step = integer(best, "step"),
                                     .best_epoch = integer(best, "epoch"),
                                     .stop_value = run_info_number(stop, "value"),
                                     .stop_waited = integer(stop, "waited") };
    const char *metric = json_string_value(json_object_get(best, "metric"));
    snprintf(out->best_metric, sizeof out->best_metric, "%s", metric ? metric : "");
    out->eval = ls_metric_list_read(eval, "");
    ls_metric_list_remove(&out->eval, "step");
    ls_metric_list_remove(&out->eval, "texts");
    out->reported = ls_metric_list_read(json_object_get(tree, "metrics"), "");
    out->attempt = integer(tree, "attempt");
    const char *error = json_string_value(json_object_get(tree, "error"));
    take_error(out, error ? error : "");
    out->builtin_data = json_is_true(json_object_get(tree, "builtin_data"));
    out->restarts = (int)json_array_size(json_object_get(tree, "restarts"));
    const json_t *list = json_object_get(tree, "checkpoints");
    const char *last = json_string_value(
        json_object_get(json_array_get(list, json_array_size(list) - 1), "path"));
    snprintf(out->checkpoint, sizeof out->checkpoint, "%s", last ? last : "");
    name_metrics(out);
    LS_TRY(ls_metric_list_status(&out->eval));
    LS_TRY(ls_metric_list_status(&out->named));
    return ls_metric_list_status(&out->reported);
}

/* Also returns the text of the file; malloc'ed. */
static ls_status run_info_read_file(ls_run_info *out, char **text, const char *path)
{
    size_t size;
    json_t *tree = NULL;
    LS_TRY(ls_file_read(text, &size, path));
    ls_status s = ls_json_parse(&tree, *text, size, path);
    ls_run_info_release(out);
    if (s == LS_OK)
        s = read_info(out, tree, path);
    json_decref(tree);
    return s;
}

void ls_run_info_release(ls_run_info *info)
{
    ls_metric_list_release(&info->eval);
    ls_metric_list_release(&info->reported);
    ls_metric_list_release(&info->named);
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
        LS_TRY_TO(s, run_info_read_file(out, &text, path), done);
        same = before && !strcmp(before, text);
        credible = !ls_run_state_lives(out->state) || is_alive(out, run_dir);
    } while (!credible && !same);
    if (!credible)
        out->state = LS_RUN_DIED;
done:
    if (s != LS_OK)
        ls_run_info_release(out);
    free(before);
    free(text);
    free(path);
    return s;
}
