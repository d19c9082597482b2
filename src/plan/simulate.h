/* simulate.h - plays a step on all ranks of a mesh, from the estimates of their plans: what each rank does
 * when, and what it waits for. Ranks whose programs are equal have one player. */
#pragma once
#include "base/arena.h"
#include "lockstep/mesh.h"
#include "plan.h"

typedef enum ls_sim_kind {
    LS_SIM_COMPUTE,
    LS_SIM_COLLECTIVE,
    LS_SIM_RECEIVE,
    LS_SIM_SEND,
    LS_SIM_KINDS
} ls_sim_kind;

typedef struct ls_sim_span { /* kernels, copies and sums; or a wait */
    ls_sim_kind kind;
    double from, to;
    int program, step; /* of its first step */
} ls_sim_span;

typedef struct ls_player {
    int rank;                   /* one of those that it plays */
    int n_programs;             /* that run one after the other */
    const ls_plan *programs[2]; /* micro, update */
    int64_t runs[2];
    ls_sim_span *spans; /* in the arena and in order; none of length 0 */
    int n_spans, room;
    double seconds, by_kind[LS_SIM_KINDS];
} ls_player;

/* Plays the step: player_of[rank] is the number of its player. LS_E_INTERNAL: players wait for each other for
 * ever. Local. */
ls_status ls_simulate(ls_arena *a, int n, ls_player *players, const ls_mesh *mesh, const int *player_of);
