/* explain.c - the compiled step made readable: every step with where its results lie and why no copy was needed, and the life of one
 * parameter through the programs. */
#include <string.h>

#include "describe.h"
#include "internal.h"

static const char *const PHASES[] = { "forward", "backward", "update" };
static const char *const MEMORIES[] = { "arena", "state", "io" };

/* "state unit root", "io loss", "arena +1024 B" */
static void place_text(ls_str *out, const ls_plan *p, int value)
{
    const ls_place *at = &p->places[value];
    if (at->alloc < 0) {
        ls_str_add(out, "nowhere");
        return;
    }
    const ls_alloc *a = &p->allocs[at->alloc];
    if (a->name && !at->offset)
        ls_str_printf(out, "%s \"%s\"", MEMORIES[a->memory], a->name);
    else if (a->name)
        ls_str_printf(out, "%s \"%s\" +%zu", MEMORIES[a->memory], a->name, at->offset);
    else
        ls_str_printf(out, "arena +%zu", a->offset + at->offset);
}

/* How output k of a step came to lie where it does: "updated in place", "over %12", "inside %40", "" */
static void why_there(ls_str *out, const ls_plan *p, const ls_node *n, int k)
{
    const int v = n->out[k].id, alloc = p->places[v].alloc;
    if (n->op->alias[k]) {
        ls_str_add(out, "updated in place");
        return;
    }
    for (int j = 0; k == 0 && j < n->n_in && j < 32; j++)
        if ((n->op->inplace >> j & 1) && ls_present(n->in[j]) && p->places[n->in[j].id].alloc == alloc &&
            p->places[n->in[j].id].offset == p->places[v].offset) {
            ls_str_printf(out, "over %%%d", n->in[j].id);
            return;
        }
    const int base = alloc < 0 ? -1 : p->allocs[alloc].value;
    if (base > 0 && base != v && ls_type_bytes(ls_type_of(p->graph, n->out[k])) < p->allocs[alloc].bytes)
        ls_str_printf(out, "born inside %%%d", base);
}

static void values_text(ls_str *out, const ls_graph *g, int n, const ls_value *v, bool types)
{
    char type[128];
    for (int j = 0; j < n && j < 12; j++) {
        ls_str_add(out, j ? ", " : "");
        if (!ls_present(v[j]))
            ls_str_add(out, "-");
        else
            ls_str_printf(out, "%%%d", v[j].id);
        if (types && ls_present(v[j]))
            ls_str_printf(out, " %s", ls_type_text(type, ls_type_of(g, v[j])));
    }
    if (n > 12)
        ls_str_printf(out, ", ... %d more", n - 12);
}

/* node -> step, -1: none. */
static int *steps_of_nodes(ls_arena *scratch, const ls_plan *p)
{
    int *step = LS_ARENA_ARRAY(scratch, int, p->graph->n_nodes);
    for (int i = 0; i < p->graph->n_nodes; i++)
        step[i] = -1;
    for (int i = 0; i < p->n_steps; i++)
        step[p->steps[i].node] = i;
    return step;
}

static const char *remark(const ls_node *n, int step)
{
    if (ls_is_source(n))
        return "from outside";
    if (ls_is_view(n))
        return "view";
    if (step < 0)
        return "all parts are born in place";
    if (n->clone_of >= 0)
        return "computed again";
    return !strcmp(n->op->name, "copy") ? "copied, because the next op cannot follow these strides" : "";
}

void ls_explain_text(ls_str *out, const ls_plan *p)
{
    const ls_graph *g = p->graph;
    ls_arena scratch;
    ls_arena_init(&scratch);
    const int *step_of = steps_of_nodes(&scratch, p);
    ls_str_printf(out, "program %s on %s (%s, %d threads): %d steps\n", g->name, p->device.ops->name, ls_isa_name(p->device.isa),
                  p->device.threads, p->n_steps);
    ls_phase phase = LS_PHASE_FORWARD;
    const char *scope = NULL;
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        const int s = step_of[i];
        if (!scope || n->phase != phase || strcmp(scope, n->scope->path)) {
            phase = n->phase;
            scope = n->scope->path;
            ls_str_printf(out, "%s  %s\n", PHASES[phase], scope[0] ? scope : "(top level)");
        }
        if (s >= 0)
            ls_str_printf(out, "%5d  ", s);
        else
            ls_str_add(out, "       ");
        ls_str_printf(out, "%s ", n->op->name);
        values_text(out, g, n->n_in, n->in, false);
        ls_str_add(out, n->n_in ? " -> " : "-> ");
        values_text(out, g, n->n_out, n->out, true);
        ls_str_add(out, "  @ ");
        for (int k = 0; k < n->n_out; k++) {
            ls_str_add(out, k ? ", " : "");
            place_text(out, p, n->out[k].id);
            ls_str why = { 0 };
            if (s >= 0)
                why_there(&why, p, n, k);
            if (why.len)
                ls_str_printf(out, " (%s)", why.data);
            ls_str_release(&why);
        }
        const char *note = remark(n, s);
        if (note[0])
            ls_str_printf(out, "  [%s]", note);
        if (s >= 0) {
            char b[32];
            if (p->steps[s].cost.flops > 0)
                ls_str_printf(out, "  %.3g MFLOP", p->steps[s].cost.flops / 1e6);
            ls_str_printf(out, "  %s", ls_format_bytes(b, (uint64_t)p->steps[s].cost.bytes));
            if (p->steps[s].workspace >= 0)
                ls_str_printf(out, "  workspace %s", ls_format_bytes(b, p->allocs[p->steps[s].workspace].bytes));
            if (p->steps[s].seconds > 0)
                ls_str_printf(out, "  %.1f us", p->steps[s].seconds * 1e6);
        }
        ls_str_add(out, "\n");
    }
    for (int i = 0; i < g->n_outputs; i++) {
        ls_str_printf(out, "output \"%s\" = %%%d  @ ", g->outputs[i].name, g->outputs[i].value.id);
        place_text(out, p, g->outputs[i].value.id);
        ls_str_add(out, "\n");
    }
    ls_arena_release(&scratch);
}

static void value_json(ls_json *j, const ls_plan *p, ls_value v)
{
    char type[128];
    ls_json_object(j, NULL);
    ls_json_int(j, "value", v.id);
    ls_json_text(j, "type", ls_type_text(type, ls_type_of(p->graph, v)));
    const ls_place *at = &p->places[v.id];
    if (at->alloc >= 0) {
        const ls_alloc *a = &p->allocs[at->alloc];
        ls_json_text(j, "memory", MEMORIES[a->memory]);
        if (a->name)
            ls_json_text(j, "name", a->name);
        ls_json_int(j, "offset", (int64_t)((a->name ? 0 : a->offset) + at->offset));
    }
    ls_json_close_object(j);
}

void ls_explain_json(ls_json *j, const char *key, const ls_plan *p)
{
    const ls_graph *g = p->graph;
    ls_arena scratch;
    ls_arena_init(&scratch);
    const int *step_of = steps_of_nodes(&scratch, p);
    ls_json_object(j, key);
    ls_json_text(j, "program", g->name);
    ls_json_array(j, "nodes");
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        const int s = step_of[i];
        ls_json_object(j, NULL);
        if (s >= 0)
            ls_json_int(j, "step", s);
        ls_json_text(j, "op", n->op->name);
        ls_json_text(j, "phase", PHASES[n->phase]);
        ls_json_text(j, "scope", n->scope->path);
        ls_json_array(j, "in");
        for (int k = 0; k < n->n_in; k++)
            ls_json_int(j, NULL, n->in[k].id);
        ls_json_close_array(j);
        ls_json_array(j, "out");
        for (int k = 0; k < n->n_out; k++)
            value_json(j, p, n->out[k]);
        ls_json_close_array(j);
        ls_str why = { 0 };
        if (s >= 0)
            why_there(&why, p, n, 0);
        ls_json_text(j, "note", why.len ? why.data : remark(n, s));
        ls_str_release(&why);
        if (s >= 0) {
            ls_json_f64(j, "flops", p->steps[s].cost.flops);
            ls_json_f64(j, "bytes", p->steps[s].cost.bytes);
            if (p->steps[s].seconds > 0)
                ls_json_f64(j, "seconds", p->steps[s].seconds);
        }
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
    ls_json_array(j, "outputs");
    for (int i = 0; i < g->n_outputs; i++) {
        ls_json_object(j, NULL);
        ls_json_text(j, "name", g->outputs[i].name);
        ls_json_int(j, "value", g->outputs[i].value.id);
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
    ls_json_close_object(j);
    ls_arena_release(&scratch);
}
