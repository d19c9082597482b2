/* lag.h - reports a rank that others wait for, long before the wait fails. */
#pragma once
#include "group_own.h"
#include "lag_threshold.h"

/* One wait; zeroed when it begins. */
typedef struct ls_lag_timer {
    double waited, next; /* seconds waited so far; seconds at which the next report is due */
    int rank;            /* the rank that was reported */
    bool reported;
    int waits;       /* for answers so far */
    bool only_stuck; /* the report that is due is only of a rank that will not come by itself */
} ls_lag_timer;

/* Adds seconds of waiting; true: a report is due. */
bool ls_lag_due(ls_group *g, ls_lag_timer *t, double seconds);
/* `doing`: what ls_control_describe or another machine says of it. */
void ls_lag_report(ls_group *g, ls_lag_timer *t, int rank, const char *what, const char *doing);
/* An answer of another machine is not there yet: true, if the report may wait for it. */
bool ls_lag_again(ls_lag_timer *t);
void ls_lag_end(ls_group *g, ls_lag_timer *t); /* the wait ended well */
