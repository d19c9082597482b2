/* packed.c - packed parameters: several weights in one, such as queries, keys and values in one weight [3 n,
 * k]. The readers of the product slice it into its parts. An axis shards each part by itself, so that a rank
 * has a block of the queries, one of the keys and one of the values, and its slices are the same parts of
 * its block. The parts are found from the slices in the graph. */
#include <stdio.h>

#include "base/check.h"
#include "base/field.h"
#include "ops/rules.h"
#include "propagate_own.h"

static int64_t greatest_divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The greatest size that divides `size` and the starts and sizes of all slices of `v` along `dim`. */
static int64_t divide(const ls_graph *g, ls_value v, int dim, int64_t size)
{
    for (int i = ls_node_of(g, v)->id + 1; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        const ls_slice_attrs *a = n->attrs;
        if (n->op == &ls_op_slice && n->in[0].id == v.id && a->dim == dim)
            size = greatest_divisor(greatest_divisor(size, a->start), a->count);
    }
    return size;
}

/* The dimension of node n's result that is dimension `dim` of its operand v, whole; -1: there is none. */
static int dim_after(const ls_graph *g, const ls_node *n, ls_value v, int dim)
{
    ls_placed_node p;
    ls_rule r;
    for (int k = 0; k < n->n_in; k++) {
        if (n->in[k].id != v.id || n->op == &ls_op_slice || ls_placed_node_of(&p, g, n) != LS_OK ||
            ls_rule_of(&r, &p.infer) != LS_OK)
            continue;
        const int loop = ls_rule_in(&r, k, dim), out = loop < 0 ? -1 : ls_rule_out_dim(&r, &p.infer, 0, loop);
        if (out >= 0 && ls_type_of(g, n->out[0])->dims[out] == ls_type_of(g, v)->dims[dim])
            return out;
    }
    return -1;
}

/* The same with the slices of what is made of `v`: a product, and a bias and another shape behind it. */
static int64_t divide_behind(const ls_graph *g, ls_value v, int dim, int64_t size, int products)
{
    size = divide(g, v, dim, size);
    for (int i = ls_node_of(g, v)->id + 1; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        if (n->op == &ls_op_fork && n->in[0].id == v.id) /* what reads the other forks is the same */
            return divide_behind(g, n->out[0], dim, size, products);
        const bool passes = products || n->op == &ls_op_add || n->op == &ls_op_reshape ||
                            n->op == &ls_op_broadcast_to;
        const int out = passes ? dim_after(g, n, v, dim) : -1;
        if (out >= 0)
            size = divide_behind(g, n->out[0], out, size, 0);
    }
    return size;
}

int64_t ls_packed_parts(const ls_graph *g, ls_value param, int dim)
{
    const ls_type *t = ls_type_of(g, param);
    const int64_t size = t->ndim == LS_MAX_DIMS ? t->dims[dim]
                                                : divide_behind(g, param, dim, t->dims[dim], 1);
    return size > 0 ? t->dims[dim] / size : 1;
}

const ls_box *ls_packed_box(ls_propagation *pr, const ls_node *param, const ls_seed *seed)
{
    ls_box *box = LS_ARENA_NEW(&pr->r.to->arena, ls_box);
    if (!box)
        return NULL; /* the graph says so */
    *box = ls_packed_whole(ls_prop_whole(pr, param->out[0]), seed->dim, seed->parts);
    const int each = pr->axis.each;
    LS_CHECK(ls_box_split(box, seed->dim + 1, pr->axis.ranks / each, pr->axis.position / each),
             "the ranks do not divide the block");
    return box;
}

ls_status ls_prop_slice(bool *done, ls_propagation *pr, const ls_node *n)
{
    const ls_slice_attrs *a = n->attrs;
    if (n->op != &ls_op_slice || pr->at[n->in[0].id].p.dim != a->dim || pr->at[n->in[0].id].soft)
        return LS_OK;
    const ls_spot *at = &pr->at[n->in[0].id];
    const int64_t parts = ls_prop_parts(pr, n->in[0]),
                  part = ls_prop_whole(pr, n->in[0])->dims[a->dim] / parts;
    char text[400];
    if (parts == 1 || a->start % part || a->count % part) {
        snprintf(text, sizeof text,
                 "takes elements %lld to %lld of a dimension of which each rank has a block (%s)",
                 (long long)a->start, (long long)(a->start + a->count), at->cause);
        return ls_prop_refuse(pr, n, text);
    }
    pr->r.map[n->out[0].id] = ls_slice(pr->r.to, ls_rewrite_value(&pr->r, n->in[0]), (int)a->dim,
                                       a->start / pr->axis.ranks, a->count / pr->axis.ranks);
    pr->at[n->out[0].id] = (ls_spot){ .p = at->p, .cause = at->cause, .parts = a->count / part };
    *done = true;
    return LS_OK;
}

ls_status ls_prop_check_parts(const ls_propagation *pr, const ls_node_split *s)
{
    const ls_node *n = s->n;
    const int64_t parts = ls_prop_parts(pr, n->in[s->by]);
    char text[600];
    bool fits = true;
    for (int k = 0; k < n->n_in; k++) {
        const int o = ls_rule_operand(k),
                  dim = ls_present(n->in[k]) ? ls_rule_in_dim(&s->rule, &s->types.infer, k, s->loop) : -1;
        if (dim < 0)
            continue;
        const bool same = ls_prop_split(pr, n->in[k]) && ls_prop_parts(pr, n->in[k]) == parts,
                   whole_parts = !(s->rule.heads[o] >> dim & 1) && s->rule.at != k;
        fits = fits && (parts == 1 ? !ls_prop_split(pr, n->in[k]) || same : same && whole_parts);
    }
    /* the rule of a reshape only says where a dimension begins */
    if (parts > 1 && n->op == &ls_op_reshape)
        fits = fits && s->types.infer.out[0].dims[ls_rule_out_dim(&s->rule, &s->types.infer, 0, s->loop)] ==
                           s->types.in[0].dims[pr->at[n->in[0].id].p.dim];
    if (fits && !(parts > 1 && s->rule.loop[s->loop].join))
        return LS_OK;
    snprintf(text, sizeof text,
             "meets %lld packed parts of which each rank has blocks (%s), and takes only one at a time or "
             "the same "
             "parts of all its operands: slice them apart before it, in parts of equal size",
             (long long)(parts > 1 ? parts : 2), pr->at[n->in[s->by].id].cause);
    return ls_prop_refuse(pr, n, text);
}
