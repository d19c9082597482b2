/* state_lists.c - the lists of tensors that a checkpoint stores, and the part of them that each rank writes.
 * Units belong to the layout of a run; files know parameters only, so any layout can read what another one
 * wrote. Every state of the programs lands in a list, so a new one cannot be forgotten. */
#include "base/sys.h"
#include "state_lists.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt/adapter.h"
#include "execute/session.h"
#include "graph/identity.h"
#include "ops/rules.h"

typedef struct listing {
    const ls_compiled *compiled;
    ls_session *session; /* NULL: without memory */
    ls_arena *arena;
    const ls_node **others; /* states that belong to no unit */
    int n_others;
} listing;

static const char *name_of(const ls_node *n) { return ((const ls_source_attrs *)n->attrs)->name; }

static void add_other(listing *l, const ls_node *n)
{
    for (int i = 0; i < l->n_others; i++)
        if (!ls_identity_order(ls_source_is(l->others[i]), name_of(l->others[i]), ls_source_is(n),
                               name_of(n)))
            return; /* several programs use it */
    l->others[l->n_others++] = n;
}

static int state_lists_by_name(const void *a, const void *b)
{
    return strcmp(name_of(*(const ls_node *const *)a), name_of(*(const ls_node *const *)b));
}

/* Finds, among the states of all programs, those that belong to no unit. */
static ls_status find_states(listing *l)
{
    const ls_compiled *c = l->compiled;
    int nodes = 0;
    for (int p = 0; p < LS_PROGRAMS; p++)
        nodes += c->plans[p] ? c->plans[p]->graph->n_nodes : 0;
    l->others = LS_ARENA_ARRAY(l->arena, const ls_node *, nodes);
    LS_TRY(ls_arena_status(l->arena));
    for (int p = 0; p < LS_PROGRAMS; p++) {
        const ls_graph *g = c->plans[p] ? c->plans[p]->graph : NULL;
        for (int i = 0; g && i < g->n_nodes; i++) {
            const ls_node *n = g->nodes[i];
            if (n->op != &ls_op_buffer && n->op != &ls_op_state)
                continue;
            if (ls_source_is(n).what != LS_IS_MOMENT && !ls_is_parameters(ls_source_is(n)))
                add_other(l, n);
        }
    }
    qsort(l->others, (size_t)l->n_others, sizeof *l->others, state_lists_by_name);
    return LS_OK;
}

typedef struct appending {
    ls_named_tensor *tensors;
    ls_range *mine;
    ls_copies *copies;
    int64_t n;
} appending;

static void state_lists_append(appending *a, const char *name, const ls_type *type, ls_range mine)
{
    a->tensors[a->n] = (ls_named_tensor){ name, ls_tensor_of(NULL, type) };
    a->mine[a->n++] = mine;
}

/* The axes whose ranks have other parameters, or other parts of them, than this unit has here. */
static unsigned divided_by(const ls_mesh *m, const ls_unit *unit)
{
    const char *experts = ls_mesh_axis(m, LS_ROLE_EXPERT);
    unsigned axes = unit->sharded_by;
    for (int i = 0; i < m->n && unit->part; i++)
        axes |= !strcmp(m->axes[i].name, experts) ? 1U << i : 0;
    return axes;
}

/* Appends the parameters (LS_IS_UNIT) or one of their moments. */
static ls_status append_slots(appending *a, listing *l, ls_identity is)
{
    const ls_units *u = &l->compiled->units;
    const ls_mesh *mesh = &l->compiled->parallel.mesh;
    const bool moments = is.what == LS_IS_MOMENT;
    const char *prefix = moments ? ls_moment_name((ls_moment)is.moment) : "";
    ls_place *flat = LS_ARENA_ARRAY(l->arena, ls_place, u->n);
    LS_TRY(ls_arena_status(l->arena));
    for (int i = 0; i < u->n && l->session; i++) {
        is.unit = i;
        if (ls_unit_is_here(u, i) && (!moments || u->units[i].moments >> is.moment & 1))
            LS_TRY(ls_session_place_of(l->session, is, u->units[i].state, &flat[i]));
    }
    for (int i = 0; i < u->n_slots; i++) {
        const ls_slot *s = &u->slots[i];
        if (moments && !(u->units[s->unit].moments >> is.moment & 1))
            continue;
        ls_local_shard *h = LS_ARENA_NEW(l->arena, ls_local_shard);
        LS_TRY(ls_sys_have(h));
        *h = ls_slot_local_shard(u, mesh, i, l->compiled->parallel.rank);
        a->copies[a->n] = (ls_copies){ h->copy, h->copies, divided_by(mesh, &u->units[s->unit]) };
        state_lists_append(
            a, moments ? ls_arena_printf(l->arena, "%s.%s", prefix, s->name) : s->name, &s->whole,
            (ls_range){ .first = h->first,
                        .count = h->count,
                        .place = ls_place_part(&flat[s->unit], h->at, &LS_TYPE(s->type.dtype, h->count)),
                        .box = &h->box });
    }
    return LS_OK;
}

/* Appends the states that belong to no unit: buffers, or the others. They are whole on every rank. */
static ls_status append_others(appending *a, listing *l, bool buffers)
{
    for (int i = 0; i < l->n_others; i++) {
        const ls_node *n = l->others[i];
        ls_place x = { .type = ((const ls_source_attrs *)n->attrs)->type };
        if ((n->op == &ls_op_buffer) != buffers)
            continue;
        if (l->session)
            LS_TRY(ls_session_place_of(l->session, ls_source_is(n), name_of(n), &x));
        state_lists_append(a, ls_arena_strdup(l->arena, name_of(n)), &x.type,
                           (ls_range){ .count = ls_type_count(&x.type), .place = x });
    }
    return LS_OK;
}

static appending state_lists_begin(ls_arena *arena, int64_t room)
{
    return (appending){ LS_ARENA_ARRAY(arena, ls_named_tensor, room), LS_ARENA_ARRAY(arena, ls_range, room),
                        LS_ARENA_ARRAY(arena, ls_copies, room), 0 };
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Checks that names differ, because a file finds tensors by name. A state of the model may have the name of
 * a moment or of the step counter. */
static ls_status names_differ(ls_arena *arena, const appending *a)
{
    const char **names = LS_ARENA_ARRAY(arena, const char *, a->n + 1);
    LS_TRY(ls_arena_status(arena));
    for (int64_t i = 0; i < a->n; i++)
        names[i] = a->tensors[i].name;
    qsort(names, (size_t)a->n, sizeof *names, by_text);
    for (int64_t i = 1; i < a->n; i++)
        if (!strcmp(names[i - 1], names[i]))
            return ls_fail(LS_E_ARG,
                           "the model has a state \"%s\", the name under which a checkpoint keeps the "
                           "trainer's own; give it another",
                           names[i]);
    return LS_OK;
}

static ls_status make_lists(ls_state_lists *out, const ls_compiled *c, ls_session *session)
{
    listing l = { .compiled = c, .session = session, .arena = &out->arena };
    LS_TRY(find_states(&l));
    appending model = state_lists_begin(l.arena, c->units.n_slots + l.n_others);
    appending optimizer = state_lists_begin(l.arena,
                                            (int64_t)LS_STORED_MOMENTS * c->units.n_slots + l.n_others);
    LS_TRY(ls_arena_status(l.arena));
    LS_TRY(append_slots(&model, &l, (ls_identity){ .what = LS_IS_UNIT }));
    LS_TRY(append_others(&model, &l, true));
    for (int m = 0; m < LS_STORED_MOMENTS; m++)
        LS_TRY(append_slots(&optimizer, &l, (ls_identity){ .what = LS_IS_MOMENT, .moment = m }));
    out->sliced_optimizer = optimizer.n;
    LS_TRY(append_others(&optimizer, &l, false));
    LS_TRY(names_differ(l.arena, &optimizer));
    /* a buffer may have infinities, of a mask for example */
    out->model = (ls_tensor_list){ model.n, model.tensors, model.mine, c->units.n_slots, model.n };
    out->optimizer = (ls_tensor_list){ optimizer.n, optimizer.tensors, optimizer.mine, optimizer.n,
                                       optimizer.n };
    out->sliced_model = c->units.n_slots;
    out->model_copies = model.copies;
    out->optimizer_copies = optimizer.copies;
    return LS_OK;
}

ls_status ls_state_lists_make(ls_state_lists *out, const ls_compiled *c, ls_session *session)
{
    *out = (ls_state_lists){ 0 };
    ls_arena_init(&out->arena);
    ls_status s = make_lists(out, c, session);
    if (s != LS_OK)
        ls_state_lists_release(out);
    return s;
}

void ls_state_lists_release(ls_state_lists *l)
{
    ls_arena_release(&l->arena);
    *l = (ls_state_lists){ 0 };
}

/* ---- the part that this rank writes */

/* The ranges of a list that this rank writes. Ranks with the same ranges divide their elements. For this,
 * all tensors whose copies are on the same ranks count as one row of elements. Rank 0 writes the tensors
 * that every rank has whole. */
static ls_tensor_list my_share(const ls_compiled *c, ls_arena *arena, const ls_tensor_list *l, int64_t sliced,
                               const ls_copies *copies)
{
    ls_range *mine = ls_arena_dup(arena, l->mine, sizeof *mine * (size_t)l->n);
    int64_t all[1U << LS_MESH_AXES] = { 0 }, passed[1U << LS_MESH_AXES] = { 0 };
    for (int64_t i = 0; mine && i < sliced; i++)
        all[copies[i].sharded_by] += mine[i].count;
    for (int64_t i = 0; mine && i < sliced; i++) {
        const ls_copies *s = &copies[i];
        ls_range *r = &mine[i];
        const int64_t at = passed[s->sharded_by], from = all[s->sharded_by] * s->copy / s->copies - at,
                      to = all[s->sharded_by] * (s->copy + 1) / s->copies - at;
        const int64_t cut = from > 0 ? from : 0, end = to < r->count ? to : r->count;
        passed[s->sharded_by] += r->count;
        r->first += cut;
        r->count = end > cut ? end - cut : 0;
        r->place = ls_place_part(&r->place, cut, &LS_TYPE(l->tensors[i].tensor.type.dtype, r->count));
    }
    for (int64_t i = sliced; mine && i < l->n && c->parallel.rank > 0; i++)
        mine[i].count = 0;
    /* the arena remembers */
    return (ls_tensor_list){ mine ? l->n : 0, l->tensors, mine, l->finite, l->numbers };
}

/* What a checkpoint without its frozen weights has of the model: the trained parameters, and buffers, which
 * change too. */
static ls_tensor_list only_trained(const ls_compiled *c, ls_arena *arena, const ls_state_lists *l,
                                   const char *prefix, int64_t *sliced, const ls_copies **copies)
{
    const ls_tensor_list *all = &l->model;
    appending some = state_lists_begin(arena, all->n);
    *sliced = 0;
    for (int64_t i = 0; i < all->n && !arena->no_memory; i++) {
        if (i < l->sliced_model && c->units.slots[i].frozen)
            continue;
        *sliced += i < l->sliced_model;
        if (i < l->sliced_model)
            some.copies[some.n] = l->model_copies[i];
        state_lists_append(&some, ls_arena_printf(arena, "%s%s", prefix, all->tensors[i].name),
                           &all->tensors[i].tensor.type, all->mine[i]);
    }
    *copies = some.copies;
    return (ls_tensor_list){ some.n, some.tensors, some.mine, *sliced, some.n };
}

ls_checkpoint_contents ls_state_share(const ls_compiled *c, ls_state_lists *l,
                                      const ls_checkpoint_contents *texts)
{
    ls_checkpoint_contents all = *texts;
    ls_tensor_list model = l->model;
    int64_t sliced = l->sliced_model;
    const ls_copies *copies = l->model_copies;
    if (c->only_trained)
        model = only_trained(c, &l->arena, l, texts->adapter ? LS_ADAPTER_PREFIX : "", &sliced, &copies);
    all.part = c->only_trained;
    all.model = my_share(c, &l->arena, &model, sliced, copies);
    all.optimizer = my_share(c, &l->arena, &l->optimizer, l->sliced_optimizer, l->optimizer_copies);
    return all;
}

size_t ls_state_range_bytes(const ls_tensor_list *l, int64_t i)
{
    return (size_t)l->mine[i].count * ls_dtype_size(l->tensors[i].tensor.type.dtype);
}

static size_t staged_bytes(const ls_tensor_list *l)
{
    size_t bytes = 0;
    for (int64_t i = 0; i < l->n; i++)
        bytes += (ls_state_range_bytes(l, i) + 63) / 64 * 64;
    return bytes;
}

ls_status ls_state_share_bytes(size_t *out, const ls_compiled *c)
{
    ls_state_lists l;
    LS_TRY(ls_state_lists_make(&l, c, NULL));
    const ls_checkpoint_contents share = ls_state_share(c, &l, &(ls_checkpoint_contents){ 0 });
    *out = staged_bytes(&share.model) + staged_bytes(&share.optimizer);
    const ls_status s = ls_arena_status(&l.arena);
    ls_state_lists_release(&l);
    return s;
}
