/* request.h - what comes to a running loop from outside: signals, and the end of the time that it has. Any
 * rank may be asked; what one was asked travels with the losses of the next step, so that all do the same
 * after the same step (LS_REQUEST_ bits, trainer.h). */
#pragma once
#include <signal.h>
#include "base/ui.h"
#include "lockstep/recipe.h"

typedef struct ls_requests {
    const ls_ui *ui;
    sig_atomic_t saves; /* how many requests to save have been taken */
    /* of the time, on the clock of ls_now; 0: none, or another rank watches it */
    double end;
    char end_of[64];               /* "run.time_limit (60 s)" */
    double step, save, evaluation; /* seconds, the longest so far; the loop keeps them */
    bool saved;                    /* `save` was measured */
} ls_requests;

/* The time that there is: run.time_limit, from the beginning of the user's command, and that of the Slurm
 * job, if it says (SLURM_JOB_END_TIME); the earlier end counts, and rank 0 alone watches it. `save`: a guess,
 * until one was measured. Local. */
ls_status ls_requests_init(ls_requests *q, const ls_ui *ui, const ls_recipe *r, int rank, double save);
/* A checkpoint took so long. */
void ls_requests_saved(ls_requests *q, double seconds);
/* A checkpoint that was asked for is there: what came meanwhile has been answered too. (mpirun passes a
 * signal on to all ranks, but not to all at once.) */
void ls_requests_answered(ls_requests *q);
/* Bits of what was asked since the last call. `evaluates`: one of the next two steps ends an epoch. */
uint32_t ls_requests_take(ls_requests *q, bool evaluates);
/* "on request", or which time is about to end. */
void ls_requests_reason(char text[128], const ls_requests *q, uint32_t asked);
