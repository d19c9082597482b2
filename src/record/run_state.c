/* run_state.c - the table of states. */
#include "run_state.h"

#define TO(state) (1u << LS_RUN_##state)

static const struct {
    const char *name, *past;
    bool lives;
    unsigned to;
} STATES[] = {
    [LS_RUN_NEW] = { "new", "is new", false, TO(STARTING) },
    [LS_RUN_STARTING] = { "starting", "died", true,
                          TO(RUNNING) | TO(RESTARTING) | TO(FINISHED) | TO(FAILED) | TO(STOPPED) },
    [LS_RUN_RUNNING] = { "running", "died", true, TO(SAVING) | TO(STOPPING) | TO(FINISHED) | TO(FAILED) },
    [LS_RUN_SAVING] = { "saving", "died", true, TO(RUNNING) | TO(STOPPING) | TO(FINISHED) | TO(FAILED) },
    [LS_RUN_RESTARTING] = { "restarting", "is restarted", true, TO(STARTING) | TO(FAILED) | TO(STOPPED) },
    [LS_RUN_STOPPING] = { "stopping", "died", true, TO(STOPPED) | TO(FAILED) },
    /* to failed: its page could not be written */
    [LS_RUN_FINISHED] = { "finished", "was finished", false, TO(STARTING) | TO(RESTARTING) | TO(FAILED) },
    [LS_RUN_FAILED] = { "failed", "failed", false, TO(STARTING) | TO(RESTARTING) },
    [LS_RUN_STOPPED] = { "stopped", "was stopped", false, TO(STARTING) | TO(RESTARTING) | TO(FAILED) },
    [LS_RUN_DIED] = { "died", "died", false, TO(STARTING) | TO(RESTARTING) | TO(FAILED) },
};

const char *ls_run_state_name(ls_run_state s) { return STATES[s].name; }
const char *ls_run_state_past(ls_run_state s) { return STATES[s].past; }
bool ls_run_state_lives(ls_run_state s) { return STATES[s].lives; }
bool ls_run_state_may(ls_run_state from, ls_run_state to)
{
    return from == to || (STATES[from].to & 1u << to) != 0;
}
