/* result.c - writes result.json, the state of a run for people, scripts and `lockstep runs`. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/sys.h"
#include "rundir_own.h"

ls_metric_list ls_run_metrics_list(const ls_run_metrics *m, const ls_metric_list *eval, bool lr)
{
    ls_metric_list all = { .no_memory = eval->no_memory };
    char name[LS_METRIC_NAME + 8];
    if (!isnan(m->loss))
        ls_metric_list_add(&all, "loss", m->loss);
    if (lr && !isnan(m->lr))
        ls_metric_list_add(&all, "lr", m->lr);
    for (int i = 0; i < eval->n; i++) {
        snprintf(name, sizeof name, "eval_%s", eval->at[i].name);
        if (!isnan(eval->at[i].value))
            ls_metric_list_add(&all, name, eval->at[i].value);
    }
    return all;
}

/* The metrics at a checkpoint: those that the program reported, or those of a recipe's loop. */
static ls_metric_list current(const ls_rundir *d)
{
    return d->own->reported.n > 0 ? ls_metric_list_copy(&d->own->reported)
                                  : ls_run_metrics_list(&d->metrics, &d->eval, false);
}

/* NULL: no memory. */
static ls_saved_checkpoint *place_for(struct ls_rundir_private *own, const char *path)
{
    for (int i = 0; i < own->n_checkpoints; i++)
        if (!strcmp(own->checkpoints[i].path, path))
            return &own->checkpoints[i];
    char *copy = ls_sys_strdup(path);
    ls_saved_checkpoint *all = copy ? ls_sys_grow(own->checkpoints, own->n_checkpoints, &own->cap_checkpoints,
                                                  sizeof *all)
                                    : NULL;
    if (!all) {
        free(copy);
        own->no_memory = true;
        return NULL;
    }
    own->checkpoints = all;
    ls_saved_checkpoint *c = &all[own->n_checkpoints++];
    *c = (ls_saved_checkpoint){ .path = copy };
    return c;
}

void ls_rundir_list_checkpoint(ls_rundir *d, const char *path, int64_t step, int64_t epoch,
                               ls_metric_list metrics, bool best)
{
    ls_saved_checkpoint *c = place_for(d->own, path);
    d->own->no_memory = d->own->no_memory || metrics.no_memory;
    if (!c) {
        ls_metric_list_release(&metrics);
        return;
    }
    c->step = step;
    c->epoch = epoch;
    ls_metric_list_release(&c->metrics);
    c->metrics = metrics;
    if (best)
        ls_rundir_best_checkpoint(d, path);
}

void ls_rundir_best_checkpoint(ls_rundir *d, const char *path)
{
    free(d->own->best_checkpoint);
    d->own->best_checkpoint = ls_sys_strdup(path);
    d->own->no_memory = d->own->no_memory || !d->own->best_checkpoint;
}

bool ls_rundir_is_best(ls_rundir *d, double value, bool highest, int64_t step, int64_t epoch)
{
    ls_run_metrics *m = &d->metrics;
    if (isnan(value) ||
        (!isnan(m->best_value) && (highest ? value <= m->best_value : value >= m->best_value)))
        return false;
    m->best_value = value;
    m->best_step = step;
    m->best_epoch = epoch;
    return true;
}

void ls_rundir_forget_evaluations(ls_rundir *d)
{
    struct ls_rundir_private *own = d->own;
    ls_metric_list_release(&d->eval);
    d->metrics.best_value = d->metrics.stop_value = d->metrics.plateau_value = NAN;
    d->metrics.plateau_waited = d->metrics.stop_waited = d->metrics.eval_texts = 0;
    free(own->best_checkpoint);
    own->best_checkpoint = NULL;
    for (int i = 0; i < own->n_checkpoints; i++) {
        ls_metric_list *m = &own->checkpoints[i].metrics;
        for (int k = m->n - 1; k >= 0; k--)
            if (!strncmp(m->at[k].name, "eval_", 5))
                ls_metric_list_remove(m, m->at[k].name);
    }
}

void ls_rundir_add_checkpoint(ls_rundir *d, const char *path, int64_t step, bool best)
{
    ls_rundir_list_checkpoint(d, path, step, d->metrics.epoch, current(d), best);
}

void ls_rundir_set_reported(ls_rundir *d, int64_t step, int64_t epoch, const ls_metric_list *metrics)
{
    ls_metric_list copy = ls_metric_list_copy(metrics);
    ls_run_metrics *m = &d->metrics;
    m->step = m->eval_step = step;
    m->epoch = epoch;
    m->loss = ls_metric_list_find(metrics, "loss");
    m->lr = ls_metric_list_find(metrics, "lr");
    ls_metric_list_release(&d->eval);
    if (!isnan(ls_metric_list_find(metrics, "eval_loss"))) {
        ls_metric_list_add(&d->eval, "loss", ls_metric_list_find(metrics, "eval_loss"));
        ls_metric_list_add(&d->eval, "accuracy", ls_metric_list_find(metrics, "eval_accuracy"));
    }
    d->own->no_memory = d->own->no_memory || copy.no_memory || d->eval.no_memory;
    ls_metric_list_move(&d->own->reported, &copy);
}

/* Checkpoints that were removed later are not listed. */
static void write_checkpoints(ls_json *j, const ls_rundir *d)
{
    const struct ls_rundir_private *own = d->own;
    ls_json_array(j, "checkpoints");
    for (int i = 0; i < own->n_checkpoints; i++) {
        char *path = ls_path_join(d->path, own->checkpoints[i].path);
        ls_str_add(&j->out, path ? "" : NULL);
        if (ls_dir_exists(path)) {
            ls_json_object(j, NULL);
            ls_json_text(j, "path", own->checkpoints[i].path);
            ls_json_int(j, "step", own->checkpoints[i].step);
            ls_json_int(j, "epoch", own->checkpoints[i].epoch);
            ls_json_object(j, "metrics");
            ls_metric_list_write(j, "", &own->checkpoints[i].metrics);
            ls_json_close_object(j);
            ls_json_close_object(j);
        }
        free(path);
    }
    ls_json_close_array(j);
    ls_json_text(j, "best_checkpoint", own->best_checkpoint);
}

static void write_list(ls_json *j, const char *key, const json_t *list)
{
    char *text = list ? json_dumps(list, JSON_COMPACT) : NULL;
    ls_json_raw(j, key, text ? text : "[]");
    free(text);
}

static json_t *build_entry(const ls_run_build *b, int64_t after)
{
    char code[17];
    snprintf(code, sizeof code, "%016llx", (unsigned long long)b->code);
    json_t *j = json_pack("{sI ss ss ss ss}", "after", (json_int_t)after, "version", LS_VERSION, "code", code,
                          "device", b->device, "isa", b->isa);
    if (j && *b->layout &&
        (json_object_set_new(j, "layout", json_string(b->layout)) ||
         json_object_set_new(j, "ranks", json_integer(b->ranks)))) {
        json_decref(j);
        return NULL;
    }
    return j;
}

/* Whether both have the same values, but for the step. */
static bool is_same_build(const json_t *a, const json_t *b)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)a, key,
                        value) if (strcmp(key, "after") != 0 &&
                                   !json_equal(value, json_object_get(b, key))) return false;
    return json_object_size(a) == json_object_size(b);
}

ls_status ls_rundir_trained_by(ls_rundir *d, const ls_run_build *b, int64_t after)
{
    if (d->rank)
        return LS_OK;
    if (!d->own->builds)
        d->own->builds = json_array();
    json_t *list = d->own->builds, *entry = build_entry(b, after);
    size_t n; /* steps behind `after` are trained again */
    while ((n = json_array_size(list)) &&
           json_integer_value(json_object_get(json_array_get(list, n - 1), "after")) >= after)
        json_array_remove(list, n - 1);
    if (entry && n && is_same_build(json_array_get(list, n - 1), entry)) {
        json_decref(entry);
        return LS_OK;
    }
    return json_array_append_new(list, entry) ? ls_fail(LS_E_MEMORY, "the list of builds takes no more")
                                              : LS_OK;
}

static void write_metrics(ls_json *j, const ls_rundir *d)
{
    const ls_run_metrics *m = &d->metrics;
    ls_json_int(j, "step", m->step);
    ls_json_int(j, "epoch", m->epoch);
    ls_json_f32(j, "loss", (float)m->loss);
    if (m->skipped)
        ls_json_bool(j, "skipped", true);
    ls_json_f64(j, "lr", m->lr);
    if (m->nonfinite_steps)
        ls_json_int(j, "nonfinite_steps", m->nonfinite_steps);
    ls_metric_list_object(j, "metrics", &d->own->reported);
    if (d->eval.n) {
        ls_json_object(j, "eval");
        ls_json_int(j, "step", m->eval_step);
        ls_metric_list_write(j, "", &d->eval);
        if (isnan(ls_metric_list_find(&d->eval, "loss")))
            ls_json_bool(j, "skipped", true);
        if (m->eval_texts)
            ls_json_int(j, "texts", m->eval_texts);
        ls_json_close_object(j);
    }
    if (!isnan(m->best_value)) {
        ls_json_object(j, "best");
        ls_json_text(j, "metric", d->own->best_metric);
        ls_json_f64(j, "value", m->best_value);
        ls_json_int(j, "step", m->best_step);
        ls_json_int(j, "epoch", m->best_epoch);
        ls_json_close_object(j);
    }
    if (isnan(m->best_value) && *d->no_best)
        ls_json_text(j, "no_best", d->no_best);
    if (!isnan(m->stop_value) || m->stop_waited) {
        ls_json_object(j, "early_stopping");
        ls_json_f64(j, "value", m->stop_value);
        ls_json_int(j, "waited", m->stop_waited);
        ls_json_close_object(j);
    }
}

static void write_timings(ls_json *j, const ls_rundir *d)
{
    ls_json_object(j, "timings");
    ls_json_object(j, "startup");
    for (int i = 0; i < d->startup.n; i++)
        ls_json_f64(j, d->startup.parts[i].name, d->startup.parts[i].seconds);
    ls_json_f64(j, "total", d->startup.total);
    ls_json_close_object(j);
    ls_json_f64(j, "step_median", d->step_median);
    ls_json_f64(j, "train", d->train_seconds);
    ls_json_f64(j, "eval", d->eval_seconds);
    ls_json_close_object(j);
    ls_json_int(j, "peak_rss", d->peak_rss);
}

ls_status ls_rundir_save_result(ls_rundir *d, ls_run_state state, const char *error)
{
    if (d->rank)
        return LS_OK;
    LS_CHECK(ls_run_state_may(d->state, state), "a run cannot go from %s to %s", ls_run_state_name(d->state),
             ls_run_state_name(state));
    ls_json j = { 0 };
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    ls_json_object(&j, NULL);
    ls_json_text(&j, "name", d->own->name);
    ls_json_text(&j, "state", ls_run_state_name(state));
    ls_json_int(&j, "attempt", d->attempt);
    ls_json_int(&j, "time", now.tv_sec);
    ls_json_text(&j, "version", LS_VERSION);
    write_list(&j, "builds", d->own->builds);
    write_metrics(&j, d);
    write_checkpoints(&j, d);
    write_list(&j, "restarts", d->own->restarts);
    ls_json_text(&j, "error", error);
    ls_json_text(&j, "ended", *d->ended ? d->ended : NULL);
    ls_json_text(&j, "device", *d->device ? d->device : NULL);
    ls_json_text(&j, "hardware", *d->hardware ? d->hardware : NULL);
    ls_json_text(&j, "data", d->data_note);
    ls_json_bool(&j, "builtin_data", d->builtin_data);
    write_timings(&j, d);
    ls_json_close_object(&j);
    ls_str_add(&j.out, "\n");
    char *path = ls_path_join(d->path, "result.json");
    j.out.no_memory = j.out.no_memory || d->own->no_memory;
    d->own->no_memory = false;
    ls_status s = state == LS_RUN_STARTING || state == LS_RUN_RUNNING || state == LS_RUN_SAVING
                      ? ls_file_write_soon(path, &j.out)
                      : ls_file_write_text(path, &j.out);
    if (s == LS_OK) { /* else the file still has the old state */
        d->state = state;
        d->own->last_saved = ls_now();
    }
    free(path);
    ls_str_release(&j.out);
    return s;
}
