/* curves.h - a run's numbers over its steps, by name, whatever wrote them: the floats of steps
 * (`loss`, `lr`, `seconds`, ...), `eval_NAME` of evaluations, and what a program reports, by the names of its
 * own. So who shows a run need not ask whether it has steps or reports. */
#pragma once
#include "base/arena.h"
#include "history.h"

/* Has a point for each row that has the number. What was not finite is NAN. */
typedef struct ls_curve {
    int n;
    double *x, *y; /* x: steps */
    const char *name;
    int room;
} ls_curve;

/* In the order in which the rows name them: those of steps, of evaluations, of reports; without those that
 * were never a number. */
typedef struct ls_curves {
    int n, cap;
    ls_curve *at;
    ls_arena memory; /* of points and names */
} ls_curves;
ls_status ls_curves_make(ls_curves *out, const ls_history *h); /* to be released on failure, too */
void ls_curves_release(ls_curves *c);

/* One without points if there is none of this name. */
const ls_curve *ls_curve_of(const ls_curves *all, const char *name);
double ls_curve_at(const ls_curve *c, int64_t step); /* NAN: it has no point there */
double ls_curve_last(const ls_curve *c);             /* NAN: it has no points */
bool ls_curve_is_eval(const char *name);             /* begins with eval_ */
bool ls_curve_is_of_steps(const char *name);         /* that steps have: loss, lr, ... */
/* The mean over a window of points, a thirtieth of the curve wide, around each point. A centred window does
 * not lag behind a falling loss. In the memory of `all`. */
ls_status ls_curve_smooth(ls_curve *out, ls_curves *all, const ls_curve *c);
/* Widens low and high to the range of y without the most extreme half percent, so that one wild step does not
 * flatten the curve. */
void ls_curve_range(const ls_curve *c, double *low, double *high);
