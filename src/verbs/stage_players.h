/* stage_players.h - a step on all ranks, ready to be played (plan/simulate.h). Ranks at one position of a
 * pipeline run the same program, so one of them is compiled for each; without a pipeline it is rank 0. */
#pragma once
#include "plan/simulate.h"
#include "setup/compiled_recipe.h"

typedef struct ls_stage_players {
    ls_arena arena; /* owns the arrays, and what the caller puts there */
    int n, ranks, made;
    const ls_compiled_recipe **compiled; /* [n]; the first is the caller's, the others are owned */
    ls_player *players;                  /* [n] */
    int *player_of;                      /* [ranks] */
} ls_stage_players;
/* `first`: the step compiled for rank 0; it must outlive *out. measure: kernels that were not measured. To be
 * released also after a failure. */
ls_status ls_stage_players_make(ls_stage_players *out, const ls_compiled_recipe *first,
                                const ls_recipe_arg *recipe, const ls_elsewhere *where, bool measure);
/* Plays the step: *seconds until the last rank is done. All times must be known (ls_step_cost.seconds). */
ls_status ls_stage_players_play(double *seconds, ls_stage_players *p);
void ls_stage_players_release(ls_stage_players *p);
