/* rows.c - the tables of the rows' columns, in the order of their JSON. A new column of metrics.csv goes
 * behind those with a place (LS_CSV_BEHIND). */
#include <math.h>
#include <stddef.h>

#include "metrics.h"

static bool positive(double x, const void *row) { return (void)row, x > 0; }
static bool measured(double x, const void *row) { return (void)row, !(x < 0); } /* NAN: it was not finite */

#define KIND(name, columns)                                \
    {                                                      \
        name, sizeof(columns) / sizeof *(columns), columns \
    }

/* ---- a step */

#define AT(member) .at = offsetof(ls_step_row, member)

static bool skips(double skipped, const void *row)
{
    return skipped > 0 || ((const ls_step_row *)row)->loss_scale > 0;
}

/* ls_metrics_last_step searches the file for rows that begin with `step`. */
static const ls_row_column STEP[] = {
    { "step", LS_CELL_INT, AT(step), .csv = 1, .show = 1, .title = "step" },
    { "epoch", LS_CELL_INT, AT(epoch), .csv = 2, .show = 2, .leave = 4, .title = "epoch" },
    { "loss", LS_CELL_F32, AT(loss), .unread = NAN, .csv = 4, .show = 3, .title = "loss", .format = "%.4f",
      .undefined = "none", .tag = "train/loss", .curve = "loss" },
    { "lr", LS_CELL_F64, AT(lr), .unread = NAN, .csv = 5, .show = 4, .leave = 3, .title = "lr",
      .format = "%.3g", .tag = "train/lr", .curve = "lr" },
    { "samples", LS_CELL_INT, AT(samples), .csv = 3 },
    { "targets", LS_CELL_INT, AT(targets), positive },
    { "seconds", LS_CELL_SECONDS, AT(seconds), .unread = NAN, .csv = 6, .show = 7, .leave = 1,
      .title = "time", .curve = "seconds" },
    { "grad_norm", LS_CELL_F64, AT(grad_norm), measured, -1, .csv = 7, .show = 5, .leave = 2,
      .title = "grad norm", .format = "%.4g", .tag = "train/grad_norm", .curve = "grad_norm" },
    { "loss_scale", LS_CELL_F64, AT(loss_scale), positive, .csv = 8, .show = 6, .leave = 5,
      .title = "loss scale", .format = "%g", .tag = "train/loss_scale", .curve = "loss_scale" },
    { "skipped", LS_CELL_BOOL, AT(skipped), skips, .csv = 9 },
    { "nonfinite", LS_CELL_TEXT, AT(nonfinite), positive },
    { "attempt", LS_CELL_ATTEMPT, .csv = 10, .show = 8, .leave = 7, .title = "attempt" },
};
const ls_row_kind LS_STEP_ROW = KIND("step", STEP);
#undef AT

/* ---- an evaluation */

#define AT(member) .at = offsetof(ls_eval_row, member)

static bool has_no_loss(double x, const void *row)
{
    const ls_metric_list *eval = &((const ls_eval_row *)row)->eval;
    return (void)x, eval->n && isnan(ls_metric_list_find(eval, "loss"));
}

static bool generates(double x, const void *row) { return (void)x, ((const ls_eval_row *)row)->texts > 0; }

/* A model's metric cannot have one of these names (graph/declare.c). */
static const ls_row_column EVAL[] = {
    { "step", LS_CELL_INT, AT(step) },
    { "epoch", LS_CELL_INT, AT(epoch) },
    { "", LS_CELL_NAMED, AT(eval), .curve = "eval_" },
    { "skipped", LS_CELL_TRUE, .there = has_no_loss },
    { "samples", LS_CELL_INT, AT(samples) },
    { "seconds", LS_CELL_SECONDS, AT(seconds), .unread = NAN },
    { "texts", LS_CELL_INT, AT(texts), positive },
    { "generate_seconds", LS_CELL_SECONDS, AT(generate_seconds), generates },
    { "attempt", .type = LS_CELL_ATTEMPT },
};
const ls_row_kind LS_EVAL_ROW = KIND("eval", EVAL);
#undef AT

/* ---- an epoch */

#define AT(member) .at = offsetof(ls_epoch_row, member)

/* An idle host has 0. */
static bool known_load(double load, const void *row)
{
    return !isnan(load) && ((const ls_epoch_row *)row)->cpu > 0;
}

static const ls_row_column EPOCH[] = {
    { "epoch", LS_CELL_INT, AT(epoch), .csv = 1, .show = 1, .title = "epoch" },
    { "step", LS_CELL_INT, AT(step), .csv = 2, .show = 2, .leave = 4, .title = "step" },
    { "samples", LS_CELL_INT, AT(samples), .csv = 3 },
    { "train_loss", LS_CELL_F64, AT(train_loss), .unread = NAN, .older = "loss", .csv = 4, .show = 3,
      .title = "train loss", .format = "%.4f" },
    { "eval_", LS_CELL_NAMED, AT(eval), .show = 5, .format = "%.4g" },
    { "eval_loss", LS_CELL_ENTRY, AT(eval), .csv = 5, .show = 4, .leave = 1, .title = "eval loss",
      .format = "%.4f" },
    { "eval_accuracy", LS_CELL_ENTRY, AT(eval), .csv = 6 },
    { "eval_texts", LS_CELL_INT, AT(eval_texts), positive },
    { "lr", LS_CELL_F64, AT(lr), .unread = NAN, .csv = 7, .show = 6, .leave = 5, .title = "lr",
      .format = "%.3g" },
    { "seconds", LS_CELL_SECONDS, AT(seconds), .unread = NAN, .csv = 8, .show = 7, .leave = 3,
      .title = "time" },
    { "data_seconds", LS_CELL_SECONDS, AT(data_seconds), positive },
    { "replaced", LS_CELL_INT, AT(replaced), positive },
    { "skipped", LS_CELL_INT, AT(skipped), positive },
    { "memory", LS_CELL_INT, AT(memory), positive, .csv = LS_CSV_BEHIND, .tag = "system/memory" },
    { "memory_most", LS_CELL_INT, AT(memory_most), positive },
    { "memory_planned", LS_CELL_INT, AT(memory_planned), positive },
    { "cpu", LS_CELL_F64, AT(cpu), positive, .csv = LS_CSV_BEHIND, .tag = "system/cpu" },
    { "load", LS_CELL_F64, AT(load), known_load, NAN, .csv = LS_CSV_BEHIND, .tag = "system/load" },
    { "gflops", LS_CELL_F64, AT(gflops), positive, .csv = LS_CSV_BEHIND, .tag = "system/gflops" },
    { "mfu", LS_CELL_F64, AT(mfu), positive, .csv = LS_CSV_BEHIND, .tag = "system/mfu" },
    { "attempt", LS_CELL_ATTEMPT, .csv = 9, .show = 8, .leave = 2, .title = "attempt" },
};
const ls_row_kind LS_EPOCH_ROW = KIND("epoch", EPOCH);
#undef AT

#define AT(member) .at = offsetof(ls_memory_row, member)
static const ls_row_column MEMORY[] = {
    { "epoch", LS_CELL_INT, AT(epoch) },     { "step", LS_CELL_INT, AT(step) },
    { "rank", LS_CELL_INT, AT(rank) },       { "memory", LS_CELL_INT, AT(memory), positive },
    { "planned", LS_CELL_INT, AT(planned) }, { "attempt", .type = LS_CELL_ATTEMPT },
};
const ls_row_kind LS_MEMORY_ROW = KIND("memory", MEMORY);
#undef AT

/* ---- a report of a user's program: most columns leave before any of its metrics */

#define AT(member) .at = offsetof(ls_report_row, member)
enum { LAST = 1 << 20 };

static const ls_row_column REPORT[] = {
    { "report", LS_CELL_INT, AT(report), .csv = 1, .show = 1, .title = "report" },
    { "step", LS_CELL_INT, AT(step), .csv = 2, .show = 2, .leave = LAST, .title = "step" },
    { "epoch", LS_CELL_INT, AT(epoch), .csv = 3, .show = 3, .leave = LAST + 1, .title = "epoch" },
    { "", LS_CELL_NAMED, AT(metrics), .show = 6, .format = "%.6g", .curve = "" },
    { "seconds", LS_CELL_SECONDS, AT(seconds), .unread = NAN, .csv = 4, .show = 4, .leave = LAST + 2,
      .title = "time" },
    { "attempt", LS_CELL_ATTEMPT, .csv = 5, .show = 5, .leave = LAST + 3, .title = "attempt" },
};
const ls_row_kind LS_REPORT_ROW = KIND("report", REPORT);
#undef AT

/* ---- events */

#define AT(member) .at = offsetof(ls_checkpoint_row, member)
static const ls_row_column CHECKPOINT[] = {
    { "step", LS_CELL_INT, AT(step) },
    { "epoch", LS_CELL_INT, AT(epoch) },
    { "path", LS_CELL_TEXT, AT(path) },
    { "bytes", LS_CELL_INT, AT(bytes) },
    { "waited", LS_CELL_SECONDS, AT(waited) },
    { "seconds", LS_CELL_SECONDS, AT(seconds) },
    { "model", LS_CELL_TEXT, AT(model), positive },
    { "optimizer", LS_CELL_TEXT, AT(optimizer), positive },
    { "attempt", .type = LS_CELL_ATTEMPT },
};
const ls_row_kind LS_CHECKPOINT_ROW = KIND("checkpoint", CHECKPOINT);
#undef AT

#define AT(member) .at = offsetof(ls_digest_row, member)
static const ls_row_column DIGEST[] = {
    { "step", LS_CELL_INT, AT(step) },           { "epoch", LS_CELL_INT, AT(epoch) },
    { "model", LS_CELL_TEXT, AT(model) },        { "optimizer", LS_CELL_TEXT, AT(optimizer) },
    { "seconds", LS_CELL_SECONDS, AT(seconds) }, { "attempt", .type = LS_CELL_ATTEMPT },
};
const ls_row_kind LS_DIGEST_ROW = KIND("digest", DIGEST);
#undef AT

#define AT(member) .at = offsetof(ls_restart_row, member)
static const ls_row_column RESTART[] = {
    { "step", LS_CELL_INT, AT(step) },       { "steps_lost", LS_CELL_INT, AT(lost) },
    { "workers", LS_CELL_INT, AT(workers) }, { "cause", LS_CELL_TEXT, AT(cause) },
    { "pause", LS_CELL_F64, AT(pause) },     { "attempt", .type = LS_CELL_ATTEMPT },
};
const ls_row_kind LS_RESTART_ROW = KIND("restart", RESTART);
#undef AT

#define AT(member) .at = offsetof(ls_change_row, member)
static const ls_row_column CHANGE[] = {
    { "step", LS_CELL_INT, AT(step) },
    { "what", LS_CELL_TEXT, AT(what) },
    { "attempt", .type = LS_CELL_ATTEMPT },
};
const ls_row_kind LS_CHANGE_ROW = KIND("change", CHANGE);
