/* experts.c - deals the experts of a mixture to the ranks of an axis (passes.h).
 *
 * The rows of a value lie in one of two ways: at home, on the rank that has their token, or there, on the
 * rank that has their group's weights. A product by groups takes rows there; row-wise ops on its result stay
 * there; any other op takes rows at home. Where an operand lies the other way, an all_to_all stands. */
#define LS_NO_CALL_SITES
#include "base/field.h"
#include "comm/axes.h"
#include "graph/rewrite.h"
#include "graph/tensor_attrs.h"
#include "ops/rules.h"
#include "passes.h"
#include "placed_node.h"

enum { X, OFFSETS, WEIGHTS }; /* operands of grouped_linear */

/* What a group_order becomes. */
typedef struct order {
    ls_value begins;   /* of each rank, where the rows of each group begin */
    ls_value received; /* where each group begins in the rows that this rank gets */
    int64_t rows, room;
} order;

typedef struct dealer {
    ls_rewrite r;
    const ls_parallel *p;
    const char *axis;
    int n, position;
    order *orders;   /* [old nodes] */
    ls_value *there; /* [old values]: the rows of this rank's groups */
    int *follows;    /* [old values] that lie there: the node of their order */
    int *part; /* [old values]: see ls_source_attrs; what is computed of such parameters has their part */
} dealer;

/* ---- which rank has which parameter */

static ls_status mark_parameters(dealer *d, ls_value v, int part)
{
    const ls_node *n = ls_node_of(d->r.from, v);
    if (!n->n_in && n->op != &ls_op_param) /* a constant, which all ranks have */
        return LS_OK;
    if (d->part[v.id] && d->part[v.id] != part)
        return ls_fail_field(LS_E_UNSUPPORTED, "mesh",
                             "axis %s: experts on several ranks share a parameter of %s", d->axis,
                             n->scope->path);
    d->part[v.id] = part;
    for (int k = 0; k < n->n_in; k++)
        if (ls_present(n->in[k]))
            LS_TRY(mark_parameters(d, n->in[k], part));
    return LS_OK;
}

static ls_status mark_weights(dealer *d)
{
    const ls_graph *g = d->r.from;
    int layers = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        const int groups = n->n_in - WEIGHTS;
        if (n->op != &ls_op_grouped_linear)
            continue;
        layers++;
        if (groups % d->n)
            return ls_fail_field(LS_E_USAGE, "mesh",
                                 "the %d ranks of axis %s do not divide the %d experts of %s", d->n, d->axis,
                                 groups, n->scope->path);
        if (ls_node_of(g, n->in[OFFSETS])->op != &ls_op_group_order)
            return ls_fail_field(LS_E_UNSUPPORTED, "mesh",
                                 "axis %s: the rows of %s are not those of group_order", d->axis,
                                 n->scope->path);
        for (int k = 0; k < groups; k++)
            LS_TRY(mark_parameters(d, n->in[WEIGHTS + k], 1 + k / (groups / d->n)));
    }
    return layers
               ? LS_OK
               : ls_fail_field(LS_E_USAGE, "mesh",
                               "axis %s deals experts to ranks, and this model has none; take axis %s or %s",
                               d->axis, ls_mesh_name(LS_ROLE_REPLICATE), ls_mesh_name(LS_ROLE_SHARD));
}

static bool is_gone(const dealer *d, ls_value v) { return d->part[v.id] && d->part[v.id] != d->position + 1; }

/* ---- rows at home and there */

static const order *order_of(dealer *d, const ls_node *group_order)
{
    ls_graph *g = d->r.to;
    order *o = &d->orders[group_order->id];
    if (o->rows)
        return o;
    const ls_type *index = ls_type_of(d->r.from, group_order->in[0]);
    const int64_t groups = ((const ls_group_attrs *)group_order->attrs)->n, own = groups / d->n,
                  tokens = index->dims[0], each = index->dims[1],
                  most = d->n * tokens * (each < own ? each : own);
    const double room = d->p->expert_room * (double)(tokens * each);
    o->rows = tokens * each;
    o->room = d->p->expert_room > 0 && room < (double)most ? (int64_t)room + 1 : most;
    if (o->room > INT32_MAX)
        ls_graph_error(g, LS_E_UNSUPPORTED, "%lld rows for the experts of a rank: an i32 counts to 2^31 - 1",
                       (long long)o->room);
    o->begins = ls_all_gather(g, ls_rewrite_value(&d->r, group_order->out[2]),
                              &(ls_gather_attrs){ .group = d->axis,
                                                  .unit = group_order->scope->path,
                                                  .ranks = d->n,
                                                  .to = LS_TO_SAME,
                                                  .via = LS_F32 });
    o->received = ls_graph_apply(g, &ls_op_received_groups, 1, &o->begins,
                                 &(ls_received_attrs){ d->position, d->n });
    return o;
}

static ls_value exchange(dealer *d, ls_value v, const ls_node *group_order, bool back)
{
    const order *o = order_of(d, group_order);
    return ls_graph_apply(d->r.to, &ls_op_all_to_all, 2, (ls_value[]){ v, o->begins },
                          &(ls_exchange_attrs){ .group = d->axis,
                                                .unit = group_order->scope->path,
                                                .ranks = d->n,
                                                .rows = back ? o->rows : o->room,
                                                .back = back });
}

static bool lies_there(const dealer *d, ls_value v)
{
    return ls_present(d->there[v.id]) && !ls_present(d->r.map[v.id]);
}

static ls_value bring_there(dealer *d, ls_value v, const ls_node *group_order)
{
    if (!ls_present(d->there[v.id])) {
        d->there[v.id] = exchange(d, ls_rewrite_value(&d->r, v), group_order, false);
        d->follows[v.id] = group_order->id;
    }
    return d->there[v.id];
}

static ls_value bring_home(dealer *d, ls_value v)
{
    if (lies_there(d, v))
        d->r.map[v.id] = exchange(d, d->there[v.id], d->r.from->nodes[d->follows[v.id]], true);
    return is_gone(d, v) ? (ls_value){ .id = -1 } : ls_rewrite_value(&d->r, v);
}

/* The first operand that lies there; -1: none. */
static int first_there(const dealer *d, const ls_node *n)
{
    int k = 0;
    while (k < n->n_in && !(ls_present(n->in[k]) && lies_there(d, n->in[k])))
        k++;
    return k < n->n_in ? k : -1;
}

/* Whether each row of the results is computed of the same row of operands, or of operands that have none. */
static bool is_row_wise(const dealer *d, const ls_node *n, int operand)
{
    ls_placed_node p;
    ls_rule rule;
    if (n->n_in > LS_RULE_IN || n->op->local || n->op == &ls_op_combine ||
        (n->op->flags & (LS_OP_COLLECTIVE | LS_OP_EFFECT | LS_OP_RANDOM | LS_OP_AT)) ||
        ls_placed_node_of(&p, d->r.from, n) != LS_OK || ls_rule_of(&rule, &p.infer) != LS_OK)
        return false;
    const int loop = ls_rule_in(&rule, operand, 0);
    if (loop < 0 || rule.loop[loop].fixed || rule.loop[loop].join)
        return false;
    for (int k = 0; k < n->n_out; k++)
        if (rule.out[k][0] != loop)
            return false;
    for (int k = 0; k < n->n_in; k++)
        if (ls_present(n->in[k]) && ls_rule_in_dim(&rule, &p.infer, k, loop) > 0)
            return false;
    return true;
}

static bool has_rows(const dealer *d, ls_value v, int64_t rows)
{
    const ls_type *t = ls_type_of(d->r.from, v);
    return t->ndim > 1 && t->dims[0] == rows;
}

/* ---- nodes */

static void copy_there(dealer *d, const ls_node *n, const ls_value *in, const void *attrs,
                       const ls_node *group_order)
{
    if (!ls_rewrite_copy_with(&d->r, n, in, attrs))
        return;
    for (int k = 0; k < n->n_out; k++) {
        d->there[n->out[k].id] = d->r.map[n->out[k].id];
        d->r.map[n->out[k].id] = LS_NONE;
        d->follows[n->out[k].id] = group_order->id;
    }
}

/* Groups here: by the rank that sent the rows, then by group. */
static void deal(dealer *d, const ls_node *n)
{
    ls_graph *g = d->r.to;
    const ls_node *group_order = ls_node_of(d->r.from, n->in[OFFSETS]);
    const int groups = n->n_in - WEIGHTS, own = groups / d->n;
    ls_value *in = LS_ARENA_ARRAY(&g->arena, ls_value, n->n_in + 1);
    if (!ls_graph_room(g))
        return;
    in[X] = bring_there(d, n->in[X], group_order);
    const order *o = order_of(d, group_order);
    in[OFFSETS] = o->received;
    for (int k = 0; k < own && g->status == LS_OK; k++) {
        const ls_value w = ls_rewrite_value(&d->r, n->in[WEIGHTS + d->position * own + k]);
        const ls_dtype to = ls_stat_dtype(ls_value_type(g, w).dtype);
        /* (with a fork of its own, so that the sum of its gradients is not in the scope of one expert) */
        ls_fork_tree(g, ls_fork(g, w, to), to, d->n, in + WEIGHTS + k, own);
    }
    if (g->status == LS_OK)
        copy_there(d, n, in, &(ls_group_attrs){ .rows = o->rows }, group_order);
}

static void copy_param(dealer *d, const ls_node *n)
{
    ls_source_attrs a = *(const ls_source_attrs *)n->attrs;
    a.part = d->part[n->out[0].id];
    ls_rewrite_copy_with(&d->r, n, NULL, &a);
}

static void copy_other(dealer *d, const ls_node *n)
{
    ls_value *in = LS_ARENA_ARRAY(&d->r.to->arena, ls_value, n->n_in + 1);
    const int there = first_there(d, n);
    const bool stays = there >= 0 && is_row_wise(d, n, there);
    const ls_node *group_order = stays ? d->r.from->nodes[d->follows[n->in[there].id]] : NULL;
    if (!ls_graph_room(d->r.to))
        return;
    for (int k = 0; k < n->n_in; k++)
        if (ls_present(n->in[k]))
            in[k] = stays && has_rows(d, n->in[k], d->orders[group_order->id].rows)
                        ? bring_there(d, n->in[k], group_order)
                        : bring_home(d, n->in[k]);
    if (stays)
        copy_there(d, n, in, n->attrs, group_order);
    else
        ls_rewrite_copy_with(&d->r, n, in, n->attrs);
}

static ls_status deal_all(dealer *d)
{
    const ls_graph *g = d->r.from;
    d->orders = LS_ARENA_ARRAY(&d->r.to->arena, order, g->n_nodes + 1);
    d->there = LS_ARENA_ARRAY(&d->r.to->arena, ls_value, g->n_vals);
    d->follows = LS_ARENA_ARRAY(&d->r.to->arena, int, g->n_vals);
    d->part = LS_ARENA_ARRAY(&d->r.to->arena, int, g->n_vals);
    LS_TRY(ls_arena_status(&d->r.to->arena));
    LS_TRY(mark_weights(d));
    for (int i = 0; i < g->n_nodes && d->r.to->status == LS_OK; i++) {
        const ls_node *n = g->nodes[i];
        ls_rewrite_like(&d->r, n);
        if (n->op == &ls_op_grouped_linear)
            deal(d, n);
        else if (n->op == &ls_op_param)
            copy_param(d, n);
        else if (!n->n_out || !is_gone(d, n->out[0]))
            copy_other(d, n);
    }
    for (int i = 0; i < g->n_outputs && d->r.to->status == LS_OK; i++)
        bring_home(d, g->outputs[i].value);
    return LS_OK;
}

ls_status ls_pass_experts(ls_graph **g, const ls_parallel *p)
{
    dealer d = { .p = p, .axis = ls_mesh_axis(&p->mesh, LS_ROLE_EXPERT) };
    d.n = ls_mesh_group_size(&p->mesh, d.axis);
    d.position = ls_mesh_position(&p->mesh, p->rank, d.axis);
    if (d.n < 2)
        return LS_OK;
    LS_TRY(ls_rewrite_begin(&d.r, *g));
    const ls_status s = deal_all(&d);
    if (s == LS_OK)
        return ls_rewrite_end(&d.r, g);
    ls_rewrite_abort(&d.r);
    return s;
}
