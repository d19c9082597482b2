/* lag.c - a rank that is waited for is named long before the wait fails. */
#include "internal.h"

#include <math.h>
#include <stdlib.h>

static const double NOTICE = 7; /* seconds; asking another host what it does may take two more */

double ls_lag_notice(void)
{
    const char *text = getenv("LOCKSTEP_NOTICE"); /* in tests */
    const double seconds = text ? atof(text) : 0;
    return seconds > 0 ? seconds : NOTICE;
}

void ls_group_on_lag(ls_group *g, ls_lag_fn tell, void *context)
{
    g->tell = tell;
    g->tell_context = context;
}

bool ls_lag_due(ls_group *g, ls_lagging *l, double seconds)
{
    l->waited += seconds;
    if (!g->tell || l->waited < (l->next > 0 ? l->next : g->notice))
        return false;
    l->next = 2 * l->waited;
    return true;
}

void ls_lag_tell(ls_group *g, ls_lagging *l, int rank, const char *what, const char *doing)
{
    l->rank = rank;
    l->told = true;
    g->tell(g->tell_context, g,
            &(ls_lag){ .rank = rank, .seconds = l->waited, .what = what, .doing = doing });
}

void ls_lag_end(ls_group *g, ls_lagging *l)
{
    if (!l->told)
        return;
    g->notice = fmax(g->notice, 1.5 * l->waited);
    g->tell(g->tell_context, g, &(ls_lag){ .rank = l->rank, .seconds = l->waited, .over = true });
}
