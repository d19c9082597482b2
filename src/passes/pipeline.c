/* pipeline.c - the program of one rank of a pipeline (stages.h).
 *
 * All ranks go through the same graph, of the whole model, so each knows which values cross from stage to
 * stage, and where the mailbox of each lies in the sender's memory. A node whose operands are inputs alone
 * belongs to no stage: each stage that reads it computes it. A value that does not depend on the samples (a
 * weight that several stages use) is made, and sent, once to each rank that has such a stage.
 *
 * A mailbox has as many places as the pipeline has ranks: a rank hands on so many micro-batches before it
 * needs something of the next rank (pipeline_order.c). check_mailboxes plays all ranks' orders with these
 * places. */
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
#include "pipeline_kinds.h"
#include "pipeline_order.h"
#include "stages.h"

/* A value that another rank reads. */
typedef struct crossing {
    int value, from, to;    /* from: its stage; to: the first stage of the reader that reads it */
    int64_t places, offset; /* mailboxes, and where the first one lies */
    int64_t number;         /* of the first one, among those of its sender */
} crossing;

typedef struct pipeline {
    ls_rewrite r;
    const ls_graph *g;
    ls_pipeline_shape shape;
    const char *group;
    int ranks, rank; /* of the pipeline */
    int64_t n, room;
    bool running;
    const ls_stage_pass *order; /* of this rank's passes */
    bool *bound;                /* [nodes]: it belongs to its stage */
    bool *varies;               /* [nodes]: its values depend on the micro-batch, or are made anew for each */
    bool *urgent;   /* [nodes]: another rank reads it, or what follows from it on the same stage */
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

static int rank_of(const pipeline *l, int stage) { return stage % l->ranks; }
static bool is_input(const ls_node *n) { return n->op == &ls_op_input; }

/* The output that has the input's meaning: the next micro-batch reads it. -1: none. */
static int carried(const pipeline *l, const ls_node *n)
{
    for (int i = 0; is_input(n) && ls_source_is(n).what != LS_IS_NAMED && i < l->g->n_outputs; i++)
        if (!ls_identity_order(ls_source_is(n), "", l->g->outputs[i].is, ""))
            return i;
    return -1;
}

/* Notes for every value the ranks that read it: for each 1 + its first stage that does. Forward passes go up,
 * backward passes down. Returns their number. */
static ls_status find_readers(const pipeline *l, int *reads, int *count)
{
    const ls_graph *g = l->g;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i]->n_in && l->bound[i]; k++) {
            const ls_value v = g->nodes[i]->in[k];
            if (!ls_present(v) || !l->bound[ls_node_of(g, v)->id])
                continue;
            const ls_node *from = ls_node_of(g, v);
            const int to = g->nodes[i]->stage;
            const bool up = from->phase == LS_PHASE_FORWARD;
            if (to != from->stage && up != (to > from->stage))
                return ls_fail(LS_E_INTERNAL, "pipeline: %s of %s (stage %d) is read by %s of %s (stage %d)",
                               from->op->name, from->scope->path, from->stage, g->nodes[i]->op->name,
                               g->nodes[i]->scope->path, to);
            int *first = &reads[v.id * l->ranks + rank_of(l, to)];
            if (rank_of(l, to) == rank_of(l, from->stage))
                continue;
            *count += !*first;
            if (!*first || (up ? to + 1 < *first : to + 1 > *first))
                *first = to + 1;
        }
    return LS_OK;
}

/* Lists what crosses, by value and rank, and gives each its mailboxes. */
static ls_status find_crossings(pipeline *l)
{
    const ls_graph *g = l->g;
    int *reads = LS_ARENA_ARRAY(&l->arena, int, (size_t)g->n_vals *(size_t)l->ranks), n = 0;
    int64_t *used = LS_ARENA_ARRAY(&l->arena, int64_t, l->ranks), /* bytes, and mailboxes */
        *numbers = LS_ARENA_ARRAY(&l->arena, int64_t, l->ranks);
    LS_TRY(ls_arena_status(&l->arena));
    LS_TRY(find_readers(l, reads, &n));
    l->crossings = LS_ARENA_ARRAY(&l->arena, crossing, n + 1);
    l->first = LS_ARENA_ARRAY(&l->arena, int, g->n_vals + 1);
    LS_TRY(ls_arena_status(&l->arena));
    for (int v = 0; v < g->n_vals; v++) {
        l->first[v] = l->n_crossings;
        for (int r = 0; r < l->ranks; r++) {
            const int to = reads[v * l->ranks + r] - 1;
            if (to < 0)
                continue;
            const ls_node *from = ls_node_of(g, (ls_value){ .id = v });
            const int64_t most = l->ranks < l->n ? l->ranks : l->n, places = l->varies[from->id] ? most : 1;
            const int rank = rank_of(l, from->stage);
            l->crossings[l->n_crossings++] = (crossing){
                v, from->stage, to, places, used[rank], numbers[rank]
            };
            numbers[rank] += places;
            used[rank] += places * (int64_t)LS_MAILBOX_BYTES(ls_type_bytes(&g->vals[v].type));
            l->room = used[rank] > l->room ? used[rank] : l->room;
        }
    }
    l->first[g->n_vals] = l->n_crossings;
    return LS_OK;
}

static void find_urgent(pipeline *l)
{
    for (int i = l->g->n_nodes - 1; i >= 0; i--) {
        const ls_node *n = l->g->nodes[i];
        for (int k = 0; k < n->n_out; k++)
            l->urgent[i] |= l->first[n->out[k].id] < l->first[n->out[k].id + 1];
        for (int k = 0; k < n->n_in && l->urgent[i]; k++) {
            const ls_node *from = ls_present(n->in[k]) ? ls_node_of(l->g, n->in[k]) : n;
            l->urgent[from->id] |= from->stage == n->stage;
        }
    }
}

/* ---- whether the mailboxes are enough */

/* Where a rank is: before message `crossing` of its pass `pass`. */
typedef struct progress {
    ls_stage_pass *order;
    int64_t pass;
    int crossing;
} progress;

/* Whether a pass sends (1) or receives (-1) in a crossing: in the order of the graph, so of the crossings. */
static int passes_on(const pipeline *l, const ls_stage_pass *x, const crossing *c)
{
    const ls_node *n = ls_node_of(l->g, (ls_value){ .id = c->value });
    const bool forward = x->work == LS_WORK_FORWARD;
    if (x->work == LS_WORK_WEIGHTS || forward != (n->phase == LS_PHASE_FORWARD) ||
        (x->micro && !l->varies[n->id]))
        return 0;
    return (c->from == x->stage) - (c->to == x->stage);
}

/* Lets a rank run until it waits. full: [crossings] messages in their mailboxes. Whether it got further. */
static bool advance(const pipeline *l, progress *r, int64_t *full, int64_t passes)
{
    bool moved = false;
    for (; r->pass < passes; r->pass++, r->crossing = 0, moved = true)
        for (; r->crossing < l->n_crossings; r->crossing++) {
            const crossing *c = &l->crossings[r->crossing];
            const int way = passes_on(l, &r->order[r->pass], c);
            if (way && full[r->crossing] == (way > 0 ? c->places : 0))
                return moved;
            full[r->crossing] += way;
            moved |= way != 0;
        }
    return moved;
}

/* Plays the messages of all ranks: a send waits for a free place, a receive for a message. */
static ls_status check_mailboxes(pipeline *l)
{
    const int64_t passes = ls_pipeline_passes(&l->shape);
    progress *ranks = LS_ARENA_ARRAY(&l->arena, progress, l->ranks);
    int64_t *full = LS_ARENA_ARRAY(&l->arena, int64_t, l->n_crossings + 1);
    LS_TRY(ls_arena_status(&l->arena));
    for (int r = 0; r < l->ranks; r++) {
        ranks[r].order = LS_ARENA_ARRAY(&l->arena, ls_stage_pass, passes);
        LS_TRY(ls_arena_status(&l->arena));
        ls_pipeline_order(ranks[r].order, &l->shape, r);
    }
    l->order = ranks[l->rank].order;
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < l->ranks; r++)
            moved |= advance(l, &ranks[r], full, passes);
    }
    for (int r = 0; r < l->ranks; r++)
        if (ranks[r].pass < passes)
            return ls_fail(LS_E_INTERNAL, "pipeline: rank %d would wait for ever in pass %lld of %lld", r,
                           (long long)ranks[r].pass, (long long)passes);
    return LS_OK;
}

/* ---- making the program */

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
        .ranks = l->ranks,
        .peer = rank_of(l, sends ? x->to : x->from),
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

/* How a value comes to this rank. NULL: it does not. */
static const crossing *arrival(const pipeline *l, ls_value v)
{
    for (int x = l->first[v.id]; x < l->first[v.id + 1]; x++)
        if (rank_of(l, l->crossings[x].to) == l->rank)
            return &l->crossings[x];
    return NULL;
}

static void receive(pipeline *l, ls_value v, int64_t m)
{
    const ls_node *n = ls_node_of(l->g, v);
    const ls_message_attrs a = message(l, arrival(l, v), m, false);
    ls_rewrite_like(&l->r, n);
    map_of(l, n, m)[v.id] = ls_graph_apply(l->r.to, &ls_op_receive, 0, NULL, &a);
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
    if (l->bound[n->id] && rank_of(l, n->stage) != l->rank)
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

/* Receives what this stage is the first of its rank to read: also what only a later pass reads, so that its
 * mailbox becomes free. */
static void receive_all(pipeline *l, const ls_node *n, const ls_stage_pass *x)
{
    for (int k = 0; k < n->n_out && (l->varies[n->id] || !x->micro); k++) {
        const crossing *c = arrival(l, n->out[k]);
        if (c && c->to == x->stage && !map_of(l, n, x->micro)[n->out[k].id].id)
            receive(l, n->out[k], x->micro);
    }
}

static void emit(pipeline *l, const ls_stage_pass *x)
{
    const ls_graph *g = l->g;
    const int64_t m = x->micro;
    const ls_phase phase = x->work == LS_WORK_FORWARD ? LS_PHASE_FORWARD : LS_PHASE_BACKWARD;
    for (int i = 0; i < g->n_nodes && l->r.to->status == LS_OK; i++) {
        const ls_node *n = g->nodes[i];
        if (!l->bound[i] || n->phase != phase)
            continue;
        if (n->stage != x->stage)
            receive_all(l, n, x);
        else if (!map_of(l, n, m)[n->out[0].id].id && (l->urgent[i] || x->work != LS_WORK_INPUTS)) {
            copy_node(l, n, m);
            send(l, n, m);
        }
    }
    const bool whole = x->work == LS_WORK_BACKWARD || x->work == LS_WORK_WEIGHTS;
    for (int i = 0; i < g->n_outputs && whole && l->r.to->status == LS_OK; i++) {
        const ls_node *n = ls_node_of(g, g->outputs[i].value);
        if (n->stage != x->stage || g->outputs[i].is.what != LS_IS_GRADIENT)
            continue;
        const ls_value v = value(l, g->outputs[i].value, m);
        ls_rewrite_like(&l->r, n);
        add_gradient(l, i, v, m);
    }
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

/* The stage that has an output: one of the last rank, if it is computed from inputs alone. */
static int stage_of(const pipeline *l, const ls_output_entry *o)
{
    const ls_node *n = ls_node_of(l->g, o->value);
    return o->is.what == LS_IS_GRADIENT || l->bound[n->id] ? n->stage : l->ranks - 1;
}

static void make_outputs(pipeline *l)
{
    const ls_graph *g = l->g;
    for (int i = 0; i < g->n_outputs; i++) {
        const ls_output_entry *o = &g->outputs[i];
        if (rank_of(l, stage_of(l, o)) != l->rank)
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
    l->urgent = LS_ARENA_ARRAY(&l->arena, bool, g->n_nodes + 1);
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
    LS_TRY(ls_pipeline_kinds(l->bound, l->varies, l->g, &l->arena));
    LS_TRY(find_crossings(l));
    find_urgent(l);
    LS_TRY(check_mailboxes(l));
    LS_TRY(ls_rewrite_begin(&l->r, l->g));
    ls_value *first = l->r.map;
    l->r.to->keeps_sources = true;
    make_sources(l);
    for (int64_t k = 0; k < ls_pipeline_passes(&l->shape); k++)
        emit(l, &l->order[k]);
    make_outputs(l);
    l->r.map = first; /* empty: the outputs are there */
    (*g)->n_outputs = 0;
    return ls_rewrite_end(&l->r, g);
}

ls_status ls_pass_pipeline(ls_graph **g, const ls_parallel *p, int64_t n, bool running)
{
    pipeline l = { .g = *g,
                   .shape = ls_parallel_pipeline(p, n),
                   .group = ls_mesh_axis(&p->mesh, LS_ROLE_PIPELINE),
                   .ranks = ls_parallel_stages(p),
                   .rank = ls_parallel_stage(p),
                   .n = n,
                   .running = running };
    if (l.ranks < 2)
        return LS_OK;
    ls_arena_init(&l.arena);
    const ls_status s = make(&l, g);
    ls_arena_release(&l.arena);
    return s;
}
