/* run_state.h - the states of a run, and the allowed changes of state. result.json and `lockstep runs` show
 * the state. Rank 0 writes it; between two attempts the parent of the ranks does. */
#pragma once
#include <stdbool.h>

typedef enum ls_run_state {
    LS_RUN_NEW,      /* no run yet; never written */
    LS_RUN_STARTING, /* up to the first step */
    LS_RUN_RUNNING,
    LS_RUN_SAVING,     /* a checkpoint is being written */
    LS_RUN_RESTARTING, /* after a failure, until the ranks are back */
    LS_RUN_STOPPING,   /* asked to stop; it still saves */
    LS_RUN_FINISHED,
    LS_RUN_FAILED,
    LS_RUN_STOPPED, /* on request, with everything saved */
    LS_RUN_DIED     /* never written: the state says that the run lives, but no process has its lock */
} ls_run_state;

const char *ls_run_state_name(ls_run_state s); /* "new" "starting" ... */
/* for messages about a run that is continued: "was stopped", "died" */
const char *ls_run_state_past(ls_run_state s);
bool ls_run_state_lives(ls_run_state s);                   /* a state in which a process must own the run */
bool ls_run_state_may(ls_run_state from, ls_run_state to); /* the same state is always allowed */
