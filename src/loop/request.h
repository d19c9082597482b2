/* request.h - requests to a running loop: signals, and the end of its time. Any rank may get a request. Ranks
 * exchange requests together with the losses of the next step (LS_REQUEST_ bits, trainer.h), so all of them
 * act after the same step. */
#pragma once
#include <signal.h>
#include "base/ui.h"
#include "lockstep/recipe.h"

typedef struct ls_requests {
    const ls_ui *ui;
    sig_atomic_t saves; /* number of requests to save that have been taken */
    double end;      /* of the time, on the clock of ls_now; 0: there is none, or another rank watches it */
    char end_of[64]; /* which limit it is: "run.time_limit (60 s)" */
    double step, save, evaluation; /* the longest time of each so far, in seconds */
    bool saved;                    /* `save` was measured; else it is a guess */
} ls_requests;

/* Reads the two limits of time: run.time_limit, counted from the start of the user's command, and the end of
 * the Slurm job (SLURM_JOB_END_TIME; without it rank 0 asks squeue, for some seconds). The earlier one
 * counts, and only rank 0 watches it. `save` is a guess of the seconds that a save takes. Local. */
ls_status ls_requests_init(ls_requests *q, const ls_ui *ui, const ls_recipe *r, int rank, double save);
/* Notes the time that a checkpoint took. */
void ls_requests_saved(ls_requests *q, double seconds);
/* A requested checkpoint is complete. Requests that came in the meantime count as answered, too, because
 * mpirun passes a signal on to all ranks, but not to all at once. */
void ls_requests_answered(ls_requests *q);
/* Returns the LS_REQUEST_ bits of the requests since the last call. `evaluates`: one of the next two steps
 * ends an epoch. */
uint32_t ls_requests_take(ls_requests *q, bool evaluates);
/* Of these only LS_REQUEST_STOP and LS_REQUEST_TIME, in an evaluation: the others wait for the next step. */
uint32_t ls_requests_stop(const ls_requests *q);
/* Writes the reason of a stop: "on request", or the limit of time. */
void ls_requests_reason(char text[128], const ls_requests *q, uint32_t asked);
