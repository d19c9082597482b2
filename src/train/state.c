/* state.c - a trainer's state as lists of tensors. Units are an arrangement of this run's layout; files know parameters only, so any layout can read what
 * any other wrote. Every state of the programs lands in a list, so a new one cannot be forgotten. */
#include "state.h"

#include <stdlib.h>
#include <string.h>

#include "trainer.h"

typedef struct listing {
    ls_trainer *t;
    ls_arena *arena;
    const char *moments[8];  /* "exp_avg": states named MOMENT.UNIT */
    int n_moments;
    const ls_node **others;  /* states that belong to no unit */
    int n_others;
} listing;

static const char *name_of(const ls_node *n) { return ((const ls_source_attrs *)n->attrs)->name; }
static bool is_buffer(const ls_node *n) { return !strcmp(n->op->name, "buffer"); }

static ls_status add_moment(listing *l, const char *state, size_t length)
{
    for (int i = 0; i < l->n_moments; i++)
        if (strlen(l->moments[i]) == length && !strncmp(l->moments[i], state, length))
            return LS_OK;
    if (l->n_moments == (int)(sizeof l->moments / sizeof l->moments[0]))
        return ls_fail(LS_E_INTERNAL, "more kinds of optimizer state than a checkpoint can hold");
    l->moments[l->n_moments++] = ls_arena_printf(l->arena, "%.*s", (int)length, state);
    return LS_OK;
}

static void add_other(listing *l, const ls_node *n)
{
    for (int i = 0; i < l->n_others; i++)
        if (!strcmp(name_of(l->others[i]), name_of(n)))
            return; /* several programs use it */
    l->others[l->n_others++] = n;
}

static int by_name(const void *a, const void *b) { return strcmp(name_of(*(const ls_node *const *)a), name_of(*(const ls_node *const *)b)); }
static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Sorts the states of all programs: units, their moments, others. */
static ls_status find_states(listing *l)
{
    const ls_compiled *c = &l->t->compiled;
    int nodes = 0;
    for (int p = 0; p < LS_PROGRAMS; p++)
        nodes += c->plans[p] ? c->plans[p]->graph->n_nodes : 0;
    l->others = LS_ARENA_ARRAY(l->arena, const ls_node *, nodes);
    for (int p = 0; p < LS_PROGRAMS; p++) {
        const ls_graph *g = c->plans[p] ? c->plans[p]->graph : NULL;
        for (int i = 0; g && i < g->n_nodes; i++) {
            const ls_node *n = g->nodes[i];
            const char *unit = !strcmp(n->op->name, "state") ? strstr(name_of(n), "unit ") : NULL;
            if (is_buffer(n) || (!unit && !strcmp(n->op->name, "state")))
                add_other(l, n);
            else if (unit && unit != name_of(n))
                LS_TRY(add_moment(l, name_of(n), (size_t)(unit - name_of(n)) - 1));
        }
    }
    qsort(l->others, (size_t)l->n_others, sizeof *l->others, by_name);
    qsort(l->moments, (size_t)l->n_moments, sizeof *l->moments, by_text);
    return LS_OK;
}

typedef struct appending { ls_named_tensor *tensors; ls_range *mine; int64_t n; } appending;

static void append(appending *a, const char *name, const ls_type *type, ls_range mine)
{
    a->tensors[a->n] = (ls_named_tensor){ name, ls_tensor_of(NULL, type) };
    a->mine[a->n++] = mine;
}

/* Parameters, or the moments that belong to them: `moment` NULL or "exp_avg". */
static ls_status append_slots(appending *a, listing *l, const char *moment)
{
    const ls_units *u = &l->t->compiled.units;
    const size_t size = ls_dtype_size(u->dtype);
    ls_tensor *flat = LS_ARENA_ARRAY(l->arena, ls_tensor, u->n);
    for (int i = 0; i < u->n; i++) {
        flat[i] = l->t->units[i];
        if (moment && !u->units[i].frozen)
            LS_TRY(ls_session_tensor(l->t->session, ls_arena_printf(l->arena, "%s.%s", moment, u->units[i].state), &flat[i]));
    }
    for (int i = 0; i < u->n_slots; i++) {
        const ls_slot *s = &u->slots[i];
        if (moment && s->frozen)
            continue;
        const ls_held h = ls_slot_held(u, s);
        ls_type type = s->type;
        type.dtype = u->dtype; /* of the masters */
        append(a, moment ? ls_arena_printf(l->arena, "%s.%s", moment, s->name) : s->name, &type,
               (ls_range){ h.first, h.n, (char *)flat[s->unit].data + (size_t)h.at * size });
    }
    return LS_OK;
}

/* What belongs to no unit is whole on every rank. */
static ls_status append_others(appending *a, listing *l, bool buffers)
{
    for (int i = 0; i < l->n_others; i++) {
        const ls_node *n = l->others[i];
        ls_tensor x;
        if (is_buffer(n) != buffers)
            continue;
        LS_TRY(ls_session_tensor(l->t->session, name_of(n), &x));
        append(a, ls_arena_strdup(l->arena, name_of(n)), &x.type, (ls_range){ 0, ls_type_count(&x.type), x.data });
    }
    return LS_OK;
}

static appending begin(ls_arena *arena, int64_t room)
{
    return (appending){ LS_ARENA_ARRAY(arena, ls_named_tensor, room), LS_ARENA_ARRAY(arena, ls_range, room), 0 };
}

static ls_status make_lists(ls_state_lists *out, ls_trainer *t)
{
    listing l = { .t = t, .arena = &out->arena };
    LS_TRY(find_states(&l));
    appending model = begin(l.arena, t->compiled.units.n_slots + l.n_others);
    appending optimizer = begin(l.arena, (int64_t)l.n_moments * t->compiled.units.n_slots + l.n_others);
    LS_TRY(append_slots(&model, &l, NULL));
    LS_TRY(append_others(&model, &l, true));
    for (int i = 0; i < l.n_moments; i++)
        LS_TRY(append_slots(&optimizer, &l, l.moments[i]));
    out->sliced_optimizer = optimizer.n;
    LS_TRY(append_others(&optimizer, &l, false));
    out->model = (ls_tensor_list){ model.n, model.tensors, model.mine };
    out->optimizer = (ls_tensor_list){ optimizer.n, optimizer.tensors, optimizer.mine };
    out->sliced_model = t->compiled.units.n_slots;
    return LS_OK;
}

ls_status ls_trainer_lists(ls_state_lists *out, ls_trainer *t)
{
    *out = (ls_state_lists){ 0 };
    ls_arena_init(&out->arena);
    ls_status s = make_lists(out, t);
    if (s != LS_OK)
        ls_state_lists_release(out);
    return s;
}

void ls_state_lists_release(ls_state_lists *l)
{
    ls_arena_release(&l->arena);
    *l = (ls_state_lists){ 0 };
}

/* ---- saving and loading */

/* What of a list this rank writes. A slice that `replicas` ranks hold alike is cut between them, by elements; what is whole everywhere is rank 0's. */
static ls_tensor_list my_share(const ls_trainer *t, ls_arena *arena, const ls_tensor_list *l, int64_t sliced)
{
    const ls_sharding *h = &t->compiled.units.sharding;
    const int rank = t->group ? ls_group_rank(t->group) : 0, me = t->group ? ls_mesh_position(&t->compiled.parallel.mesh, rank, h->replicate) : 0;
    ls_range *mine = ls_arena_dup(arena, l->mine, sizeof *mine * (size_t)l->n);
    int64_t all = 0, at = 0;
    for (int64_t i = 0; i < sliced; i++)
        all += mine[i].count;
    const int64_t from = all * me / h->replicas, to = all * (me + 1) / h->replicas;
    for (int64_t i = 0; i < sliced; i++) {
        ls_range *r = &mine[i];
        const int64_t cut = from > at ? from - at : 0, end = to - at < r->count ? to - at : r->count;
        at += r->count;
        r->first += cut;
        r->data = (char *)r->data + (size_t)cut * ls_dtype_size(l->tensors[i].tensor.type.dtype);
        r->count = end > cut ? end - cut : 0;
    }
    for (int64_t i = sliced; i < l->n && rank > 0; i++)
        mine[i].count = 0;
    return (ls_tensor_list){ l->n, l->tensors, mine };
}

ls_status ls_trainer_save_state(ls_trainer *t, const char *dir, const char *config_json, const char *trainer_json, uint64_t max_file, uint64_t *bytes)
{
    ls_state_lists l;
    LS_TRY(ls_trainer_lists(&l, t));
    const ls_checkpoint_contents c = { .config = config_json, .trainer = trainer_json, .max_file = max_file,
                                       .model = my_share(t, &l.arena, &l.model, l.sliced_model),
                                       .optimizer = my_share(t, &l.arena, &l.optimizer, l.sliced_optimizer) };
    ls_status s = ls_checkpoint_save(dir, &c, t->group, bytes);
    ls_state_lists_release(&l);
    return s;
}

ls_status ls_trainer_load_state(ls_trainer *t, const ls_checkpoint *c)
{
    ls_state_lists l;
    if (!c->optimizer)
        return ls_fail(LS_E_FORMAT, "%s holds weights without optimizer state and cannot be continued; begin with them: --set model.init=%s and another "
                       "run.name", c->dir, c->dir);
    LS_TRY(ls_trainer_lists(&l, t));
    ls_status s = ls_ranges_load(c->optimizer, &l.optimizer, &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS, .check_only = true });
    if (s == LS_OK)
        s = ls_session_enter(t->session, "loading a checkpoint");
    if (s == LS_OK)
        s = ls_ranges_load(c->weights, &l.model, &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS });
    if (s == LS_OK)
        s = ls_ranges_load(c->optimizer, &l.optimizer, &(ls_weights_load_opts){ LS_WEIGHTS_LOAD_DEFAULTS });
    t->used = true;
    t->buffers_moved = false;
    if (s == LS_OK)
        ls_session_leave(t->session);
    ls_state_lists_release(&l);
    return s;
}
