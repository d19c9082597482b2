/* explain_param.c - one parameter from storage to update. A parameter is a range of a source (its unit's flat buffer); what shows that
 * range, whole or in part, is followed through casts and views; its gradient is the part of the output "grad.<source>" at that range. */
#include <string.h>

#include "describe.h"
#include "internal.h"

typedef struct event { const char *kind; int program, node; } event; /* kind: "cast", "read", "gradient...", "update" */
typedef struct life { ls_plan *const *plans; event *events; int n; } life;

/* Keeps each program's events in the order of its nodes. */
static void happen(life *l, const char *kind, int program, int node)
{
    int i = l->n++;
    for (; i > 0 && l->events[i - 1].program == program && l->events[i - 1].node > node; i--)
        l->events[i] = l->events[i - 1];
    l->events[i] = (event){ kind, program, node };
}

/* Marks the values of a program that show elements [begin, end) of the source, and lists who reads them. */
static void follow_value(life *l, int program, const ls_stored_at *at)
{
    const ls_graph *g = l->plans[program]->graph;
    ls_arena scratch;
    ls_arena_init(&scratch);
    enum { NOTHING, WHOLE_SOURCE, THE_PARAMETER };
    char *shows = LS_ARENA_ARRAY(&scratch, char, g->n_vals);
    const int64_t count = ls_type_count(&at->type);
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        if (ls_is_source(n)) {
            if (!strcmp(ls_source_name(n), at->state))
                shows[n->out[0].id] = ls_type_count(ls_type_of(g, n->out[0])) == count ? THE_PARAMETER : WHOLE_SOURCE;
            continue;
        }
        char best = NOTHING;
        for (int k = 0; k < n->n_in; k++)
            best = shows[n->in[k].id] > best ? shows[n->in[k].id] : best;
        if (best == NOTHING)
            continue;
        const bool cast = !strcmp(n->op->name, "cast"), flat = !strcmp(n->op->name, "flat_view");
        bool updates = false;
        for (int k = 0; k < n->n_out; k++)
            updates = updates || (n->op->alias[k] && shows[n->in[n->op->alias[k] - 1].id] != NOTHING);
        if (updates) {
            happen(l, "update", program, i);
        } else if (flat && best == WHOLE_SOURCE) {
            const ls_flat_view_attrs *a = n->attrs;
            if (a->offset == at->offset && ls_type_count(ls_type_of(g, n->out[0])) == count)
                shows[n->out[0].id] = THE_PARAMETER;
        } else if (ls_is_view(n) || cast) {
            shows[n->out[0].id] = best;
            if (cast)
                happen(l, "cast", program, i);
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
    for (int i = 0; i < g->n_outputs; i++) {
        if (strncmp(g->outputs[i].name, "grad.", 5) || strcmp(g->outputs[i].name + 5, at->state))
            continue;
        const ls_node *n = ls_node_of(g, g->outputs[i].value);
        if (ls_is_source(n))
            return;
        while (!strcmp(n->op->name, "cast") || ls_is_view(n)) /* the gradient of a cast parameter is cast back */
            n = ls_node_of(g, n->in[0]);
        const ls_pack_attrs *a = n->attrs;
        if (strcmp(n->op->name, "pack")) {
            happen(l, "gradient", program, n->id);
            return;
        }
        for (int j = 0; j < n->n_in; j++) {
            if (a->starts.v[j] != at->offset)
                continue;
            ls_value v = n->in[j];
            const bool there = p->places[v.id].alloc == p->places[n->out[0].id].alloc;
            while (ls_is_view(ls_node_of(g, v)))
                v = ls_node_of(g, v)->in[0];
            happen(l, there ? "gradient, born in its place in the flat buffer" : "gradient, moved into the flat buffer by pack", program,
                   ls_node_of(g, v)->id);
        }
    }
}

static life trace_life(ls_arena *scratch, const ls_stored_at *at, int n_plans, ls_plan *const *plans)
{
    int most = 1;
    for (int i = 0; i < n_plans; i++)
        most += plans[i]->graph->n_nodes + 64;
    life l = { .plans = plans, .events = LS_ARENA_ARRAY(scratch, event, most) };
    for (int i = 0; i < n_plans; i++) {
        follow_value(&l, i, at);
        follow_gradient(&l, i, at);
    }
    return l;
}

static int step_of(const ls_plan *p, int node)
{
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].node == node)
            return i;
    return -1;
}

void ls_explain_param_text(ls_str *out, const ls_stored_at *at, int n_plans, ls_plan *const *plans)
{
    char type[128];
    ls_arena scratch;
    ls_arena_init(&scratch);
    const life l = trace_life(&scratch, at, n_plans, plans);
    ls_str_printf(out, "%s  %s\n  stored in \"%s\", elements %lld to %lld\n", at->name, ls_type_text(type, &at->type), at->state,
                  (long long)at->offset, (long long)(at->offset + ls_type_count(&at->type)));
    int program = -1;
    for (int i = 0; i < l.n; i++) {
        const event *e = &l.events[i];
        const ls_plan *p = plans[e->program];
        const ls_node *n = p->graph->nodes[e->node];
        if (e->program != program)
            ls_str_printf(out, "  program %s\n", p->graph->name);
        program = e->program;
        ls_str_printf(out, "    step %4d  %-8s  %s by %s%s%s%s\n", step_of(p, e->node),
                      n->phase == LS_PHASE_FORWARD ? "forward" : n->phase == LS_PHASE_BACKWARD ? "backward" : "update", e->kind, n->op->name,
                      n->scope->path[0] ? " in " : "", n->scope->path, n->clone_of >= 0 ? " (computed again)" : "");
    }
    if (!l.n)
        ls_str_add(out, "  no program reads it\n");
    ls_arena_release(&scratch);
}

void ls_explain_param_json(ls_json *j, const char *key, const ls_stored_at *at, int n_plans, ls_plan *const *plans)
{
    char type[128];
    ls_arena scratch;
    ls_arena_init(&scratch);
    const life l = trace_life(&scratch, at, n_plans, plans);
    ls_json_object(j, key);
    ls_json_text(j, "name", at->name);
    ls_json_text(j, "type", ls_type_text(type, &at->type));
    ls_json_text(j, "stored_in", at->state);
    ls_json_int(j, "offset", at->offset);
    ls_json_array(j, "events");
    for (int i = 0; i < l.n; i++) {
        const ls_plan *p = plans[l.events[i].program];
        const ls_node *n = p->graph->nodes[l.events[i].node];
        ls_json_object(j, NULL);
        ls_json_text(j, "program", p->graph->name);
        ls_json_int(j, "step", step_of(p, n->id));
        ls_json_text(j, "what", l.events[i].kind);
        ls_json_text(j, "op", n->op->name);
        ls_json_text(j, "scope", n->scope->path);
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
    ls_json_close_object(j);
    ls_arena_release(&scratch);
}
