/* rounds.h - requests to stop during long work that all ranks do in rounds, such as the batches of an
 * evaluation. If any rank is asked to stop, the work ends before the same round on all ranks. The ranks
 * exchange their requests before each round, as they do in each training step. The time of the next rounds
 * does not follow from earlier ones, so ranks that exchanged less often could not promise when they end. */
#pragma once
#include <signal.h>
#include <stdint.h>
#include "lockstep/group.h"

typedef struct ls_rounds {
    ls_group *group;                       /* NULL: one rank */
    uint32_t (*asked_here)(void *context); /* the requests to this rank, as bits; 0: none */
    void *context;
    uint32_t asked; /* the requests to all ranks; the same on all of them. The work ends when it is not 0 */
} ls_rounds;

/* Rounds that end when a signal handler sets a flag (NULL: there are no requests). */
ls_rounds ls_rounds_of_flag(ls_group *g, const volatile sig_atomic_t *flag);
/* Called before each round: w->asked may become other than 0. A rank that computes sees a request to it
 * before its next round; one that already waits here for slower ranks, after one more. Collective. */
ls_status ls_rounds_next(ls_rounds *w);
