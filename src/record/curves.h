/* curves.h - the curves of a run: numbers of its history over steps. */
#pragma once
#include "history.h"

/* A number that a row lacks is NAN. */
typedef struct ls_curve {
    int n;
    double *x, *y;
} ls_curve;
typedef struct ls_curves {
    ls_curve loss, smooth, lr, seconds; /* over steps */
    ls_curve eval_loss;                 /* over steps */
    ls_metric_list metrics;             /* names of the others */
    ls_curve *eval;                     /* [metrics.n] over steps, one for each */
    int64_t samples;                    /* of all steps */
    double step_seconds;                /* sum over steps */
} ls_curves;
ls_status ls_curves_make(ls_curves *out, const ls_history *h); /* to be released on failure, too */
void ls_curves_release(ls_curves *c);
/* Widens low and high to the range of y without the most extreme half percent, so that one wild step does not
 * flatten the curve. */
void ls_curve_range(const ls_curve *c, double *low, double *high);
