/* metrics.c - see metrics.h. */
#include "metrics.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "metrics_csv.h"
#include "rundir_own.h"
#include "tensorboard.h"

#define SAVE_EVERY 10.0 /* seconds between writes of result.json during training */

static ls_json *cleared(ls_rundir *d)
{
    ls_json *j = &d->own->row;
    ls_str_clear(&j->out);
    j->depth = 0;
    return j;
}

static ls_json *metrics_begin(ls_rundir *d, const char *kind)
{
    ls_json *j = cleared(d);
    ls_json_object(j, NULL);
    ls_json_text(j, "kind", kind);
    return j;
}

/* Ends the row and appends it to the file. */
static void close_row(ls_json *j, int64_t attempt)
{
    ls_json_int(j, "attempt", attempt);
    ls_json_close_object(j);
}

static ls_status metrics_append(ls_rundir *d)
{
    ls_json *j = &d->own->row;
    ls_str_add(&j->out, "\n");
    ls_status s = ls_str_status(&j->out);
    if (s == LS_OK)
        return ls_rundir_append(d, d->own->metrics, "metrics.jsonl", j->out.data, j->out.len);
    ls_str_release(&j->out); /* the next row may find memory */
    return s;
}

void ls_step_row_write(ls_json *j, const ls_step_row *row, int64_t attempt)
{
    ls_json_object(j, NULL);
    ls_json_text(j, "kind", "step");
    ls_json_int(j, "step", row->step);
    ls_json_int(j, "epoch", row->epoch);
    ls_json_f32(j, "loss", row->loss);
    ls_json_f64(j, "lr", row->lr);
    ls_json_int(j, "samples", row->samples);
    if (row->targets)
        ls_json_int(j, "targets", row->targets);
    ls_json_f64(j, "seconds", ls_row_seconds(row->seconds));
    if (row->grad_norm >= 0)
        ls_json_f64(j, "grad_norm", row->grad_norm);
    if (row->loss_scale > 0)
        ls_json_f64(j, "loss_scale", row->loss_scale);
    if (row->loss_scale > 0 || row->skipped)
        ls_json_bool(j, "skipped", row->skipped);
    if (row->nonfinite)
        ls_json_text(j, "nonfinite", row->nonfinite);
    close_row(j, attempt);
}

static ls_status show_step(ls_rundir *d, const ls_step_row *row)
{
    const ls_scalar speed = row->targets ? (ls_scalar){ "train/tokens_per_second",
                                                        (double)row->targets / row->seconds }
                                         : (ls_scalar){ "train/images_per_second",
                                                        (double)row->samples / row->seconds };
    ls_scalar scalars[5] = { { "train/loss", (double)row->loss }, { "train/lr", row->lr }, speed };
    int n = 3;
    if (row->grad_norm >= 0)
        scalars[n++] = (ls_scalar){ "train/grad_norm", row->grad_norm };
    if (row->loss_scale > 0)
        scalars[n++] = (ls_scalar){ "train/loss_scale", row->loss_scale };
    return ls_tensorboard_add(d, row->step, n, scalars);
}

ls_status ls_metrics_step(ls_rundir *d, const ls_step_row *row)
{
    ls_step_row_write(cleared(d), row, d->attempt);
    LS_TRY(metrics_append(d));
    LS_TRY(show_step(d, row));
    d->metrics.step = row->step;
    d->metrics.epoch = row->epoch;
    d->metrics.loss = (double)row->loss;
    d->metrics.skipped = row->skipped;
    d->metrics.lr = row->lr;
    if (ls_now() - d->own->last_saved < SAVE_EVERY)
        return LS_OK;
    return ls_rundir_save_result(d, d->state, NULL);
}

/* An event has room for a few metrics: a new one begins when it is full. */
static ls_status show_eval(ls_rundir *d, const ls_eval_row *row)
{
    enum { TAG = LS_METRIC_NAME + 8, EACH = 2 };
    char tags[EACH][TAG];
    ls_scalar scalars[EACH];
    int n = 0;
    for (int i = 0; i < row->eval.n; i++) {
        snprintf(tags[n], TAG, "eval/%s", row->eval.at[i].name);
        scalars[n] = (ls_scalar){ tags[n], row->eval.at[i].value };
        if (++n < EACH && i + 1 < row->eval.n)
            continue;
        LS_TRY(ls_tensorboard_add(d, row->step, n, scalars));
        n = 0;
    }
    return LS_OK;
}

ls_status ls_metrics_eval(ls_rundir *d, const ls_eval_row *row)
{
    ls_json *j = metrics_begin(d, "eval");
    ls_json_int(j, "step", row->step);
    ls_json_int(j, "epoch", row->epoch);
    ls_metric_list_write(j, "", &row->eval);
    if (row->eval.n && isnan(ls_metric_list_find(&row->eval, "loss")))
        ls_json_bool(j, "skipped", true);
    ls_json_int(j, "samples", row->samples);
    ls_json_f64(j, "seconds", ls_row_seconds(row->seconds));
    if (row->texts) {
        ls_json_int(j, "texts", row->texts);
        ls_json_f64(j, "generate_seconds", ls_row_seconds(row->generate_seconds));
    }
    close_row(j, d->attempt);
    LS_TRY(metrics_append(d));
    LS_TRY(show_eval(d, row));
    ls_run_metrics *m = &d->metrics;
    ls_metric_list_release(&d->eval);
    d->eval = ls_metric_list_copy(&row->eval);
    LS_TRY(ls_metric_list_status(&d->eval));
    m->eval_texts = row->texts;
    m->eval_step = row->step;
    return ls_rundir_save_result(d, d->state, NULL);
}

double ls_epoch_row_metric(const ls_epoch_row *row, const char *metric)
{
    return strcmp(metric, "train_loss")
               ? ls_metric_list_find(&row->eval, metric + (strncmp(metric, "eval_", 5) ? 0 : 5))
               : row->train_loss;
}

void ls_epoch_row_write(ls_json *j, const ls_epoch_row *row, int64_t attempt)
{
    ls_json_object(j, NULL);
    ls_json_text(j, "kind", "epoch");
    ls_json_int(j, "epoch", row->epoch);
    ls_json_int(j, "step", row->step);
    ls_json_int(j, "samples", row->samples);
    ls_json_f64(j, "train_loss", row->train_loss);
    ls_metric_list_write(j, "eval_", &row->eval);
    if (row->eval_texts)
        ls_json_int(j, "eval_texts", row->eval_texts);
    ls_json_f64(j, "lr", row->lr);
    ls_json_f64(j, "seconds", ls_row_seconds(row->seconds));
    if (row->data_seconds > 0)
        ls_json_f64(j, "data_seconds", ls_row_seconds(row->data_seconds));
    if (row->replaced)
        ls_json_int(j, "replaced", row->replaced);
    if (row->skipped)
        ls_json_int(j, "skipped", row->skipped);
    if (row->memory)
        ls_json_int(j, "memory", row->memory);
    close_row(j, attempt);
}

ls_status ls_metrics_epoch(ls_rundir *d, const ls_epoch_row *row)
{
    ls_epoch_row_write(cleared(d), row, d->attempt);
    LS_TRY(metrics_append(d));
    return ls_csv_epoch(d, row);
}

void ls_report_row_write(ls_json *j, const ls_report_row *row, int64_t attempt)
{
    ls_json_object(j, NULL);
    ls_json_text(j, "kind", "report");
    ls_json_int(j, "report", row->report);
    ls_json_int(j, "step", row->step);
    ls_json_int(j, "epoch", row->epoch);
    ls_metric_list_write(j, "", row->metrics);
    ls_json_f64(j, "seconds", ls_row_seconds(row->seconds));
    close_row(j, attempt);
}

ls_status ls_metrics_report(ls_rundir *d, const ls_report_row *row)
{
    ls_report_row_write(cleared(d), row, d->attempt);
    LS_TRY(metrics_append(d));
    LS_TRY(ls_csv_report(d, row));
    ls_rundir_set_reported(d, row->step, row->epoch, row->metrics);
    return ls_rundir_save_result(d, d->state, NULL);
}

ls_status ls_metrics_saving(ls_rundir *d)
{
    return d->state == LS_RUN_RUNNING ? ls_rundir_save_result(d, LS_RUN_SAVING, NULL) : LS_OK;
}

ls_status ls_metrics_checkpoint(ls_rundir *d, const ls_checkpoint_row *row)
{
    ls_json *j = metrics_begin(d, "checkpoint");
    ls_json_int(j, "step", row->step);
    ls_json_int(j, "epoch", row->epoch);
    ls_json_text(j, "path", row->path);
    ls_json_int(j, "bytes", row->bytes);
    ls_json_f64(j, "waited", ls_row_seconds(row->waited));
    ls_json_f64(j, "seconds", ls_row_seconds(row->seconds));
    close_row(j, d->attempt);
    LS_TRY(metrics_append(d));
    return ls_rundir_save_result(d, d->state == LS_RUN_SAVING ? LS_RUN_RUNNING : d->state, NULL);
}

ls_status ls_metrics_restart(ls_rundir *d, const ls_restart_row *row)
{
    ls_json *j = metrics_begin(d, "restart");
    ls_json_int(j, "step", row->step);
    ls_json_int(j, "steps_lost", row->lost);
    ls_json_int(j, "workers", row->workers);
    ls_json_text(j, "cause", row->cause);
    ls_json_f64(j, "pause", row->pause);
    close_row(j, d->attempt);
    LS_TRY(metrics_append(d));
    if (!d->own->restarts)
        d->own->restarts = json_array();
    json_t *entry = json_pack("{sI sI sI si ss}", "attempt", (json_int_t)d->attempt, "step",
                              (json_int_t)row->step, "steps_lost", (json_int_t)row->lost, "workers",
                              row->workers, "cause", row->cause);
    if (json_array_append_new(d->own->restarts, entry))
        return ls_fail(LS_E_MEMORY,
                       "the list of restarts takes no more: out of memory, or the cause is not UTF-8");
    return ls_rundir_save_result(d, LS_RUN_RESTARTING, NULL);
}

ls_status ls_metrics_change(ls_rundir *d, int64_t step, const char *what)
{
    ls_json *j = metrics_begin(d, "change");
    ls_json_int(j, "step", step);
    ls_json_text(j, "what", what);
    close_row(j, d->attempt);
    return metrics_append(d);
}

int64_t ls_metrics_last_step(const ls_rundir *d, int64_t from)
{
    static const char *const KINDS[] = { "{\"kind\":\"step\",", "{\"kind\":\"report\"," };
    char tail[16384];
    const int64_t most = (int64_t)sizeof tail - 1, size = lseek(d->own->metrics, 0, SEEK_END);
    const ssize_t n = pread(d->own->metrics, tail, sizeof tail - 1, size - from > most ? size - most : from);
    tail[n > 0 ? n : 0] = 0;
    int64_t step = -1;
    for (int k = 0; k < 2; k++) /* a run has rows of one of these kinds */
        for (const char *p = tail; (p = strstr(p, KINDS[k])); p++) {
            const char *at = strstr(p, "\"step\":");
            step = at ? atoll(at + strlen("\"step\":")) : step;
        }
    return step;
}
