/* explain_fold.c - the schedule as lines in reading order, divided into spans. It finds spans that repeat.
 *
 * Two spans are alike if their ops, operand types and collectives are equal. Numbers of values, memory and
 * numbers in names do not matter: block 3, which gathers for block 4, is like block 4, which gathers for
 * block 5. */
#include "explain_fold.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST_PERIOD = 4 }; /* how many spans may repeat together */

typedef struct walk {
    const ls_plan *p;
    ls_explain_line *lines;
    int n;
    bool *done, *runs;
} walk;

/* Nodes without a step (sources, views) come right before the first step that reads them. */
static void need(walk *w, const ls_node *n)
{
    for (int j = 0; j < n->n_in; j++) {
        const ls_node *from = ls_present(n->in[j]) ? ls_node_of(w->p->graph, n->in[j]) : NULL;
        if (!from || w->done[from->id] || w->runs[from->id])
            continue;
        w->done[from->id] = true;
        need(w, from);
        w->lines[w->n++] = (ls_explain_line){ from->id, -1 };
    }
}

int ls_explain_lines(ls_arena *a, const ls_plan *p, ls_explain_line **out)
{
    const ls_graph *g = p->graph;
    walk w = { .p = p,
               .lines = LS_ARENA_ARRAY(a, ls_explain_line, g->n_nodes + p->n_steps + 1),
               .done = LS_ARENA_ARRAY(a, bool, g->n_nodes + 1),
               .runs = LS_ARENA_ARRAY(a, bool, g->n_nodes + 1) };
    *out = w.lines;
    if (a->no_memory)
        return 0;
    for (int i = 0; i < p->n_steps; i++)
        w.runs[p->steps[i].node] = true;
    for (int i = 0; i < p->n_steps; i++) {
        if (p->steps[i].part != LS_PART_WAIT)
            need(&w, g->nodes[p->steps[i].node]);
        w.lines[w.n++] = (ls_explain_line){ p->steps[i].node, i };
    }
    for (int i = 0; i < g->n_nodes; i++) /* outputs that are views, and sources that nothing reads */
        if (!w.done[i] && !w.runs[i]) {
            w.done[i] = true;
            need(&w, g->nodes[i]);
            w.lines[w.n++] = (ls_explain_line){ i, -1 };
        }
    *out = w.lines;
    return w.n;
}

/* [scope ids]: another scope has the same class, so a part of the model repeats. */
static const bool *find_repeated(ls_arena *a, const ls_graph *g)
{
    const ls_scope **scopes = LS_ARENA_ARRAY(a, const ls_scope *, g->n_scopes + 1);
    bool *repeated = LS_ARENA_ARRAY(a, bool, g->n_scopes + 1);
    for (int i = 0; i < g->n_nodes && !a->no_memory; i++)
        for (const ls_scope *s = g->nodes[i]->scope; s; s = s->parent)
            scopes[s->id] = s;
    for (int i = 0; i < g->n_scopes && !a->no_memory; i++)
        for (int k = 0; k < g->n_scopes && !repeated[i]; k++)
            repeated[i] = i != k && scopes[i] && scopes[k] && scopes[i]->block[0] &&
                          !strcmp(scopes[i]->block, scopes[k]->block);
    return repeated;
}

/* The outermost repeated scope around a node. */
static const ls_scope *block_of(const ls_scope *s, const bool *repeated)
{
    const ls_scope *found = NULL;
    for (; s; s = s->parent)
        found = repeated[s->id] ? s : found;
    return found;
}

static bool is_kernel(const ls_plan *p, const ls_explain_line *l)
{
    return l->step >= 0 && p->steps[l->step].part == LS_PART_RUN;
}

static void add_without_numbers(ls_str *out, const char *name)
{
    for (; *name; name++)
        ls_str_add_n(out, isdigit((unsigned char)*name) ? "#" : name, 1);
    ls_str_add(out, " ");
}

/* Appends the properties that are equal in lines that are alike. */
static void sign(ls_str *out, const ls_plan *p, const ls_explain_line *l)
{
    const ls_node *n = p->graph->nodes[l->node];
    const ls_part part = l->step >= 0 ? p->steps[l->step].part : LS_PART_RUN;
    ls_str_printf(out, "%d%d ", l->step >= 0, (int)part);
    add_without_numbers(out, n->scope->path);
    ls_node_text(out, p->graph, n);
    if (part != LS_PART_RUN && p->steps[l->step].collective >= 0) {
        const ls_plan_collective *c = &p->collectives[p->steps[l->step].collective];
        ls_str_printf(out, "%s %s %d ", c->group, ls_collective_name(c->kind), c->map);
    }
    if (part != LS_PART_RUN)
        add_without_numbers(out, ls_half_unit(p, &p->steps[l->step]));
    ls_str_add(out, ";");
}

static bool alike(const ls_explain_span *spans, const ls_str *signs, int a, int b)
{
    return !spans[a].block == !spans[b].block && spans[a].phase == spans[b].phase &&
           !strcmp(ls_str_text(&signs[a]), ls_str_text(&signs[b]));
}

/* How often the spans [i, i + period) are repeated from i on. */
static int times(const ls_explain_span *spans, const ls_str *signs, int n, int i, int period)
{
    int k = 1;
    for (;; k++)
        for (int j = 0; j < period; j++)
            if (i + k * period + j >= n || !alike(spans, signs, i + j, i + k * period + j))
                return k;
}

static void fold(ls_explain_span *spans, const ls_str *signs, int n)
{
    for (int i = 0; i < n;) {
        int period = 1, repeated = 1;
        for (int p = 1; p <= LONGEST_PERIOD && repeated < 2 && spans[i].block; p++) {
            /* (a period begins with a block) */
            period = p;
            repeated = times(spans, signs, n, i, p);
        }
        if (repeated < 2) {
            i++;
            continue;
        }
        spans[i + period - 1].more = repeated - 1;
        spans[i + period - 1].until = i + period * repeated - 1;
        for (int k = i + period; k < i + period * repeated; k++)
            spans[k].hidden = true;
        i += period * repeated;
    }
}

int ls_explain_spans(ls_arena *a, const ls_plan *p, int n, const ls_explain_line *lines,
                     ls_explain_span **out)
{
    ls_explain_span *spans = *out = LS_ARENA_ARRAY(a, ls_explain_span, n + 1);
    const bool *repeated = find_repeated(a, p->graph);
    int n_spans = 0;
    if (a->no_memory)
        return 0;
    for (int i = 0; i < n;) {
        int kernel = i; /* a line without a kernel belongs to the next line that has one */
        while (kernel < n && !is_kernel(p, &lines[kernel]))
            kernel++;
        const ls_node *node = p->graph->nodes[lines[kernel < n ? kernel : n - 1].node];
        const ls_scope *block = kernel < n ? block_of(node->scope, repeated) : NULL;
        const int end = kernel < n ? kernel + 1 : n;
        if (n_spans && spans[n_spans - 1].block == block && spans[n_spans - 1].phase == node->phase)
            spans[n_spans - 1].end = end;
        else
            spans[n_spans++] = (ls_explain_span){
                .first = i, .end = end, .block = block, .phase = node->phase
            };
        i = end;
    }
    ls_str *signs = LS_ARENA_ARRAY(a, ls_str, n_spans + 1);
    if (!signs)
        return 0;
    for (int k = 0; k < n_spans; k++)
        for (int i = spans[k].first; i < spans[k].end; i++)
            sign(&signs[k], p, &lines[i]);
    fold(spans, signs, n_spans);
    for (int k = 0; k < n_spans; k++)
        ls_str_release(&signs[k]);
    return n_spans;
}
