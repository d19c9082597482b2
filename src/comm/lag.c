/* lag.c - reports a rank that others wait for, long before the wait fails. */
#include "lag.h"
#include "base/c_locale.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Seconds. A hang is to be named within 10 s, and asking another machine what a rank does may take three. */
static const double THRESHOLD = 5;

double ls_lag_threshold(void)
{
    const char *text = getenv("LOCKSTEP_NOTICE"); /* in tests */
    const double seconds = text ? ls_strtod(text, NULL) : 0;
    return seconds > 0 ? seconds : THRESHOLD;
}

bool ls_lag_due(ls_group *g, ls_lag_timer *t, double seconds)
{
    t->waited += seconds;
    if (!g->on_lag || t->waited < (t->next > 0 ? t->next : g->lag_first))
        return false;
    const double slow = g->lag_threshold;
    t->only_stuck = t->waited < slow;
    t->next = t->only_stuck ? fmin(t->waited + g->lag_first, slow) : 2 * t->waited;
    return true;
}

void ls_lag_report(ls_group *g, ls_lag_timer *t, int rank, const char *what, const char *doing)
{
    if (t->only_stuck && !strstr(doing, LS_SAID_STOPPED) && !strstr(doing, LS_SAID_NOTHING))
        return;
    t->rank = rank;
    t->reported = true;
    g->on_lag(g->on_lag_context, g,
              &(ls_lag){ .rank = rank, .seconds = t->waited, .what = what, .doing = doing });
}

bool ls_lag_again(ls_lag_timer *t)
{
    enum { TIMES = 15 }; /* 3 s in all */
    if (++t->waits > TIMES)
        return false;
    t->next = t->waited + 0.2;
    return true;
}

void ls_lag_end(ls_group *g, ls_lag_timer *t)
{
    if (!t->reported)
        return;
    g->lag_threshold = fmax(g->lag_threshold, 1.5 * t->waited);
    g->on_lag(g->on_lag_context, g, &(ls_lag){ .rank = t->rank, .seconds = t->waited, .over = true });
}
