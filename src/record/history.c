/* history.c - reads the rows of metrics.jsonl into arrays, without those of steps that were repeated. */
#include "history.h"

#include <errno.h>
#include <math.h>
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

static double real(const json_t *row, const char *key, double otherwise)
{
    const json_t *v = json_object_get(row, key);
    return json_is_number(v) ? json_number_value(v) : otherwise;
}

static int64_t whole(const json_t *row, const char *key)
{
    return json_integer_value(json_object_get(row, key));
}

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

/* The row's memory does not last. */
static const char *nonfinite(const json_t *row)
{
    const char *what = json_string_value(json_object_get(row, "nonfinite"));
    return !what ? NULL : strcmp(what, "loss") ? "gradient" : "loss";
}

static void add_step(ls_history *h, const json_t *row, int64_t attempt)
{
    const int64_t step = whole(row, "step"), last = h->n_steps ? h->steps[h->n_steps - 1].row.step : 0;
    if (attempt > h->attempt && h->n_steps)
        history_start(h, attempt, step - 1, last >= step ? last - step + 1 : 0, NULL);
    take_back(h, step);
    APPEND(h, steps,
           (ls_past_step){ { .step = step,
                             .epoch = whole(row, "epoch"),
                             .samples = whole(row, "samples"),
                             .targets = whole(row, "targets"),
                             .loss = (float)real(row, "loss", NAN),
                             .lr = real(row, "lr", NAN),
                             .seconds = real(row, "seconds", NAN),
                             .grad_norm = real(row, "grad_norm", -1),
                             .loss_scale = real(row, "loss_scale", 0),
                             .skipped = json_is_true(json_object_get(row, "skipped")),
                             .nonfinite = nonfinite(row) },
                           attempt });
}

/* The numbers of a row that are not its own keys (a list that NULL ends). */
static ls_metric_list named(ls_history *h, const json_t *row, const char *prefix, const char *const *own)
{
    ls_metric_list l = ls_metric_list_read(row, prefix);
    for (; *own; own++)
        ls_metric_list_remove(&l, *own);
    h->no_memory = h->no_memory || l.no_memory;
    return l;
}

/* An attempt may begin with the evaluation of the epoch in which an earlier one was stopped. */
static void add_eval(ls_history *h, const json_t *row, int64_t attempt)
{
    static const char *const OURS[] = { "step",  "epoch",   "samples", "seconds", "generate_seconds",
                                        "texts", "attempt", NULL };
    const int64_t step = whole(row, "step"), last = h->n_steps ? h->steps[h->n_steps - 1].row.step : 0;
    if (attempt > h->attempt && h->n_steps)
        history_start(h, attempt, step, last > step ? last - step : 0, NULL);
    take_back(h, step + 1);
    while (h->n_evals && h->evals[h->n_evals - 1].row.step >= step)
        ls_metric_list_release(&h->evals[--h->n_evals].row.eval);
    ls_metric_list eval = named(h, row, "", OURS);
    const int n = h->n_evals;
    APPEND(h, evals,
           (ls_past_eval){ { step, whole(row, "epoch"), whole(row, "samples"), real(row, "seconds", NAN),
                             eval, whole(row, "texts"), real(row, "generate_seconds", 0) },
                           attempt });
    if (n == h->n_evals)
        ls_metric_list_release(&eval);
}

/* The checkpoint from which an attempt continued may have been replaced. */
static void add_checkpoint(ls_history *h, const json_t *row, int64_t attempt)
{
    const int64_t step = whole(row, "step");
    while (h->n_checkpoints && h->checkpoints[h->n_checkpoints - 1].step >= step)
        h->n_checkpoints--;
    APPEND(h, checkpoints, (ls_past_checkpoint){ step, whole(row, "epoch"), whole(row, "bytes"), attempt });
}

/* An older version called the loss of an epoch `loss`. A run that was lengthened ends its last epoch a second
 * time. */
static void add_epoch(ls_history *h, const json_t *row, int64_t attempt)
{
    const int64_t epoch = whole(row, "epoch");
    while (h->n_epochs && h->epochs[h->n_epochs - 1].row.epoch >= epoch)
        ls_metric_list_release(&h->epochs[--h->n_epochs].row.eval);
    ls_metric_list eval = named(h, row, "eval_", (const char *const[]){ "texts", NULL });
    const int n = h->n_epochs;
    APPEND(h, epochs,
           (ls_past_epoch){ { .epoch = epoch,
                              .step = whole(row, "step"),
                              .samples = whole(row, "samples"),
                              .train_loss = real(row, "train_loss", real(row, "loss", NAN)),
                              .skipped = whole(row, "skipped"),
                              .eval = eval,
                              .eval_texts = whole(row, "eval_texts"),
                              .lr = real(row, "lr", NAN),
                              .seconds = real(row, "seconds", NAN),
                              .data_seconds = real(row, "data_seconds", 0),
                              .replaced = whole(row, "replaced"),
                              .memory = whole(row, "memory") },
                            attempt });
    if (n == h->n_epochs)
        ls_metric_list_release(&eval);
}

/* A row about changes stands before the first step of its attempt. */
static void add_change(ls_history *h, const json_t *row, int64_t attempt)
{
    const int64_t step = whole(row, "step"), last = h->n_steps ? h->steps[h->n_steps - 1].row.step : 0;
    const char *what = json_string_value(json_object_get(row, "what"));
    ls_str cause = { 0 };
    if (attempt <= h->attempt)
        return; /* a run that begins with another's checkpoint; or an attempt that is listed with its failure
                 */
    ls_str_printf(&cause, "started again with --allow-change: %s", what ? what : "");
    history_start(h, attempt, step, last > step ? last - step : 0, ls_str_text(&cause));
    ls_str_release(&cause);
}

static void add_report(ls_history *h, const json_t *row, int64_t attempt)
{
    static const char *const OURS[] = { "report", "step", "epoch", "seconds", "attempt", NULL };
    ls_past_report r = { .report = whole(row, "report"),
                         .step = whole(row, "step"),
                         .epoch = whole(row, "epoch"),
                         .attempt = attempt,
                         .seconds = real(row, "seconds", NAN) };
    const bool begun = h->n_reports > 0;
    while (h->n_reports && h->reports[h->n_reports - 1].report >= r.report)
        ls_metric_list_release(&h->reports[--h->n_reports].metrics);
    if (attempt > h->attempt && begun)
        history_start(h, attempt, h->n_reports ? h->reports[h->n_reports - 1].step : 0, 0, NULL);
    r.metrics = named(h, row, "", OURS);
    const int n = h->n_reports;
    APPEND(h, reports, r);
    if (n == h->n_reports)
        ls_metric_list_release(&r.metrics);
}

static void add_row(ls_history *h, const json_t *row)
{
    const char *kind = json_string_value(json_object_get(row, "kind"));
    const int64_t attempt = whole(row, "attempt"), step = whole(row, "step");
    if (!kind)
        return;
    if (!strcmp(kind, "step"))
        add_step(h, row, attempt);
    else if (!strcmp(kind, "eval"))
        add_eval(h, row, attempt);
    else if (!strcmp(kind, "epoch"))
        add_epoch(h, row, attempt);
    else if (!strcmp(kind, "checkpoint"))
        add_checkpoint(h, row, attempt);
    else if (!strcmp(kind, "restart"))
        history_start(h, attempt, step, whole(row, "steps_lost"),
                      json_string_value(json_object_get(row, "cause")));
    else if (!strcmp(kind, "change"))
        add_change(h, row, attempt);
    else if (!strcmp(kind, "report"))
        add_report(h, row, attempt);
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

ls_metric_list ls_history_metrics(const ls_history *h)
{
    ls_metric_list names = { .n = 0 };
    for (int i = 0; i < h->n_evals; i++)
        for (int k = 0; k < h->evals[i].row.eval.n; k++) {
            const ls_metric *m = &h->evals[i].row.eval.at[k];
            if (strcmp(m->name, "loss") && (!isnan(m->value) || !ls_metric_list_has(&names, m->name)))
                ls_metric_list_set(&names, m->name, m->value);
        }
    for (int k = names.n - 1; k >= 0; k--)
        if (isnan(names.at[k].value))
            ls_metric_list_remove(&names, names.at[k].name);
    if (!names.n)
        ls_metric_list_set(&names, "accuracy", NAN);
    return names;
}

void ls_history_release(ls_history *h)
{
    for (int i = 0; i < h->n_starts; i++)
        free(h->starts[i].cause);
    for (int i = 0; i < h->n_reports; i++)
        ls_metric_list_release(&h->reports[i].metrics);
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
