/* watch.h - long work that all ranks do in rounds, such as the batches of an evaluation, and that ends before
 * the same round on all of them when any rank is asked to stop. Ranks exchange their requests a few times a
 * second and not in each round, so rounds of microseconds do not wait for one another. */
#pragma once
#include <signal.h>
#include <stdint.h>
#include "lockstep/group.h"

typedef struct ls_watch {
    ls_group *group;                   /* NULL: one rank */
    uint32_t (*asked_here)(void *context); /* the requests to this rank, as bits; 0: none */
    void *context;
    uint32_t asked; /* the requests to all ranks; the same on all of them. The work ends when it is not 0 */
    /* Rounds since the last exchange, rounds from one exchange to the next, and the time of the last. */
    int64_t done, each;
    double since;
} ls_watch;

/* A watch on a flag that a signal handler sets (NULL: nobody asks). */
ls_watch ls_watch_flag(ls_group *g, const volatile sig_atomic_t *flag);
/* Called before each round: w->asked may become other than 0. A request is obeyed before the next round; on
 * several ranks after a quarter of a second, if that is longer. Collective. */
ls_status ls_watch_round(ls_watch *w);
/* The same for rounds that take seconds: the ranks exchange their requests in each. Collective. */
ls_status ls_watch_now(ls_watch *w);
