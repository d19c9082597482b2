/* run_result.c - reads the result of a run from its directory. Any process may do so. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/argument.h"
#include "base/file.h"
#include "base/sys.h"
#include "lockstep/run.h"
#include "base/metric_list.h"
#include "record/rundir.h"
#include "record/step_folder.h"

typedef struct owned {
    ls_result result;
    ls_arena arena;
} owned; /* `result` is first, because the caller has a pointer to it */

/* Releases the list. */
static const ls_metric *keep_metrics(ls_arena *a, ls_metric_list l, int64_t *n)
{
    ls_metric *kept = LS_ARENA_ARRAY(a, ls_metric, l.n);
    a->no_memory = a->no_memory || l.no_memory;
    *n = kept ? l.n : 0;
    for (int i = 0; i < *n; i++)
        kept[i] = (ls_metric){ ls_arena_strdup(a, l.at[i].name), l.at[i].value };
    ls_metric_list_release(&l);
    return kept;
}

static char *path_in(ls_arena *a, const char *directory, const char *name)
{
    char *joined = ls_path_join(directory, name), *path = ls_arena_strdup(a, joined);
    free(joined);
    return path;
}

static void read_checkpoints(owned *o, const json_t *tree)
{
    ls_result *r = &o->result;
    const json_t *list = json_object_get(tree, "checkpoints");
    const char *best = json_string_value(json_object_get(tree, "best_checkpoint"));
    ls_run_checkpoint *all = LS_ARENA_ARRAY(&o->arena, ls_run_checkpoint, json_array_size(list));
    for (size_t i = 0; all && i < json_array_size(list); i++) {
        const json_t *j = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(j, "path"));
        ls_run_checkpoint *c = &all[r->n_checkpoints];
        c->path = name ? path_in(&o->arena, r->path, name) : "";
        if (!ls_dir_exists(c->path)) /* it was removed later */
            continue;
        c->step = json_integer_value(json_object_get(j, "step"));
        c->epoch = json_integer_value(json_object_get(j, "epoch"));
        c->metrics = keep_metrics(&o->arena, ls_metric_list_read(json_object_get(j, "metrics"), ""),
                                  &c->n_metrics);
        r->n_checkpoints++;
        if (ls_step_folder_parse(strrchr(c->path, '/') + 1) >=
            0) /* checkpoints with names of their own do not count */
            r->latest = c;
        if (best && !strcmp(best, name))
            r->best = c;
    }
    r->checkpoints = all;
}

static ls_status read_result(owned *o, const char *file)
{
    ls_result *r = &o->result;
    ls_run_info info;
    char *text = NULL;
    size_t size;
    json_t *tree = NULL;
    ls_status s;
    LS_TRY(ls_run_info_read(&info, r->path));
    LS_TRY_TO(s, ls_file_read(&text, &size, file), done);
    LS_TRY_TO(s, ls_json_parse(&tree, text, size, file), done);
    const json_t *reported = json_object_get(tree, "metrics");
    const char *error = json_string_value(json_object_get(tree, "error"));
    r->name = ls_arena_strdup(&o->arena, info.name);
    r->state = ls_run_state_name(info.state);
    r->error = error ? ls_arena_strdup(&o->arena, error) : NULL;
    r->attempt = json_integer_value(json_object_get(tree, "attempt"));
    r->step = info.metrics.step;
    r->epoch = info.metrics.epoch;
    r->metrics = keep_metrics(&o->arena,
                              reported ? ls_metric_list_read(reported, "")
                                       : ls_run_metrics_list(&info.metrics, &info.eval, true),
                              &r->n_metrics);
    read_checkpoints(o, tree);
    s = ls_arena_status(&o->arena);
done:
    free(text);
    json_decref(tree);
    ls_run_info_release(&info);
    return s;
}

ls_status ls_result_read(ls_result **out, const char *run_directory)
{
    LS_ARG(out);
    LS_ARG(run_directory);
    ls_arena a;
    *out = NULL;
    ls_arena_init(&a);
    owned *o = LS_ARENA_NEW(&a, owned);
    LS_TRY(ls_sys_have(o));
    size_t n = strlen(run_directory);
    while (n > 1 && run_directory[n - 1] == '/')
        n--;
    o->result.path = ls_arena_printf(&a, "%.*s", (int)n, run_directory);
    o->arena = a; /* the arena now contains its own record: `a` is not used any more */
    ls_status s = read_result(o, path_in(&o->arena, o->result.path, "result.json"));
    *out = &o->result;
    if (s != LS_OK)
        ls_result_free(out);
    return s;
}

const ls_run_checkpoint *ls_result_best(const ls_result *r, const char *metric, bool highest)
{
    LS_ARG_OR(r, NULL);
    LS_ARG_OR(metric, NULL);
    const ls_run_checkpoint *best = NULL;
    double value = NAN;
    for (int64_t i = 0; i < r->n_checkpoints; i++) {
        const ls_run_checkpoint *c = &r->checkpoints[i];
        const double x = ls_metric_list_find(
            &(ls_metric_list){ .n = (int)c->n_metrics, .at = (ls_metric *)c->metrics }, metric);
        if (!isnan(x) && (!best || (highest ? x > value : x < value))) {
            best = c;
            value = x;
        }
    }
    return best;
}

void ls_result_free(ls_result **r)
{
    if (!r)
        return;
    if (!*r)
        return;
    ls_arena a = ((owned *)*r)->arena;
    ls_arena_release(&a);
    *r = NULL;
}
