/* simulate_page.h - the page of a simulated step: a lane for the ranks of each player over time, what they do
 * and what they wait for, and tables of both. It has no script. */
#pragma once
#include "plan/simulate.h"

typedef struct ls_sim_wait { /* waits of a player for one thing */
    int player, times;
    double seconds, longest, at; /* at: when the longest begins */
    const char *what;
} ls_sim_wait;

typedef struct ls_sim_result {
    const char *name, *layout; /* of the recipe; of the ranks */
    const char *place;         /* "16 ranks on 2 hosts of H100 SXM" */
    int n;
    const ls_player *players;
    const char *const *lanes;       /* [n]: "ranks 0-15, stage 0" */
    const char *const *const *what; /* [n][spans of the player]: what it waits for, "": it computes */
    double seconds;                 /* of the step */
    int n_waits;                    /* the longest first */
    const ls_sim_wait *waits;
} ls_sim_result;
extern const char *const LS_SIM_NAMES[LS_SIM_KINDS]; /* "computes", "waits for collectives", ... */
/* Replaces the file. Local. */
ls_status ls_simulate_page(const char *path, const ls_sim_result *r);
