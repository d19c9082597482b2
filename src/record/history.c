/* history.c - reads the rows of metrics.jsonl into arrays, without those of steps that were repeated. */
#include "history.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/file.h"
#include "base/json.h"
#include "base/oserror.h"
#include "base/str.h"
#include "base/sys.h"
#include "run_owner.h"

/* Room for one more; false: there is none, and the history says so. */
static bool history_grow(ls_history *h, void *array, int n, int *cap, size_t size)
{
    void **at = array, *more = ls_sys_grow(*at, n, cap, size);
    h->no_memory = h->no_memory || !more;
    *at = more ? more : *at;
    return more;
}
#define APPEND(h, what, ...)                                                         \
    (history_grow(h, &(h)->what, (h)->n_##what, &(h)->cap_##what, sizeof *(h)->what) \
         ? (void)((h)->what[(h)->n_##what++] = __VA_ARGS__)                          \
         : (void)0)

/* Removes the rows of step `step` and all later ones, because they are repeated. */
static void take_back(ls_history *h, int64_t step)
{
    while (h->n_steps && h->steps[h->n_steps - 1].row.step >= step)
        h->n_steps--;
    while (h->n_evals && h->evals[h->n_evals - 1].row.step >= step)
        ls_metric_list_release(&h->evals[--h->n_evals].row.eval);
    while (h->n_epochs && h->epochs[h->n_epochs - 1].row.step >= step)
        ls_metric_list_release(&h->epochs[--h->n_epochs].row.eval);
    while (h->n_checkpoints && h->checkpoints[h->n_checkpoints - 1].step >= step)
        h->n_checkpoints--;
}

/* Notes the start of an attempt. After a failure there is a row for it. After a start by the user the first
 * step shows it. */
static void history_start(ls_history *h, int64_t attempt, int64_t step, int64_t lost, const char *cause)
{
    char *copy = cause ? ls_sys_strdup(cause) : NULL;
    const int n = h->n_starts;
    h->no_memory = h->no_memory || (cause && !copy);
    APPEND(h, starts, (ls_past_start){ attempt, step, lost, copy });
    if (n == h->n_starts)
        free(copy);
    h->attempt = attempt;
}

static void add_step(ls_history *h, const json_t *json, int64_t attempt)
{
    ls_step_row row;
    ls_row_read(&LS_STEP_ROW, json, &row);
    const int64_t last = h->n_steps ? h->steps[h->n_steps - 1].row.step : 0;
    if (row.nonfinite) /* the JSON does not last */
        row.nonfinite = strcmp(row.nonfinite, "loss") ? "gradient" : "loss";
    if (attempt > h->attempt && h->n_steps)
        history_start(h, attempt, row.step - 1, last >= row.step ? last - row.step + 1 : 0, NULL);
    take_back(h, row.step);
    APPEND(h, steps, (ls_past_step){ row, attempt });
}

/* A list of the row that was added last, or could not be added. */
static void keep_list(ls_history *h, ls_metric_list *l, bool added)
{
    h->no_memory = h->no_memory || l->no_memory;
    if (!added)
        ls_metric_list_release(l);
}

/* An attempt may begin with the evaluation of the epoch in which an earlier one was stopped. */
static void add_eval(ls_history *h, const json_t *json, int64_t attempt)
{
    ls_eval_row row;
    ls_row_read(&LS_EVAL_ROW, json, &row);
    const int64_t last = h->n_steps ? h->steps[h->n_steps - 1].row.step : 0;
    if (attempt > h->attempt && h->n_steps)
        history_start(h, attempt, row.step, last > row.step ? last - row.step : 0, NULL);
    take_back(h, row.step + 1);
    while (h->n_evals && h->evals[h->n_evals - 1].row.step >= row.step)
        ls_metric_list_release(&h->evals[--h->n_evals].row.eval);
    const int n = h->n_evals;
    APPEND(h, evals, (ls_past_eval){ row, attempt });
    keep_list(h, &row.eval, n < h->n_evals);
}

/* The checkpoint from which an attempt continued may have been replaced. */
static void add_checkpoint(ls_history *h, const json_t *json, int64_t attempt)
{
    ls_checkpoint_row row;
    ls_row_read(&LS_CHECKPOINT_ROW, json, &row);
    while (h->n_checkpoints && h->checkpoints[h->n_checkpoints - 1].step >= row.step)
        h->n_checkpoints--;
    APPEND(h, checkpoints, (ls_past_checkpoint){ row.step, row.epoch, row.bytes, attempt });
}

/* A run that was lengthened ends its last epoch a second time. */
static void add_epoch(ls_history *h, const json_t *json, int64_t attempt)
{
    ls_epoch_row row;
    ls_row_read(&LS_EPOCH_ROW, json, &row);
    while (h->n_epochs && h->epochs[h->n_epochs - 1].row.epoch >= row.epoch)
        ls_metric_list_release(&h->epochs[--h->n_epochs].row.eval);
    const int n = h->n_epochs;
    APPEND(h, epochs, (ls_past_epoch){ row, attempt });
    keep_list(h, &row.eval, n < h->n_epochs);
}

static void add_restart(ls_history *h, const json_t *json, int64_t attempt)
{
    ls_restart_row row;
    ls_row_read(&LS_RESTART_ROW, json, &row);
    history_start(h, attempt, row.step, row.lost, row.cause);
}

/* A row about changes stands before the first step of its attempt. */
static void add_change(ls_history *h, const json_t *json, int64_t attempt)
{
    ls_change_row row;
    ls_row_read(&LS_CHANGE_ROW, json, &row);
    const int64_t last = h->n_steps ? h->steps[h->n_steps - 1].row.step : 0;
    ls_str cause = { 0 };
    if (attempt <= h->attempt)
        return; /* a run that begins with another's checkpoint; or an attempt that is listed with its failure
                 */
    ls_str_printf(&cause, "started again with --allow-change: %s", row.what ? row.what : "");
    history_start(h, attempt, row.step, last > row.step ? last - row.step : 0, ls_str_text(&cause));
    ls_str_release(&cause);
}

static void add_report(ls_history *h, const json_t *json, int64_t attempt)
{
    ls_report_row row;
    ls_row_read(&LS_REPORT_ROW, json, &row);
    const bool begun = h->n_reports > 0;
    while (h->n_reports && h->reports[h->n_reports - 1].row.report >= row.report)
        ls_metric_list_release(&h->reports[--h->n_reports].row.metrics);
    if (attempt > h->attempt && begun)
        history_start(h, attempt, h->n_reports ? h->reports[h->n_reports - 1].row.step : 0, 0, NULL);
    const int n = h->n_reports;
    APPEND(h, reports, (ls_past_report){ row, attempt });
    keep_list(h, &row.metrics, n < h->n_reports);
}

static void add_row(ls_history *h, const json_t *json)
{
    static const struct {
        const ls_row_kind *kind;
        void (*add)(ls_history *, const json_t *, int64_t);
    } KINDS[] = { { &LS_STEP_ROW, add_step },       { &LS_EVAL_ROW, add_eval },
                  { &LS_EPOCH_ROW, add_epoch },     { &LS_CHECKPOINT_ROW, add_checkpoint },
                  { &LS_RESTART_ROW, add_restart }, { &LS_CHANGE_ROW, add_change },
                  { &LS_REPORT_ROW, add_report } };
    const char *kind = json_string_value(json_object_get(json, "kind"));
    const int64_t attempt = json_integer_value(json_object_get(json, "attempt"));
    if (!kind)
        return;
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++)
        if (!strcmp(kind, KINDS[i].kind->name))
            KINDS[i].add(h, json, attempt);
    if (attempt > h->attempt)
        h->attempt = attempt;
}

/* Reads what stands in the file from byte `from` on. It is read, not mapped: a row that did not fit on the
 * disk is cut off again. */
static ls_status read_from(char **text, size_t *size, const char *path, int64_t from)
{
    int fd = -1;
    size_t whole = 0;
    *text = NULL;
    *size = 0;
    ls_status s = ls_file_open(&fd, &whole, path);
    if (s == LS_OK && (int64_t)whole > from) {
        const size_t more = whole - (size_t)from;
        *text = ls_sys_malloc(more);
        s = ls_sys_have(*text);
        while (s == LS_OK && *size < more) {
            const ssize_t n = pread(fd, *text + *size, more - *size, from + (off_t)*size);
            if (n < 0 && errno != EINTR)
                s = ls_fail_os(path, "read", errno);
            if (n == 0)
                break; /* it has become shorter */
            *size += n > 0 ? (size_t)n : 0;
        }
    }
    if (fd >= 0)
        close(fd);
    return s;
}

/* A last line without an end is left for later, or read as far as it has come: then `ended` says that nobody
 * writes on. */
static ls_status follow(ls_history *h, const char *path, bool last_line, bool ended)
{
    char *text;
    size_t size;
    ls_status s;
    if (ls_file_size(path) < h->read)
        ls_history_release(h);
    LS_TRY_TO(s, read_from(&text, &size, path, h->read), done);
    for (const char *p = text, *end = text + size; p < end;) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const size_t n = (size_t)((newline ? newline : end) - p);
        if (!newline && !last_line)
            break;
        json_t *row = json_loadb(p, n, 0, NULL);
        if (row)
            add_row(h, row);
        else
            h->bad_lines += n > 0 && (newline || ended);
        json_decref(row);
        p += n + 1;
        h->read += (int64_t)n + 1;
    }
done:
    free(text);
    if (s == LS_OK && !h->no_memory)
        return LS_OK;
    ls_history_release(h);
    return s != LS_OK ? s : ls_fail(LS_E_MEMORY, "%s: no memory for its rows", path);
}

ls_status ls_history_follow(ls_history *h, const char *run_dir)
{
    char *path = ls_path_join(run_dir, "metrics.jsonl");
    const ls_status s = follow(h, path, false, false);
    free(path);
    return s;
}

ls_status ls_history_read(ls_history *out, const char *run_dir)
{
    char *path = ls_path_join(run_dir, "metrics.jsonl");
    *out = (ls_history){ 0 };
    const ls_status s = follow(out, path, true, !ls_run_is_held(run_dir));
    free(path);
    return s;
}

#define ROWS(h, k, what)                                                            \
    (ls_past_rows)                                                                  \
    {                                                                               \
        .kind = &(k), .rows = (h)->what, .each = sizeof *(h)->what,                 \
        .attempt_at = offsetof(__typeof__(*(h)->what), attempt), .n = (h)->n_##what \
    }

ls_past_rows ls_history_rows(const ls_history *h, const ls_row_kind *kind)
{
    const ls_past_rows all[] = { ROWS(h, LS_STEP_ROW, steps), ROWS(h, LS_EVAL_ROW, evals),
                                 ROWS(h, LS_EPOCH_ROW, epochs), ROWS(h, LS_REPORT_ROW, reports) };
    size_t i = 0;
    while (i < sizeof all / sizeof all[0] && all[i].kind != kind)
        i++;
    LS_CHECK(i < sizeof all / sizeof all[0]);
    return all[i];
}

const void *ls_past_row(const ls_past_rows *r, int i) { return (const char *)r->rows + r->each * (size_t)i; }

int64_t ls_past_attempt(const ls_past_rows *r, int i)
{
    return *(const int64_t *)(const void *)((const char *)ls_past_row(r, i) + r->attempt_at);
}

void ls_history_release(ls_history *h)
{
    for (int i = 0; i < h->n_starts; i++)
        free(h->starts[i].cause);
    for (int i = 0; i < h->n_reports; i++)
        ls_metric_list_release(&h->reports[i].row.metrics);
    for (int i = 0; i < h->n_evals; i++)
        ls_metric_list_release(&h->evals[i].row.eval);
    for (int i = 0; i < h->n_epochs; i++)
        ls_metric_list_release(&h->epochs[i].row.eval);
    free(h->reports);
    free(h->steps);
    free(h->evals);
    free(h->epochs);
    free(h->checkpoints);
    free(h->starts);
    *h = (ls_history){ 0 };
}
