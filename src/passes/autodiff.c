/* autodiff.c - reverse-mode differentiation with ordinary ops. It applies the chain rule; gradients of ops
 * are in their rows. */
#define LS_NO_CALL_SITES /* new nodes keep the call site of the model's line */
#include "autodiff.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "ops/rules.h"

/* The contributions to a value's gradient so far, as a list. They are added when the pass reaches the node
 * that makes the value. */
typedef struct contribution {
    ls_value value;
    struct contribution *next;
} contribution;

typedef struct tape {
    ls_graph *g;
    int n_vals;              /* number of values in the forward graph */
    bool *needs;             /* [n_vals]: the value depends on one of wrt */
    contribution **incoming; /* [n_vals], newest first */
    ls_arena arena;
} tape;

/* Gives `grad` the placements of a gradient of v. They only serve explanation. */
static void lies_as_gradient_of(tape *t, ls_value grad, ls_value v)
{
    if (grad.id > 0 && !ls_val_of(t->g, grad)->placed)
        t->g->vals[grad.id].placed = ls_placed_gradient(&t->g->arena, ls_val_of(t->g, v)->placed);
}

static void contribute(tape *t, ls_value to, ls_value grad)
{
    lies_as_gradient_of(t, grad, to);
    contribution *c = LS_ARENA_NEW(&t->arena, contribution);
    if (!c)
        return; /* ls_backward says so */
    *c = (contribution){ grad, t->incoming[to.id] };
    t->incoming[to.id] = c;
}

static bool is_pack(const ls_graph *g, ls_value v) { return ls_node_of(g, v)->op == &ls_op_pack; }

typedef struct part {
    ls_value value;
    int64_t start, end;
} part;

static int by_start(const void *a, const void *b)
{
    const part *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Merges those of n contributions that are packs along the same dimension and do not overlap. Returns how
 * many contributions are left. */
static int merge_packs(tape *t, ls_value *v, int n)
{
    ls_graph *g = t->g;
    int first = -1, packs = 0, parts = 0;
    for (int i = 0; i < n; i++) {
        if (!is_pack(g, v[i]))
            continue;
        const ls_node *p = ls_node_of(g, v[i]);
        if (first < 0)
            first = i;
        if (((const ls_pack_attrs *)p->attrs)->dim !=
            ((const ls_pack_attrs *)ls_node_of(g, v[first])->attrs)->dim)
            return n;
        packs++;
        parts += p->n_in;
    }
    if (packs < 2)
        return n;
    const ls_pack_attrs *a = ls_node_of(g, v[first])->attrs;
    part *all = LS_ARENA_ARRAY(&t->arena, part, parts);
    ls_value *in = LS_ARENA_ARRAY(&t->arena, ls_value, parts);
    int64_t *starts = LS_ARENA_ARRAY(&t->arena, int64_t, parts);
    if (!starts)
        return n;
    int k = 0;
    for (int i = 0; i < n; i++) {
        if (!is_pack(g, v[i]))
            continue;
        const ls_node *p = ls_node_of(g, v[i]);
        const ls_pack_attrs *pa = p->attrs;
        for (int j = 0; j < p->n_in; j++) {
            int64_t start = pa->starts.v[j];
            all[k++] = (part){ p->in[j], start, start + ls_type_of(g, p->in[j])->dims[pa->dim] };
        }
    }
    qsort(all, (size_t)parts, sizeof *all, by_start);
    for (int i = 0; i < parts; i++) {
        if (i && all[i].start < all[i - 1].end)
            return n; /* two uses of the same range: their gradients must be added */
        in[i] = all[i].value;
        starts[i] = all[i].start;
    }
    ls_value merged = ls_pack(g, parts, in, (int)a->dim, a->extent, starts);
    int out = 0;
    for (int i = 0; i < n; i++)
        if (i == first)
            v[out++] = merged;
        else if (!is_pack(g, v[i]))
            v[out++] = v[i];
    return out;
}

/* The earliest stage that makes one of these: their sum belongs there, so that one value crosses to the stage
 * before, and not each of them. */
static int earliest(const ls_graph *g, int n, const ls_value *v)
{
    int stage = ls_node_of(g, v[0])->stage;
    for (int i = 1; i < n; i++)
        if (ls_node_of(g, v[i])->stage < stage)
            stage = ls_node_of(g, v[i])->stage;
    return stage;
}

/* The sum of all contributions to v, oldest first; absent if there are none. */
static ls_value total(tape *t, ls_value v)
{
    int n = 0;
    for (contribution *c = t->incoming[v.id]; c; c = c->next)
        n++;
    if (!n)
        return LS_NONE;
    ls_value *list = LS_ARENA_ARRAY(&t->arena, ls_value, n);
    if (!list)
        return LS_NONE;
    int i = n;
    for (contribution *c = t->incoming[v.id]; c; c = c->next)
        list[--i] = c->value;
    const int stage = t->g->stage;
    t->g->stage = earliest(t->g, n, list);
    n = merge_packs(t, list, n);
    ls_value sum = list[0];
    for (i = 1; i < n && sum.id > 0; i++) {
        t->g->stage = earliest(t->g, 2, (ls_value[]){ sum, list[i] });
        sum = ls_add(t->g, sum, list[i]);
        lies_as_gradient_of(t, sum, v);
    }
    t->g->stage = stage;
    return sum;
}

static void find_needed(tape *t, int n, const ls_value *wrt, int last)
{
    for (int i = 0; i < n; i++)
        t->needs[wrt[i].id] = true;
    for (int i = 0; i <= last; i++) {
        const ls_node *node = t->g->nodes[i];
        bool any = false;
        for (int k = 0; k < node->n_in; k++)
            any |= t->needs[node->in[k].id];
        for (int k = 0; k < node->n_out && any; k++)
            if (ls_dtype_is_float(ls_type_of(t->g, node->out[k])->dtype))
                t->needs[node->out[k].id] = true;
    }
}

static void differentiate(tape *t, const ls_node *node)
{
    ls_graph *g = t->g;
    ls_value dout[LS_MAX_OUT] = { { 0 } };
    bool any_out = false, any_in = false;
    bool *needs = LS_ARENA_ARRAY(&t->arena, bool, node->n_in + 1);
    ls_value *din = LS_ARENA_ARRAY(&t->arena, ls_value, node->n_in + 1);
    if (!din)
        return;
    for (int k = 0; k < node->n_in; k++)
        any_in |= needs[k] = ls_present(node->in[k]) && t->needs[node->in[k].id];
    if (!any_in)
        return;
    g->scope = node->scope;
    g->stage = node->stage;
    g->file = node->file;
    g->line = node->line;
    g->at = node->at;
    for (int k = 0; k < node->n_out; k++) {
        dout[k] = total(t, node->out[k]);
        any_out |= ls_present(dout[k]);
    }
    if (!any_out)
        return;
    if (!node->op->grad) {
        ls_graph_error(g, LS_E_UNSUPPORTED,
                       "%s has no gradient, but a parameter's gradient would have to flow through it",
                       node->op->name);
        return;
    }
    ls_grad rule = { .g = g, .node = node, .dout = dout, .din = din, .needs = needs };
    node->op->grad(&rule);
    for (int k = 0; k < node->n_in && g->status == LS_OK; k++)
        if (needs[k] && ls_present(din[k]))
            contribute(t, node->in[k], din[k]);
}

ls_status ls_backward(ls_graph *g, ls_value loss, ls_value seed, int n, const ls_value *wrt, ls_value *grads)
{
    LS_TRY(ls_graph_status(g));
    if (loss.id <= 0 || ls_type_of(g, loss)->ndim != 0)
        return ls_fail(LS_E_ARG, "graph \"%s\": the loss must be a scalar", g->name);
    tape t = { .g = g, .n_vals = g->n_vals };
    ls_arena_init(&t.arena);
    t.needs = LS_ARENA_ARRAY(&t.arena, bool, t.n_vals);
    t.incoming = LS_ARENA_ARRAY(&t.arena, contribution *, t.n_vals);
    const ls_scope *scope = g->scope;
    ls_phase phase = g->phase;
    g->phase = LS_PHASE_BACKWARD;
    int last = ls_node_of(g, loss)->id;
    if (!t.arena.no_memory) {
        find_needed(&t, n, wrt, last);
        contribute(&t, loss, seed);
    }
    for (int i = last; i >= 0 && g->status == LS_OK && !t.arena.no_memory; i--)
        if (!(g->nodes[i]->op->flags & LS_OP_SOURCE))
            differentiate(&t, g->nodes[i]);
    g->scope = scope;
    g->at = NULL;
    for (int i = 0; i < n && g->status == LS_OK && !t.arena.no_memory; i++) {
        g->stage = ls_node_of(g, wrt[i])->stage;
        grads[i] = total(&t, wrt[i]);
        if (!ls_present(grads[i]))
            grads[i] = ls_fill(g, *ls_type_of(g, wrt[i]), 0.0);
    }
    g->phase = phase;
    g->stage = 0;
    const ls_status s = ls_arena_status(&t.arena);
    ls_arena_release(&t.arena);
    return s == LS_OK ? ls_graph_status(g) : s;
}
