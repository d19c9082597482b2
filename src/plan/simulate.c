/* simulate.c - see simulate.h. A player goes through its steps until it needs what another player has not
 * done yet. Players take turns until all are at their end.
 *
 *   kernel       takes its estimated time
 *   collective   its bytes are under way from the latest start of its members on, behind the player's earlier
 *                ones; then its own copies and sums. Members have it under the same number in the group
 *   send         waits until its mailbox is empty; receive, until it is full */
#include "simulate.h"

#include <string.h>

typedef struct started { /* collectives of a player over one group */
    const char *group;
    double *when; /* [n]: starts */
    int n, room;
    int *members, n_members; /* players */
} started;

typedef struct mailbox {
    int sender, receiver;
    size_t offset;
    bool full;
    double since; /* when it became full, or empty */
} mailbox;

typedef struct turn { /* where a player is */
    int program, step;
    int64_t run;
    double now, free; /* free: when all its bytes have arrived */
    started *groups;
    int n_groups;
    int *number; /* [collectives of the program]: in its group */
} turn;

typedef struct simulation {
    ls_arena *arena;
    ls_player *players;
    turn *turns;
    const ls_mesh *mesh;
    const int *player_of;
    int n, ranks, *members;
    mailbox *boxes;
    int n_boxes, boxes_room;
} simulation;

enum { GROUPS = 32 };

static void *larger(ls_arena *a, const void *old, int n, int *room, size_t size)
{
    if (n < *room)
        return (void *)(uintptr_t)old;
    *room = *room ? 2 * *room : 64;
    void *new = ls_arena_alloc(a, (size_t)*room * size);
    if (new &&n)
        memcpy(new, old, (size_t)n * size);
    return new;
}

static ls_status add_span(simulation *s, ls_player *p, const turn *t, ls_sim_kind kind, double to)
{
    if (!(to > t->now))
        return LS_OK;
    p->by_kind[kind] += to - t->now;
    ls_sim_span *last = p->n_spans ? &p->spans[p->n_spans - 1] : NULL;
    if (last && last->kind == kind &&
        (kind == LS_SIM_COMPUTE || (last->step == t->step && last->program == t->program))) {
        last->to = to;
        return LS_OK;
    }
    p->spans = larger(s->arena, p->spans, p->n_spans, &p->room, sizeof *p->spans);
    LS_TRY(ls_arena_status(s->arena));
    p->spans[p->n_spans++] = (ls_sim_span){
        .kind = kind, .from = t->now, .to = to, .program = t->program, .step = t->step
    };
    return LS_OK;
}

/* ---- collectives */

static ls_status group_of(started **out, simulation *s, int player, const char *group)
{
    turn *t = &s->turns[player];
    for (int i = 0; i < t->n_groups; i++)
        if (!strcmp(t->groups[i].group, group)) {
            *out = &t->groups[i];
            return LS_OK;
        }
    if (t->n_groups == GROUPS)
        return ls_fail(LS_E_INTERNAL, "simulation: more than %d groups", GROUPS);
    started *g = *out = &t->groups[t->n_groups++];
    int position;
    const int n = ls_mesh_group(s->mesh, s->players[player].rank, group, s->members, &position);
    *g = (started){ .group = group, .members = LS_ARENA_ARRAY(s->arena, int, s->n) };
    LS_TRY(ls_arena_status(s->arena));
    for (int i = 0; i < n; i++) {
        const int other = s->player_of[s->members[i]];
        int k = 0;
        while (k < g->n_members && g->members[k] != other)
            k++;
        if (k == g->n_members)
            g->members[g->n_members++] = other;
    }
    return LS_OK;
}

static ls_status begin(simulation *s, int player, int collective, const char *group)
{
    turn *t = &s->turns[player];
    started *g = NULL;
    LS_TRY(group_of(&g, s, player, group));
    g->when = larger(s->arena, g->when, g->n, &g->room, sizeof *g->when);
    LS_TRY(ls_arena_status(s->arena));
    t->number[collective] = g->n;
    g->when[g->n++] = t->now;
    return LS_OK;
}

/* *ready: the latest start of the members; false: one has not started. */
static ls_status all_started(bool *yes, double *ready, simulation *s, int player, int number,
                             const char *group)
{
    started *g = NULL, *other = NULL;
    LS_TRY(group_of(&g, s, player, group));
    *ready = 0;
    *yes = true;
    for (int i = 0; i < g->n_members && *yes; i++) {
        LS_TRY(group_of(&other, s, g->members[i], group));
        *yes = other->n > number;
        *ready = *yes && other->when[number] > *ready ? other->when[number] : *ready;
    }
    return LS_OK;
}

/* ---- messages */

static ls_status mailbox_of(mailbox **out, simulation *s, int sender, int receiver, size_t offset)
{
    for (int i = 0; i < s->n_boxes; i++)
        if (s->boxes[i].sender == sender && s->boxes[i].receiver == receiver &&
            s->boxes[i].offset == offset) {
            *out = &s->boxes[i];
            return LS_OK;
        }
    s->boxes = larger(s->arena, s->boxes, s->n_boxes, &s->boxes_room, sizeof *s->boxes);
    LS_TRY(ls_arena_status(s->arena));
    *out = &s->boxes[s->n_boxes++];
    **out = (mailbox){ .sender = sender, .receiver = receiver, .offset = offset };
    return LS_OK;
}

/* ---- steps. *done false: the step needs what another player has not done yet */

static ls_status pass_message(bool *done, simulation *s, int player, const ls_plan_collective *c)
{
    turn *t = &s->turns[player];
    int position;
    ls_mesh_group(s->mesh, s->players[player].rank, c->group, s->members, &position);
    const int peer = s->player_of[s->members[c->peer]];
    const bool sends = c->kind == LS_SEND;
    mailbox *box = NULL;
    LS_TRY(mailbox_of(&box, s, sends ? player : peer, sends ? peer : player, c->offset));
    *done = box->full != sends;
    if (!*done)
        return LS_OK;
    const double ready = box->since > t->now ? box->since : t->now, end = ready + c->flight + c->own;
    LS_TRY(add_span(s, &s->players[player], t, sends ? LS_SIM_SEND : LS_SIM_RECEIVE, end));
    t->now = box->since = end;
    box->full = sends;
    return LS_OK;
}

static ls_status wait_collective(bool *done, simulation *s, int player, int collective,
                                 const ls_plan_collective *c)
{
    turn *t = &s->turns[player];
    double ready = 0;
    LS_TRY(all_started(done, &ready, s, player, t->number[collective], c->group));
    if (!*done)
        return LS_OK;
    t->free = (ready > t->free ? ready : t->free) + c->flight;
    const double arrived = c->flight > 0 ? t->free : ready,
                 end = (arrived > t->now ? arrived : t->now) + c->own;
    LS_TRY(add_span(s, &s->players[player], t, LS_SIM_COLLECTIVE, end));
    t->now = end;
    return LS_OK;
}

static ls_status one_step(bool *done, simulation *s, int player)
{
    turn *t = &s->turns[player];
    ls_player *p = &s->players[player];
    const ls_plan *plan = p->programs[t->program];
    const ls_step *step = &plan->steps[t->step];
    *done = true;
    const ls_plan_collective *c = step->collective < 0 ? NULL : &plan->collectives[step->collective];
    const bool message = c && (c->kind == LS_SEND || c->kind == LS_RECEIVE);
    if (c && step->part == LS_PART_WAIT)
        return message ? pass_message(done, s, player, c)
                       : wait_collective(done, s, player, step->collective, c);
    if (c && !message)
        LS_TRY(begin(s, player, step->collective, c->group));
    LS_TRY(add_span(s, p, t, LS_SIM_COMPUTE, t->now + step->seconds));
    t->now += step->seconds;
    return LS_OK;
}

/* Goes on until the player must wait for another. */
static ls_status take_turn(simulation *s, int player)
{
    turn *t = &s->turns[player];
    const ls_player *p = &s->players[player];
    while (t->program < p->n_programs) {
        if (t->run == p->runs[t->program]) {
            t->program++;
            t->run = 0;
            continue;
        }
        bool done = true;
        for (; t->step < p->programs[t->program]->n_steps && done; t->step += done)
            LS_TRY(one_step(&done, s, player));
        if (!done)
            return LS_OK;
        t->step = 0;
        t->run++;
    }
    return LS_OK;
}

static int64_t place_of(const turn *t) { return ((int64_t)t->program << 48) + (t->run << 24) + t->step; }

static ls_status simulate(simulation *s)
{
    bool moved = true;
    while (moved) {
        moved = false;
        for (int i = 0; i < s->n; i++) {
            const int64_t before = place_of(&s->turns[i]);
            LS_TRY(take_turn(s, i));
            moved = moved || place_of(&s->turns[i]) != before;
        }
    }
    for (int i = 0; i < s->n; i++) {
        ls_player *p = &s->players[i];
        const turn *t = &s->turns[i];
        if (t->program < p->n_programs)
            return ls_fail(LS_E_INTERNAL, "simulation: rank %d waits for ever in step %d of program %s",
                           p->rank, t->step, p->programs[t->program]->graph->name);
        p->seconds = t->now;
    }
    return LS_OK;
}

ls_status ls_simulate(ls_arena *a, int n, ls_player *players, const ls_mesh *mesh, const int *player_of)
{
    simulation s = { .arena = a, .players = players, .mesh = mesh, .player_of = player_of, .n = n };
    s.ranks = (int)ls_mesh_ranks(mesh);
    s.turns = LS_ARENA_ARRAY(a, turn, n);
    s.members = LS_ARENA_ARRAY(a, int, s.ranks);
    LS_TRY(ls_arena_status(a));
    for (int i = 0; i < n; i++) {
        int most = 1;
        for (int k = 0; k < players[i].n_programs; k++)
            most = players[i].programs[k]->n_collectives > most ? players[i].programs[k]->n_collectives
                                                                : most;
        s.turns[i] = (turn){ .groups = LS_ARENA_ARRAY(a, started, GROUPS),
                             .number = LS_ARENA_ARRAY(a, int, most) };
        players[i].n_spans = players[i].room = 0;
        memset(players[i].by_kind, 0, sizeof players[i].by_kind);
    }
    LS_TRY(ls_arena_status(a));
    return simulate(&s);
}
