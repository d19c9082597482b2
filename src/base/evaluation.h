/* evaluation.h - the losses and metrics of an evaluation by name, as the files of a run have them: `NAME` in
 * the rows of evaluations, `eval_NAME` elsewhere. A plain value: copies are independent. */
#pragma once
#include "json.h"

enum {
    LS_MOST_METRICS = 64, /* "loss", and what a model declares */
    LS_METRIC_NAME = 64,  /* bytes of a name with its 0 */
};
/* Whether a row of metrics.jsonl, or what `lockstep eval --json` prints, has this key anyway: no metric's
 * name. */
bool ls_is_row_key(const char *name);

typedef struct ls_evaluation {
    int n; /* 0: there was no evaluation */
    struct {
        char name[LS_METRIC_NAME];
        double value; /* NaN: nothing counted */
    } at[LS_MOST_METRICS];
} ls_evaluation;

void ls_evaluation_set(ls_evaluation *e, const char *name, double value); /* replaces, or adds at the end */
double ls_evaluation_get(const ls_evaluation *e, const char *name);       /* NaN: it has none of that name */
/* "loss" and "accuracy", which files have columns and keys for in any case. */
bool ls_evaluation_common(const char *name);
/* Writes all of them, or only those that are not common, with `prefix` before each name. */
void ls_evaluation_write(ls_json *j, const char *prefix, const ls_evaluation *e, bool common);
/* Writes `skipped` if the evaluation has no loss, because none of its targets counted. */
void ls_evaluation_write_skipped(ls_json *j, const ls_evaluation *e);
/* The numbers of a row that are not keys of every row. A null is left out. */
ls_evaluation ls_evaluation_read(const json_t *row, const char *prefix);
