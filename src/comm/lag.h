/* lag.h - reports a rank that others wait for, long before the wait fails. */
#pragma once
#include "group_own.h"

/* One wait; zeroed when it begins. */
typedef struct ls_lag_timer {
    double waited, next; /* seconds waited so far; seconds at which the next report is due */
    int rank;            /* the rank that was reported */
    bool reported;
} ls_lag_timer;

double ls_lag_threshold(void); /* seconds of waiting before the first report */
/* Adds seconds of waiting; true: a report is due. */
bool ls_lag_due(ls_group *g, ls_lag_timer *t, double seconds);
void ls_lag_report(ls_group *g, ls_lag_timer *t, int rank, const char *what, const char *doing);
void ls_lag_end(ls_group *g, ls_lag_timer *t); /* the wait ended well */
