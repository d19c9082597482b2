/* explain_param.c - one parameter, from storage to update. A parameter is a range of its unit's flat buffer,
 * which is a source or is gathered from slices. Values that contain the range, or a part of it, are followed
 * through casts, views, transfers and collectives. The gradient is the same range of the unit's gradient. */
#include <stdio.h>
#include <string.h>

#include "describe.h"
#include "internal.h"
#include "ops/rules.h"

/* kind: "converted", "read", "gradient...", "update" */
typedef struct event {
    const char *kind;
    int program, node;
} event;
typedef struct life {
    ls_plan *const *plans;
    event *events;
    int n;
    bool no_memory;
} life;

/* Keeps each program's events in the order of its nodes. */
static void happen(life *l, const char *kind, int program, int node)
{
    int i = l->n++;
    for (; i > 0 && l->events[i - 1].program == program && l->events[i - 1].node > node; i--)
        l->events[i] = l->events[i - 1];
    l->events[i] = (event){ kind, program, node };
}

static bool of_unit(ls_identity is, ls_what what, const ls_stored_at *at)
{
    return is.what == (int64_t)what && is.unit == at->unit;
}
static bool has_parameters(ls_identity is, const ls_stored_at *at)
{
    return ls_is_parameters(is) && is.unit == at->unit;
}

/* (A value that is received comes from another rank's program.) */
static bool is_collective(const ls_node *n) { return n->n_in && n->op->flags & LS_OP_COLLECTIVE; }
static bool is_transfer(const ls_node *n) { return n->op->flags & LS_OP_TRANSFER || n->op == &ls_op_copy; }

/* Whether the result has the operand's elements: in another place, in another type, of more ranks, or summed
 * over ranks. */
static bool passes_on(const ls_node *n)
{
    return ls_is_view(n) || n->op == &ls_op_cast || is_collective(n) || is_transfer(n);
}

static const ls_node *before(const ls_graph *g, const ls_node *n) { return ls_node_of(g, n->in[0]); }

/* The node that makes the unit's gradient; NULL: it is in another program. */
static const ls_node *gradient_of(const ls_graph *g, const ls_stored_at *at)
{
    for (int i = 0; i < g->n_outputs; i++) {
        const ls_node *n = ls_node_of(g, g->outputs[i].value);
        if (!ls_is_source(n) &&
            (of_unit(g->outputs[i].is, LS_IS_GRADIENT, at) ||
             (of_unit(g->outputs[i].is, LS_IS_WEIGHTS, at) && n->phase == LS_PHASE_BACKWARD)))
            return n;
    }
    return NULL;
}

/* The collective of `update` that sums the unit's gradient once a step; NULL: none. */
static bool reduces_gradient(const ls_graph *g, const ls_node *n, const ls_stored_at *at)
{
    if (!is_collective(n))
        return false;
    while (passes_on(n))
        n = before(g, n);
    return n->op == &ls_op_input && of_unit(ls_source_is(n), LS_IS_GRADIENT, at);
}

/* Finds the values that contain elements [begin, end) of the source, and lists the nodes that read them. */
static void follow_value(life *l, int program, const ls_stored_at *at)
{
    const ls_graph *g = l->plans[program]->graph;
    ls_arena scratch;
    ls_arena_init(&scratch);
    /* OTHER_PART: another parameter, or the slice that reshard_after_forward keeps */
    enum { NOTHING, OTHER_PART, WHOLE_SOURCE, THE_PARAMETER };
    char *shows = LS_ARENA_ARRAY(&scratch, char, g->n_vals);
    const int64_t count = ls_type_count(&at->type);
    l->no_memory = l->no_memory || !shows;
    for (int i = 0; i < g->n_nodes && shows; i++) {
        const ls_node *n = g->nodes[i];
        if (ls_is_source(n)) {
            if (has_parameters(ls_source_is(n), at))
                shows[n->out[0].id] = !at->slice && ls_type_count(ls_type_of(g, n->out[0])) == count
                                          ? THE_PARAMETER
                                          : WHOLE_SOURCE;
            continue;
        }
        char best = NOTHING;
        for (int k = 0; k < n->n_in; k++)
            best = shows[n->in[k].id] > best ? shows[n->in[k].id] : best;
        if (best == NOTHING)
            continue;
        bool updates = false;
        for (int k = 0; k < n->n_out; k++)
            updates = updates || (n->op->alias[k] && shows[n->in[n->op->alias[k] - 1].id] != NOTHING);
        if (updates) {
            happen(l, "update", program, i);
        } else if (n->op == &ls_op_flat_view && best == WHOLE_SOURCE) {
            const ls_flat_view_attrs *a = n->attrs;
            const bool here = a->offset == at->offset && ls_type_count(ls_type_of(g, n->out[0])) == count;
            shows[n->out[0].id] = here ? THE_PARAMETER : OTHER_PART;
        } else if (best == OTHER_PART) {
            if (n->op != &ls_op_copy)
                continue;
            shows[n->out[0].id] = WHOLE_SOURCE;
            happen(l, "a slice of its unit kept", program, i);
        } else if (passes_on(n)) {
            shows[n->out[0].id] = best;
            if (!ls_is_view(n))
                happen(l,
                       is_collective(n)       ? "gathered"
                       : n->op == &ls_op_cast ? "converted"
                                              : "copied",
                       program, i);
        } else if (best == THE_PARAMETER) {
            happen(l, "read", program, i);
        }
    }
    ls_arena_release(&scratch);
}

static void follow_gradient(life *l, int program, const ls_stored_at *at)
{
    const ls_plan *p = l->plans[program];
    const ls_graph *g = p->graph;
    for (int i = 0; i < g->n_nodes; i++)
        if (reduces_gradient(g, g->nodes[i], at))
            happen(l, "gradient, summed over the ranks", program, i);
    const ls_node *n = gradient_of(g, at);
    for (; n && passes_on(n); n = before(g, n)) /* backwards along the chain of the parameter's use */
        if (is_collective(n))
            happen(l, "gradient, summed over the ranks", program, n->id);
    if (n && n->op != &ls_op_pack)
        happen(l, "gradient", program, n->id);
    if (!n || n->op != &ls_op_pack)
        return;
    const ls_pack_attrs *a = n->attrs;
    for (int j = 0; j < n->n_in; j++) {
        if (a->starts.v[j] != at->offset)
            continue;
        ls_value v = n->in[j];
        const bool there = p->locations[v.id].alloc == p->locations[n->out[0].id].alloc;
        while (ls_is_view(ls_node_of(g, v)))
            v = ls_node_of(g, v)->in[0];
        happen(l,
               there ? "gradient, computed in its place in the flat buffer"
                     : "gradient, moved into the flat buffer by pack",
               program, ls_node_of(g, v)->id);
    }
}

static life trace_life(ls_arena *scratch, const ls_stored_at *at, int n_plans, ls_plan *const *plans)
{
    int most = 1;
    for (int i = 0; i < n_plans; i++)
        most += plans[i]->graph->n_nodes + 64;
    life l = { .plans = plans, .events = LS_ARENA_ARRAY(scratch, event, most) };
    l.no_memory = !l.events;
    for (int i = 0; i < n_plans && l.events; i++) {
        follow_value(&l, i, at);
        follow_gradient(&l, i, at);
    }
    return l;
}

static int explain_step_of(const ls_plan *p, int node)
{
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].node == node)
            return i;
    return -1;
}

static void link_text(ls_str *out, const ls_node *n)
{
    ls_str_printf(out, "%s", n->op->name);
    if (is_collective(n))
        ls_str_printf(out, "(%s)",
                      n->op == &ls_op_all_gather ? ((const ls_gather_attrs *)n->attrs)->group
                                                 : ((const ls_reduce_attrs *)n->attrs)->group);
    else if (n->op == &ls_op_replicate)
        ls_str_printf(out, "(%s)", ((const ls_replicate_attrs *)n->attrs)->group);
}

/* Writes the chain of ops that ends with `end`. Returns the first value of the chain. */
static const ls_node *chain_text(ls_str *out, const ls_graph *g, const ls_node *end)
{
    const ls_node *n = passes_on(end) ? chain_text(out, g, before(g, end)) : end;
    ls_str_add(out, passes_on(end) ? " -> " : "");
    link_text(out, end);
    return n;
}

/* The chain from the source to the first view that is the parameter: "state -> all_gather(dp) -> flat_view".
 * Nothing if there is none. */
static void use_text(ls_str *out, const ls_graph *g, const ls_stored_at *at)
{
    for (int i = 0; i < g->n_nodes && !out->len; i++) {
        const ls_flat_view_attrs *a = g->nodes[i]->attrs;
        if (g->nodes[i]->op != &ls_op_flat_view || a->offset != at->offset ||
            ls_type_count(ls_type_of(g, g->nodes[i]->out[0])) != ls_type_count(&at->type))
            continue;
        const ls_node *from = chain_text(out, g, g->nodes[i]);
        if (!ls_is_source(from) || !has_parameters(ls_source_is(from), at))
            ls_str_clear(out);
    }
}

/* The chain from the pack to the output, and the operations of `update` before the optimizer. */
static void gradient_text(ls_str *out, const ls_graph *g, const ls_stored_at *at)
{
    const ls_node *n = gradient_of(g, at);
    if (n)
        chain_text(out, g, n);
    for (int i = 0; i < g->n_nodes; i++)
        if (reduces_gradient(g, g->nodes[i], at)) {
            ls_str_add(out, "; once a step ");
            link_text(out, g->nodes[i]);
        }
}

static void chain_texts(ls_str *use, ls_str *gradient, const ls_stored_at *at, int n_plans,
                        ls_plan *const *plans)
{
    for (int i = 0; i < n_plans; i++) {
        use_text(use, plans[i]->graph, at);
        gradient_text(gradient, plans[i]->graph, at);
    }
}

static const char *phase_name(const ls_node *n)
{
    return n->phase == LS_PHASE_FORWARD ? "forward" : n->phase == LS_PHASE_BACKWARD ? "backward" : "update";
}

/* Whether the parameter is packed: its split dimension consists of several parts, and the box has a
 * dimension for the parts in front of it. */
static bool packed(const ls_stored_at *at) { return at->box.ndim > at->type.ndim; }

void ls_explain_param_text(ls_str *out, const ls_stored_at *at, int n_plans, ls_plan *const *plans)
{
    char type[128];
    ls_arena scratch;
    ls_arena_init(&scratch);
    const life l = trace_life(&scratch, at, n_plans, plans);
    ls_str_add(out, l.no_memory ? NULL : "");
    ls_str_printf(out, "%s  %s", at->name, ls_type_text(type, &at->type));
    for (int d = 0; d < at->box.ndim; d++) {
        char parts[48] = "";
        if (packed(at))
            snprintf(parts, sizeof parts, " of each of %lld parts", (long long)at->box.whole[d ? d - 1 : 0]);
        if (at->axes[d])
            ls_str_printf(out, ", block %lld of %lld%s along dimension %d (axis %s)",
                          (long long)(at->box.start[d] / at->box.size[d]),
                          (long long)(at->box.whole[d] / at->box.size[d]), parts, d - packed(at),
                          at->axes[d]);
    }
    ls_str_printf(out, "\n  stored in \"%s\", elements %lld to %lld", at->state, (long long)at->offset,
                  (long long)(at->offset + ls_type_count(&at->type)));
    if (at->slice)
        ls_str_printf(out, " of %lld, of which each of %d ranks holds %lld",
                      (long long)(at->slice * at->shards), at->shards, (long long)at->slice);
    ls_str use = { 0 }, gradient = { 0 };
    chain_texts(&use, &gradient, at, n_plans, plans);
    ls_str_printf(out, "\n  use       %s\n  gradient  %s\n", use.len ? use.data : "none",
                  gradient.len ? gradient.data : "none");
    ls_str_release(&use);
    ls_str_release(&gradient);
    int program = -1;
    for (int i = 0; i < l.n; i++) {
        const event *e = &l.events[i];
        const ls_plan *p = plans[e->program];
        const ls_node *n = p->graph->nodes[e->node];
        if (e->program != program)
            ls_str_printf(out, "  program %s\n", p->graph->name);
        program = e->program;
        ls_str_printf(out, "    step %4d  %-8s  %s by %s%s%s%s\n", explain_step_of(p, e->node), phase_name(n),
                      e->kind, n->op->name, n->scope->path[0] ? " in " : "", n->scope->path,
                      n->clone_of >= 0 ? " (again)" : "");
    }
    if (!l.n)
        ls_str_add(out, "  no program reads it\n");
    ls_arena_release(&scratch);
}

void ls_explain_param_json(ls_json *j, const ls_stored_at *at, int n_plans, ls_plan *const *plans)
{
    char type[128];
    ls_arena scratch;
    ls_arena_init(&scratch);
    const life l = trace_life(&scratch, at, n_plans, plans);
    ls_str_add(&j->out, l.no_memory ? NULL : "");
    ls_json_text(j, "name", at->name);
    ls_json_text(j, "type", ls_type_text(type, &at->type));
    for (int d = 0; d < at->box.ndim; d++) {
        if (!at->axes[d])
            continue;
        ls_json_object(j, "block");
        ls_json_int(j, "dimension", d - packed(at));
        if (packed(at))
            ls_json_int(j, "parts", at->box.whole[d - 1]);
        ls_json_int(j, "number", at->box.start[d] / at->box.size[d]);
        ls_json_int(j, "of", at->box.whole[d] / at->box.size[d]);
        ls_json_close_object(j);
    }
    ls_json_text(j, "stored_in", at->state);
    ls_json_int(j, "offset", at->offset);
    if (at->slice) {
        ls_json_int(j, "slice", at->slice);
        ls_json_int(j, "shards", at->shards);
    }
    ls_str use = { 0 }, gradient = { 0 };
    chain_texts(&use, &gradient, at, n_plans, plans);
    ls_json_text(j, "use", ls_str_text(&use));
    ls_json_text(j, "gradient", ls_str_text(&gradient));
    ls_str_release(&use);
    ls_str_release(&gradient);
    ls_json_array(j, "events");
    for (int i = 0; i < l.n; i++) {
        const ls_plan *p = plans[l.events[i].program];
        const ls_node *n = p->graph->nodes[l.events[i].node];
        ls_json_object(j, NULL);
        ls_json_text(j, "program", p->graph->name);
        ls_json_int(j, "step", explain_step_of(p, n->id));
        ls_json_text(j, "what", l.events[i].kind);
        ls_json_text(j, "op", n->op->name);
        ls_json_text(j, "scope", n->scope->path);
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
    ls_arena_release(&scratch);
}
