/* last_words.c - see last_words.h. */
#include "last_words.h"

#include <stdatomic.h>

#include "base/log.h"
#include "group.h"
#include "group_own.h"
#include "launched.h"

static const double LAST_WORDS = 0.8; /* seconds; mpirun kills ranks a second after one has ended */

static _Atomic(ls_group *) own;

void ls_last_words_of(ls_group *g) { atomic_store(&own, g); }

void ls_last_words_forget(ls_group *g) { atomic_compare_exchange_strong(&own, &g, NULL); }

static _Atomic(ls_last_words_sink) sink;

void ls_last_words_to(ls_last_words_sink to) { atomic_store(&sink, to); }

static bool tell(ls_group *g, ls_status code, const char *text)
{
    if (!g)
        return false;
    ls_control_fail(g->control, g->rank, 0, code, text); /* rank 0 prints it where nobody watches the ranks */
    if (ls_launch_watched())
        return true;
    /* Rank 0 notices at its next collective, which may be later than mpirun kills it. */
    return g->rank > 0 && ls_group_await_end(g, 0, LAST_WORDS);
}

bool ls_last_words(ls_status code, const char *text)
{
    ls_group *g = atomic_load(&own);
    const ls_last_words_sink to = atomic_load(&sink);
    const bool said = tell(g, code, text);
    if (to)
        to(text, g ? g->rank : -1, said);
    else if (!said)
        ls_log(LS_ERROR, "%s", text);
    return said;
}
