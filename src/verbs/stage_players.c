/* stage_players.c - see stage_players.h. */
#include "stage_players.h"

static ls_status compile(ls_stage_players *p, int k, const ls_recipe_arg *recipe, const ls_elsewhere *where,
                         bool measure)
{
    int rank = 0;
    while (p->player_of[rank] != k)
        rank++;
    ls_compiled_recipe *c = LS_ARENA_NEW(&p->arena, ls_compiled_recipe);
    LS_TRY(ls_arena_status(&p->arena));
    LS_TRY(ls_compiled_recipe_make(c, recipe, rank, where));
    p->compiled[p->made++] = c;
    return measure ? ls_compiled_recipe_measure(c) : LS_OK;
}

ls_status ls_stage_players_make(ls_stage_players *p, const ls_compiled_recipe *first,
                                const ls_recipe_arg *recipe, const ls_elsewhere *where, bool measure)
{
    const ls_mesh *m = &first->step.parallel.mesh;
    const char *axis = ls_mesh_axis(m, LS_ROLE_PIPELINE);
    const int stages = first->step.units.sharding.stages;
    *p = (ls_stage_players){ .n = stages > 1 ? stages : 1, .ranks = first->ranks };
    ls_arena_init(&p->arena);
    p->compiled = LS_ARENA_ARRAY(&p->arena, const ls_compiled_recipe *, p->n);
    p->players = LS_ARENA_ARRAY(&p->arena, ls_player, p->n);
    p->player_of = LS_ARENA_ARRAY(&p->arena, int, p->ranks);
    LS_TRY(ls_arena_status(&p->arena));
    for (int r = 0; r < p->ranks; r++)
        p->player_of[r] = p->n > 1 ? ls_mesh_position(m, r, axis) : 0;
    p->compiled[p->made++] = first;
    while (p->made < p->n)
        LS_TRY(compile(p, p->made, recipe, where, measure));
    for (int k = 0; k < p->n; k++) {
        const ls_compiled *s = &p->compiled[k]->step;
        p->players[k] = (ls_player){ .rank = s->parallel.rank,
                                     .n_programs = 2,
                                     .programs = { s->plans[LS_MICRO], s->plans[LS_UPDATE] },
                                     .runs = { ls_compiled_runs(s), 1 } };
    }
    return LS_OK;
}

ls_status ls_stage_players_play(double *seconds, ls_stage_players *p)
{
    LS_TRY(ls_simulate(&p->arena, p->n, p->players, &p->compiled[0]->step.parallel.mesh, p->player_of));
    *seconds = 0;
    for (int k = 0; k < p->n; k++)
        *seconds = p->players[k].seconds > *seconds ? p->players[k].seconds : *seconds;
    return LS_OK;
}

void ls_stage_players_release(ls_stage_players *p)
{
    for (int k = 1; k < p->made; k++)
        ls_compiled_recipe_release((ls_compiled_recipe *)(uintptr_t)p->compiled[k]);
    ls_arena_release(&p->arena);
}
