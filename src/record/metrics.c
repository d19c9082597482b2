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

/* Appends a row to metrics.jsonl. */
static ls_status metrics_append(ls_rundir *d, const ls_row_kind *k, const void *row)
{
    ls_json *j = &d->own->row;
    ls_str_clear(&j->out);
    j->depth = 0;
    ls_row_write(j, k, row, d->attempt);
    ls_str_add(&j->out, "\n");
    ls_status s = ls_str_status(&j->out);
    if (s == LS_OK)
        return ls_rundir_append(d, d->own->metrics, "metrics.jsonl", j->out.data, j->out.len);
    ls_str_release(&j->out); /* the next row may find memory */
    return s;
}

/* Those that the columns of a row have. `first`: one beside them; NULL: none. */
static ls_status show_row(ls_rundir *d, const ls_row_kind *k, const void *row, int64_t step,
                          const ls_scalar *first)
{
    ls_scalar scalars[LS_EVENT_SCALARS];
    int n = 0;
    if (first)
        scalars[n++] = *first;
    for (int i = 0; i < k->n; i++) {
        const ls_row_column *c = &k->columns[i];
        if (!c->tag)
            continue;
        if (n == LS_EVENT_SCALARS) {
            LS_TRY(ls_tensorboard_add(d, step, n, scalars));
            n = 0;
        }
        scalars[n++] = (ls_scalar){ c->tag, ls_row_number(c, row) };
    }
    return ls_tensorboard_add(d, step, n, scalars);
}

static ls_scalar speed_of(const ls_step_row *row)
{
    return row->targets ? (ls_scalar){ "train/tokens_per_second", (double)row->targets / row->seconds }
                        : (ls_scalar){ "train/images_per_second", (double)row->samples / row->seconds };
}

ls_status ls_metrics_step(ls_rundir *d, const ls_step_row *row)
{
    LS_TRY(metrics_append(d, &LS_STEP_ROW, row));
    const ls_scalar speed = speed_of(row);
    LS_TRY(show_row(d, &LS_STEP_ROW, row, row->step, &speed));
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
    LS_TRY(metrics_append(d, &LS_EVAL_ROW, row));
    LS_TRY(show_eval(d, row));
    ls_metric_list_release(&d->eval);
    d->eval = ls_metric_list_copy(&row->eval);
    LS_TRY(ls_metric_list_status(&d->eval));
    d->metrics.eval_texts = row->texts;
    d->metrics.eval_step = row->step;
    return ls_rundir_save_result(d, d->state, NULL);
}

double ls_epoch_row_metric(const ls_epoch_row *row, const char *metric)
{
    return strcmp(metric, "train_loss")
               ? ls_metric_list_find(&row->eval, metric + (strncmp(metric, "eval_", 5) ? 0 : 5))
               : row->train_loss;
}

ls_status ls_metrics_epoch(ls_rundir *d, const ls_epoch_row *row)
{
    LS_TRY(metrics_append(d, &LS_EPOCH_ROW, row));
    LS_TRY(show_row(d, &LS_EPOCH_ROW, row, row->step, NULL));
    return ls_csv_add(d, &LS_EPOCH_ROW, row);
}

ls_status ls_metrics_memory(ls_rundir *d, const ls_memory_row *row)
{
    return metrics_append(d, &LS_MEMORY_ROW, row);
}

ls_status ls_metrics_report(ls_rundir *d, const ls_report_row *row)
{
    LS_TRY(metrics_append(d, &LS_REPORT_ROW, row));
    LS_TRY(ls_csv_add(d, &LS_REPORT_ROW, row));
    ls_rundir_set_reported(d, row->step, row->epoch, &row->metrics);
    return ls_rundir_save_result(d, d->state, NULL);
}

ls_status ls_metrics_saving(ls_rundir *d)
{
    return d->state == LS_RUN_RUNNING ? ls_rundir_save_result(d, LS_RUN_SAVING, NULL) : LS_OK;
}

ls_status ls_metrics_checkpoint(ls_rundir *d, const ls_checkpoint_row *row)
{
    LS_TRY(metrics_append(d, &LS_CHECKPOINT_ROW, row));
    return ls_rundir_save_result(d, d->state == LS_RUN_SAVING ? LS_RUN_RUNNING : d->state, NULL);
}

ls_status ls_metrics_digest(ls_rundir *d, const ls_digest_row *row)
{
    return metrics_append(d, &LS_DIGEST_ROW, row);
}

ls_status ls_metrics_restart(ls_rundir *d, const ls_restart_row *row)
{
    LS_TRY(metrics_append(d, &LS_RESTART_ROW, row));
    if (!d->own->restarts)
        d->own->restarts = json_array();
    json_t *entry = json_pack("{sI sI sI sI ss}", "attempt", (json_int_t)d->attempt, "step",
                              (json_int_t)row->step, "steps_lost", (json_int_t)row->lost, "workers",
                              (json_int_t)row->workers, "cause", row->cause);
    if (json_array_append_new(d->own->restarts, entry))
        return ls_fail(LS_E_MEMORY,
                       "the list of restarts takes no more: out of memory, or the cause is not UTF-8");
    return ls_rundir_save_result(d, LS_RUN_RESTARTING, NULL);
}

ls_status ls_metrics_change(ls_rundir *d, int64_t step, const char *what)
{
    return metrics_append(d, &LS_CHANGE_ROW, &(ls_change_row){ step, what });
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
