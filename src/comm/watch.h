/* watch.h - long work that all ranks do in rounds, such as the batches of an evaluation, and that ends before
 * the same round on all of them when any rank is asked to stop. The ranks exchange their requests before each
 * round, as they do in each training step. How long the next rounds take cannot be told from earlier ones, so
 * ranks that exchanged less often could not promise when they end. */
#pragma once
#include <signal.h>
#include <stdint.h>
#include "lockstep/group.h"

typedef struct ls_watch {
    ls_group *group;                       /* NULL: one rank */
    uint32_t (*asked_here)(void *context); /* the requests to this rank, as bits; 0: none */
    void *context;
    uint32_t asked; /* the requests to all ranks; the same on all of them. The work ends when it is not 0 */
} ls_watch;

/* A watch on a flag that a signal handler sets (NULL: nobody asks). */
ls_watch ls_watch_flag(ls_group *g, const volatile sig_atomic_t *flag);
/* Called before each round: w->asked may become other than 0. A rank that computes sees a request to it
 * before its next round; one that already waits here for slower ranks, after one more. Collective. */
ls_status ls_watch_round(ls_watch *w);
