/* low_rank.c - the order in which adapters are computed. nn/lora.c adds them layer by layer:
 *
 *     h = linear(x, A);  y = linear(x, W) + linear(h, B)
 *
 * - The adapters of layers with one input x (q, k and v; gate and up) compute h in one product, with their
 *   matrices A below each other: x is read once.
 * - Where y is added to a residual r, r is added to linear(x, W) first. So fuse makes both additions part of
 *   a product. */
#define LS_NO_CALL_SITES /* new nodes keep the call site of the model's line */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/sys.h"
#include "graph/rewrite.h"
#include "ops/rules.h"
#include "passes.h"

enum { MOST = 16 }; /* layers of one input */

static const ls_node *maker(const ls_graph *g, ls_value v) { return ls_node_of(g, v); }

static bool is_product(const ls_node *n) { return n->op == &ls_op_linear && n->n_in == 2; }

/* linear(x, A) if `sum` is y + linear(h, B) where h, perhaps times a constant, is linear(x, A), A and B have
 * fewer columns and rows between them than on their outer sides, and nobody else reads what lies between.
 * NULL: it is not. */
static const ls_node *inner_product(const ls_graph *g, const ls_uses *uses, const ls_node *sum)
{
    const ls_node *b = sum->op == &ls_op_add ? maker(g, sum->in[0]) : NULL;
    if (!b || !is_product(b) || uses->count[b->out[0].id] != 1)
        return NULL;
    const ls_node *a = maker(g, b->in[0]);
    if (a->op == &ls_op_mul_const && uses->count[a->out[0].id] == 1)
        a = maker(g, a->in[0]);
    if (!is_product(a) || uses->count[a->out[0].id] != 1)
        return NULL;
    const int64_t *shape_a = ls_type_of(g, a->in[1])->dims, *shape_b = ls_type_of(g, b->in[1])->dims;
    return shape_a[0] < shape_a[1] && shape_b[1] < shape_b[0] ? a : NULL;
}

/* ---- one product */

/* The length of the path of the module around the layer that an adapter belongs to: MODULE.LAYER.ADAPTER. */
static size_t module_length(const ls_node *n)
{
    const char *path = n->scope->path;
    size_t at = strlen(path);
    for (int dots = 0; at && dots < 2;)
        dots += path[--at] == '.';
    return at;
}

static bool same_module(const ls_node *a, const ls_node *b)
{
    const size_t m = module_length(a);
    return m == module_length(b) && !memcmp(a->scope->path, b->scope->path, m);
}

/* The products of n's module that read the same x as n, in their order. (The layers of a decoder all read the
 * encoder's result; their weights are gathered one layer at a time.) */
static int same_input(const ls_node *out[MOST], const ls_graph *g, const bool *inner, const ls_node *n)
{
    int count = 0;
    for (int i = n->id; i < g->n_nodes && count < MOST; i++) {
        const ls_node *other = g->nodes[i];
        if (inner[i] && other->in[0].id == n->in[0].id && same_module(n, other) &&
            maker(g, other->in[1])->n_in == 0)
            out[count++] = other;
    }
    return count;
}

/* Copies the parameters up to node `end` that are not copied yet, in their order: this is the order in which
 * they lie in units, and it must be the same in training, where dropout may keep layers apart, and in
 * evaluation. */
static void copy_parameters(ls_rewrite *r, int begin, int end)
{
    for (int i = begin; i < end; i++) {
        const ls_node *n = r->from->nodes[i];
        if (n->op == &ls_op_param && !ls_present(r->map[n->out[0].id]))
            ls_rewrite_copy(r, n);
    }
}

/* Emits them in n's place. Their weights have no operands, so they can stand before it. */
static void emit_joined(ls_rewrite *r, const bool *inner, const ls_node *n)
{
    const ls_node *all[MOST];
    const int count = same_input(all, r->from, inner, n);
    ls_value a[MOST];
    if (count < 2) {
        ls_rewrite_copy(r, n);
        return;
    }
    copy_parameters(r, n->id, all[count - 1]->id);
    for (int k = 0; k < count; k++) {
        if (!ls_present(r->map[all[k]->in[1].id]))
            ls_rewrite_copy(r, maker(r->from, all[k]->in[1]));
        a[k] = ls_rewrite_value(r, all[k]->in[1]);
    }
    ls_rewrite_like(r, n);
    const ls_value h = ls_matmul_wt(r->to, ls_rewrite_value(r, n->in[0]), ls_concat(r->to, 0, count, a),
                                    LS_NONE);
    int64_t start = 0;
    for (int k = 0; k < count; k++) {
        const int64_t rank = ls_type_of(r->from, all[k]->in[1])->dims[0];
        ls_rewrite_like(r, all[k]);
        r->map[all[k]->out[0].id] = ls_slice(r->to, h, -1, start, rank);
        start += rank;
    }
}

/* ---- the residual */

/* Whether `sum` is what a layer and its adapter give, and nobody else reads it or its parts. */
static bool is_adapted(const ls_graph *g, const ls_uses *uses, const ls_node *sum)
{
    return inner_product(g, uses, sum) && maker(g, sum->in[1])->op == &ls_op_linear &&
           uses->count[sum->out[0].id] == 1 && uses->count[sum->in[1].id] == 1;
}

/* [nodes]: it is the first product of an adapter. */
static bool *find_inner(const ls_graph *g, const ls_uses *uses)
{
    bool *inner = ls_sys_calloc((size_t)g->n_nodes + 1, sizeof *inner);
    for (int i = 0; inner && i < g->n_nodes; i++) {
        const ls_node *a = inner_product(g, uses, g->nodes[i]);
        if (a)
            inner[a->id] = true;
    }
    return inner;
}

/* For each node: the other of both sums in r + (linear(h, B) + linear(x, W)). NULL: it is neither. */
static const ls_node **find_sums(const ls_graph *g, const ls_uses *uses)
{
    const ls_node **other = ls_sys_calloc((size_t)g->n_nodes + 1, sizeof *other);
    for (int i = 0; other && i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        for (int k = 0; k < 2 && n->op == &ls_op_add && !other[i]; k++) {
            const ls_node *sum = maker(g, n->in[k]);
            if (!is_adapted(g, uses, sum) || maker(g, n->in[1 - k])->id > sum->id ||
                !ls_type_equal(ls_type_of(g, n->in[0]), ls_type_of(g, n->in[1])))
                continue;
            other[i] = sum;
            other[sum->id] = n;
        }
    }
    return other;
}

/* Emits one of both sums: the inner one as linear(x, W) + r, the outer one as linear(h, B) + that. */
static void emit_sum(ls_rewrite *r, const ls_node *n, const ls_node *other)
{
    const bool inner = other->id > n->id;
    const ls_node *sum = inner ? n : other, *outer = inner ? other : n;
    const ls_value residual = outer->in[maker(r->from, outer->in[0]) == sum ? 1 : 0];
    const ls_value in[2] = { ls_rewrite_value(r, inner ? sum->in[1] : sum->in[0]),
                             ls_rewrite_value(r, inner ? residual : sum->out[0]) };
    ls_rewrite_copy_with(r, n, in, n->attrs);
}

ls_status ls_pass_low_rank(ls_graph **gp)
{
    const ls_graph *g = *gp;
    ls_rewrite r;
    ls_uses uses = { 0 };
    const ls_node **other = NULL;
    bool *inner = NULL;
    LS_TRY(ls_rewrite_begin(&r, g));
    ls_status s = ls_uses_init(&uses, g);
    if (s == LS_OK)
        s = ls_sys_have(other = find_sums(g, &uses));
    if (s == LS_OK)
        s = ls_sys_have(inner = find_inner(g, &uses));
    for (int i = 0; i < g->n_nodes && s == LS_OK && r.to->status == LS_OK; i++) {
        const ls_node *n = g->nodes[i];
        if (n->n_out && ls_present(r.map[n->out[0].id]))
            continue; /* it was emitted with an earlier one */
        if (other[i])
            emit_sum(&r, n, other[i]);
        else if (inner[i] && maker(g, n->in[1])->n_in == 0)
            emit_joined(&r, inner, n);
        else
            ls_rewrite_copy(&r, n);
    }
    ls_uses_release(&uses);
    free(other);
    free(inner);
    if (s == LS_OK)
        return ls_rewrite_end(&r, gp);
    ls_rewrite_abort(&r);
    return s;
}
