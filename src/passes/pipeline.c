/* pipeline.c - the program of one stage of a pipeline (stages.h).
 *
 * All ranks go through the same graph, of the whole model, so each knows which values cross from stage to
 * stage, and where the mailbox of each lies in the sender's memory. A node whose operands are inputs alone
 * belongs to no stage: each stage that reads it computes it. A value that does not depend on the samples (a
 * weight that several stages use) is made, and sent, once.
 *
 * A mailbox has as many places as there are stages, so in every schedule a sender finds one free: a stage has
 * at most so many micro-batches under way. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/sys.h"
#include "comm/collective.h"
#include "graph/identity.h"
#include "graph/op.h"
#include "graph/rewrite.h"
#include "ops/rules.h"
#include "passes.h"
#include "stages.h"

/* A value that another stage reads. */
typedef struct crossing {
    int value, from, to;
    int64_t places, offset; /* mailboxes, and where the first one lies */
    int64_t number;         /* of the first one, among those of its sender */
} crossing;

typedef struct pipeline {
    ls_rewrite r;
    const ls_graph *g;
    const ls_parallel *p;
    const char *group;
    int stages, stage;
    int64_t n, room;
    bool running;
    bool *bound;    /* [nodes]: it belongs to its stage */
    bool *varies;   /* [nodes]: its values depend on the micro-batch */
    ls_value **map; /* [micro-batches][values] */
    crossing *crossings;
    int n_crossings;
    int *first;         /* [values + 1]: of its crossings */
    ls_value *named;    /* [nodes]: an input of the model, with the samples of all micro-batches */
    ls_value *levels;   /* [outputs][64]: sums of gradients */
    uint64_t *occupied; /* [outputs] */
    ls_value *result;   /* [outputs] */
    ls_arena arena;
} pipeline;

static bool is_input(const ls_node *n) { return n->op == &ls_op_input; }

/* The output that has the input's meaning: the next micro-batch reads it. -1: none. */
static int carried(const pipeline *l, const ls_node *n)
{
    for (int i = 0; is_input(n) && ls_source_is(n).what != LS_IS_NAMED && i < l->g->n_outputs; i++)
        if (!ls_identity_order(ls_source_is(n), "", l->g->outputs[i].is, ""))
            return i;
    return -1;
}

static void find_kinds(pipeline *l)
{
    for (int i = 0; i < l->g->n_nodes; i++) {
        const ls_node *n = l->g->nodes[i];
        l->varies[i] = is_input(n);
        l->bound[i] = (n->op->flags & (LS_OP_COLLECTIVE | LS_OP_EFFECT)) ||
                      (n->op == &ls_op_state && ls_is_parameters(ls_source_is(n)));
        for (int k = 0; k < n->n_in; k++)
            if (ls_present(n->in[k])) {
                l->varies[i] |= l->varies[ls_node_of(l->g, n->in[k])->id];
                l->bound[i] |= l->bound[ls_node_of(l->g, n->in[k])->id];
            }
    }
}

/* Lists what crosses, by value and stage, and gives each its mailboxes. */
static ls_status find_crossings(pipeline *l)
{
    const ls_graph *g = l->g;
    bool *reads = LS_ARENA_ARRAY(&l->arena, bool, (size_t)g->n_vals *(size_t)l->stages);
    int64_t *used = LS_ARENA_ARRAY(&l->arena, int64_t, l->stages), /* bytes, and mailboxes */
        *numbers = LS_ARENA_ARRAY(&l->arena, int64_t, l->stages);
    LS_TRY(ls_arena_status(&l->arena));
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in && l->bound[i]; k++) {
            const ls_value v = g->nodes[i]->in[k];
            if (!ls_present(v) || !l->bound[ls_node_of(g, v)->id])
                continue;
            const ls_node *from = ls_node_of(g, v);
            const int to = g->nodes[i]->stage;
            bool *mark = &reads[v.id * l->stages + to];
            n += to != from->stage && !*mark;
            *mark = *mark || to != from->stage;
            if (to != from->stage && (from->phase == LS_PHASE_FORWARD) != (to > from->stage))
                return ls_fail(LS_E_INTERNAL, "pipeline: %s of %s (stage %d) is read by %s of %s (stage %d)",
                               from->op->name, from->scope->path, from->stage, g->nodes[i]->op->name,
                               g->nodes[i]->scope->path, to);
        }
    l->crossings = LS_ARENA_ARRAY(&l->arena, crossing, n + 1);
    l->first = LS_ARENA_ARRAY(&l->arena, int, g->n_vals + 1);
    LS_TRY(ls_arena_status(&l->arena));
    for (int v = 0; v < g->n_vals; v++) {
        l->first[v] = l->n_crossings;
        for (int to = 0; to < l->stages; to++) {
            if (!reads[v * l->stages + to])
                continue;
            const ls_node *from = ls_node_of(g, (ls_value){ .id = v });
            const int64_t most = l->stages < l->n ? l->stages : l->n, places = l->varies[from->id] ? most : 1;
            l->crossings[l->n_crossings++] = (crossing){ v,      from->stage,       to,
                                                         places, used[from->stage], numbers[from->stage] };
            numbers[from->stage] += places;
            used[from->stage] += places * (int64_t)LS_MAILBOX_BYTES(ls_type_bytes(&g->vals[v].type));
            if (used[from->stage] > l->room)
                l->room = used[from->stage];
        }
    }
    l->first[g->n_vals] = l->n_crossings;
    return LS_OK;
}

static ls_message_attrs message(pipeline *l, const crossing *x, int64_t m, bool sends)
{
    const ls_node *from = ls_node_of(l->g, (ls_value){ .id = x->value });
    const ls_type *type = &l->g->vals[x->value].type;
    char *unit = l->varies[from->id]
                     ? ls_arena_printf(&l->r.to->arena, "%s micro-batch %lld of stage %d",
                                       from->phase == LS_PHASE_FORWARD ? "activations of" : "gradients of",
                                       (long long)m, x->from)
                     : ls_arena_printf(&l->r.to->arena, "a weight of stage %d", x->from);
    return (ls_message_attrs){
        .group = l->group,
        .unit = unit,
        .ranks = l->stages,
        .peer = sends ? x->to : x->from,
        .offset = x->offset + m % x->places * (int64_t)LS_MAILBOX_BYTES(ls_type_bytes(type)),
        .number = x->number + m % x->places,
        .room = l->room,
        .type = *type,
    };
}

/* The map of a node's results for micro-batch m: that of micro-batch 0 if they do not depend on it. */
static ls_value *map_of(const pipeline *l, const ls_node *n, int64_t m)
{
    return l->map[l->varies[n->id] ? m : 0];
}

static ls_value value(pipeline *l, ls_value v, int64_t m);

/* Copies a node with its operands for micro-batch m. */
static void copy_node(pipeline *l, const ls_node *n, int64_t m)
{
    ls_value *in = LS_ARENA_ARRAY(&l->r.to->arena, ls_value, n->n_in + 1);
    for (int k = 0; in && k < n->n_in; k++)
        in[k] = value(l, n->in[k], m);
    if (!ls_graph_room(l->r.to))
        return;
    l->r.map = map_of(l, n, m);
    ls_rewrite_copy_with(&l->r, n, in, n->attrs);
}

static void receive(pipeline *l, ls_value v, int64_t m)
{
    const ls_node *n = ls_node_of(l->g, v);
    for (int x = l->first[v.id]; x < l->first[v.id + 1]; x++)
        if (l->crossings[x].to == l->stage) {
            const ls_message_attrs a = message(l, &l->crossings[x], m, false);
            ls_rewrite_like(&l->r, n);
            map_of(l, n, m)[v.id] = ls_graph_apply(l->r.to, &ls_op_receive, 0, NULL, &a);
        }
}

static void input(pipeline *l, const ls_node *n, int64_t m)
{
    const ls_source_attrs *a = n->attrs;
    const int next = carried(l, n);
    ls_value *to = &l->map[m][n->out[0].id];
    ls_rewrite_like(&l->r, n);
    if (next >= 0 && m > 0) {
        *to = value(l, l->g->outputs[next].value, m - 1);
    } else if (a->is.what == LS_IS_NAMED) {
        *to = (ls_slice)(l->r.to, l->named[n->id], 0, m * a->type.dims[0], a->type.dims[0]);
    } else {
        ls_source_attrs own = *a;
        own.is.moment = m;
        *to = ls_graph_apply(l->r.to, &ls_op_input, 0, NULL, &own);
    }
}

/* The new value of v for micro-batch m. It is made here if it is an input, comes from another stage, or
 * belongs to none. */
static ls_value value(pipeline *l, ls_value v, int64_t m)
{
    if (!ls_present(v))
        return v;
    const ls_node *n = ls_node_of(l->g, v);
    const ls_value *at = &map_of(l, n, m)[v.id];
    if (at->id)
        return *at;
    if (l->bound[n->id] && n->stage != l->stage)
        receive(l, v, m);
    else if (is_input(n))
        input(l, n, m);
    else
        copy_node(l, n, m);
    return at->id ? *at : (ls_value){ .id = -1 };
}

static void send(pipeline *l, const ls_node *n, int64_t m)
{
    for (int k = 0; k < n->n_out; k++) {
        const int v = n->out[k].id;
        for (int x = l->first[v]; x < l->first[v + 1]; x++) {
            const ls_message_attrs a = message(l, &l->crossings[x], m, true);
            const ls_value of = value(l, n->out[k], m);
            ls_rewrite_like(&l->r, n);
            ls_graph_apply(l->r.to, &ls_op_send, 1, &of, &a);
        }
    }
}

/* Adds a gradient, as step/accumulate.c does. */
static void add_gradient(pipeline *l, int output, ls_value v, int64_t m)
{
    ls_value *levels = &l->levels[(size_t)output * 64];
    uint64_t *occupied = &l->occupied[output];
    const bool last = m + 1 == l->n;
    int k = 0;
    for (; (*occupied & (uint64_t)1 << k) || (last && *occupied >> k); k++)
        if (*occupied & (uint64_t)1 << k) {
            v = ls_add(l->r.to, levels[k], v);
            *occupied &= ~((uint64_t)1 << k);
        }
    k = l->running ? 0 : k;
    levels[k] = v;
    *occupied |= (uint64_t)1 << k;
    l->result[output] = v;
}

/* One pass of micro-batch m on this stage. */
static void emit(pipeline *l, ls_phase phase, int64_t m)
{
    const ls_graph *g = l->g;
    for (int i = 0; i < g->n_nodes && l->r.to->status == LS_OK; i++) {
        const ls_node *n = g->nodes[i];
        if (!l->bound[i] || n->phase != phase)
            continue;
        if (n->stage == l->stage && !map_of(l, n, m)[n->out[0].id].id) {
            copy_node(l, n, m);
            send(l, n, m);
        } else if (n->stage != l->stage && (l->varies[i] || !m)) {
            for (int k = 0; k < n->n_out;
                 k++) /* also what only a later pass reads: its mailbox becomes free */
                if (!map_of(l, n, m)[n->out[k].id].id)
                    receive(l, n->out[k], m);
        }
    }
    for (int i = 0; i < g->n_outputs && phase == LS_PHASE_BACKWARD && l->r.to->status == LS_OK; i++) {
        const ls_node *n = ls_node_of(g, g->outputs[i].value);
        if (n->stage != l->stage || g->outputs[i].is.what != LS_IS_GRADIENT)
            continue;
        const ls_value v = value(l, g->outputs[i].value, m);
        ls_rewrite_like(&l->r, n);
        add_gradient(l, i, v, m);
    }
}

/* Forward and backward passes in the order of the schedule. A later stage begins its backward passes earlier.
 */
static void follow_schedule(pipeline *l)
{
    const int64_t ahead = l->p->schedule == LS_SCHEDULE_GPIPE ? l->n : l->stages - 1 - l->stage;
    int64_t backward = 0;
    for (int64_t m = 0; m < l->n; m++) {
        emit(l, LS_PHASE_FORWARD, m);
        if (m >= ahead)
            emit(l, LS_PHASE_BACKWARD, backward++);
    }
    while (backward < l->n)
        emit(l, LS_PHASE_BACKWARD, backward++);
}

/* All inputs of the model, and states that belong to no unit, in all stages: each rank counts targets, and
 * all have the same fields and save the same states. */
static void make_sources(pipeline *l)
{
    for (int i = 0; i < l->g->n_nodes; i++) {
        const ls_node *n = l->g->nodes[i];
        if (n->op == &ls_op_state && !l->bound[i])
            value(l, n->out[0], 0);
        if (!is_input(n))
            continue;
        ls_source_attrs own = *(const ls_source_attrs *)n->attrs;
        if (own.is.what == LS_IS_NAMED && own.type.ndim) {
            own.type.dims[0] *= l->n;
            ls_rewrite_like(&l->r, n);
            l->named[i] = ls_graph_apply(l->r.to, &ls_op_input, 0, NULL, &own);
        }
        for (int64_t m = 0; m < l->n && own.is.what != LS_IS_NAMED && carried(l, n) < 0; m++)
            input(l, n, m);
    }
}

/* The stage that has an output: the last, if it is computed from inputs alone. */
static int stage_of(const pipeline *l, const ls_output_entry *o)
{
    const ls_node *n = ls_node_of(l->g, o->value);
    return o->is.what == LS_IS_GRADIENT || l->bound[n->id] ? n->stage : l->stages - 1;
}

static void make_outputs(pipeline *l)
{
    const ls_graph *g = l->g;
    for (int i = 0; i < g->n_outputs; i++) {
        const ls_output_entry *o = &g->outputs[i];
        if (stage_of(l, o) != l->stage)
            continue;
        if (o->is.what == LS_IS_GRADIENT) {
            ls_output_like(l->r.to, o, l->result[i]);
            continue;
        }
        bool last = false;
        for (int k = 0; k < g->n_nodes; k++)
            last = last || carried(l, g->nodes[k]) == i;
        for (int64_t m = last ? l->n - 1 : 0; m < l->n; m++) {
            ls_output_entry own = *o;
            own.is.moment = last ? o->is.moment : m;
            ls_output_like(l->r.to, &own, value(l, o->value, m));
        }
    }
}

static ls_status make_room(pipeline *l)
{
    const ls_graph *g = l->g;
    l->bound = LS_ARENA_ARRAY(&l->arena, bool, g->n_nodes + 1);
    l->varies = LS_ARENA_ARRAY(&l->arena, bool, g->n_nodes + 1);
    l->named = LS_ARENA_ARRAY(&l->arena, ls_value, g->n_nodes + 1);
    l->levels = LS_ARENA_ARRAY(&l->arena, ls_value, 64 * (g->n_outputs + 1));
    l->occupied = LS_ARENA_ARRAY(&l->arena, uint64_t, g->n_outputs + 1);
    l->result = LS_ARENA_ARRAY(&l->arena, ls_value, g->n_outputs + 1);
    l->map = LS_ARENA_ARRAY(&l->arena, ls_value *, l->n);
    LS_TRY(ls_arena_status(&l->arena));
    for (int64_t m = 0; m < l->n; m++)
        l->map[m] = LS_ARENA_ARRAY(&l->arena, ls_value, g->n_vals);
    return ls_arena_status(&l->arena);
}

static ls_status make(pipeline *l, ls_graph **g)
{
    LS_TRY(make_room(l));
    find_kinds(l);
    LS_TRY(find_crossings(l));
    LS_TRY(ls_rewrite_begin(&l->r, l->g));
    ls_value *first = l->r.map;
    l->r.to->keeps_sources = true;
    make_sources(l);
    follow_schedule(l);
    make_outputs(l);
    l->r.map = first; /* empty: the outputs are there */
    (*g)->n_outputs = 0;
    return ls_rewrite_end(&l->r, g);
}

ls_status ls_pass_pipeline(ls_graph **g, const ls_parallel *p, int64_t n, bool running)
{
    pipeline l = { .g = *g,
                   .p = p,
                   .group = ls_mesh_axis(&p->mesh, LS_ROLE_PIPELINE),
                   .stages = ls_parallel_stages(p),
                   .stage = ls_parallel_stage(p),
                   .n = n,
                   .running = running };
    if (l.stages < 2)
        return LS_OK;
    ls_arena_init(&l.arena);
    const ls_status s = make(&l, g);
    ls_arena_release(&l.arena);
    return s;
}
