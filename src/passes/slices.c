/* slices.c - computes only what is read. A backward sweep finds, for every value, the range of one dimension
 * that its readers want; a forward sweep emits the ops for those ranges. In the last block of a ViT, for
 * example, only keys and values are computed for all tokens; everything else is computed for the class token
 * alone. */
#define LS_NO_CALL_SITES /* new nodes keep the call site of the model's line */
#include <stdlib.h>

#include "base/check.h"
#include "base/sys.h"
#include "graph/rewrite.h"
#include "ops/rules.h"
#include "propagate.h"
#include "placed_node.h"

/* The part of a value that its readers read: nothing, a range of one dimension, or all of it. */
typedef enum kind { NOTHING, RANGE, ALL } kind;
typedef struct demand {
    kind kind;
    int64_t dim, start, count;
} demand;

static const demand EVERYTHING = { .kind = ALL };

static void want(demand *d, demand more)
{
    if (d->kind == NOTHING)
        *d = more;
    else if (more.kind != NOTHING &&
             (d->kind != more.kind || d->dim != more.dim || d->start != more.start || d->count != more.count))
        *d = EVERYTHING;
}

/* The part of operand k that the node needs if only range d of output 0 is read. ALL: the op needs the whole
 * operand. The range is along a loop of the op's rule that the first operand has too; columns of a product
 * are left to ls_pass_narrow. */
static demand operand_demand(const ls_graph *g, const ls_node *n, int k, demand d)
{
    ls_placed_node p;
    ls_rule r;
    const bool any_operand = n->op->flags & LS_OP_ELEMENTWISE;
    if (n->op->flags & LS_OP_EFFECT)
        return EVERYTHING;
    if (!any_operand && !n->op->rule) /* views, whose shapes the planner follows */
        return EVERYTHING;
    if ((!any_operand && !ls_dtype_is_float(ls_type_of(g, n->in[0])->dtype)) ||
        ls_placed_node_of(&p, g, n) != LS_OK || ls_rule_of(&r, &p.infer) != LS_OK)
        return EVERYTHING;
    const int loop = r.out[0][d.dim], first = ls_rule_in_dim(&r, &p.infer, 0, loop),
              dim = ls_rule_in_dim(&r, &p.infer, k, loop);
    if (loop < 0 || (r.slide.in >= 0 && loop == r.slide.loop) || r.loop[loop].fixed || r.loop[loop].join ||
        dim < 0 || (first < 0 && !any_operand) || (first >= 0 && r.heads[0] >> first & 1))
        return EVERYTHING; /* all of it is needed, or it is broadcast along the loop */
    d.dim = dim;
    return d;
}

static bool passes_on(const ls_graph *g, const ls_node *n, demand d)
{
    for (int k = 0; k < n->n_in; k++)
        if (ls_present(n->in[k]) && operand_demand(g, n, k, d).kind == RANGE)
            return true;
    return false;
}

static demand *find_demands(const ls_graph *g)
{
    demand *wanted = ls_sys_calloc((size_t)g->n_vals, sizeof *wanted);
    if (!wanted)
        return NULL;
    for (int i = 0; i < g->n_outputs; i++)
        wanted[g->outputs[i].value.id] = EVERYTHING;
    for (int i = g->n_nodes - 1; i >= 0; i--) {
        const ls_node *n = g->nodes[i];
        demand *d = &wanted[n->out[0].id];
        for (int k = 1; k < n->n_out; k++) /* statistics of the rows are read, so all rows are needed */
            if (wanted[n->out[k].id].kind != NOTHING)
                *d = wanted[n->out[k].id] = EVERYTHING;
        if (d->kind == NOTHING && !(n->op->flags & LS_OP_EFFECT))
            continue;
        if (n->op == &ls_op_slice) {
            const ls_slice_attrs *a = n->attrs;
            want(&wanted[n->in[0].id],
                 d->kind == ALL ? (demand){ RANGE, a->dim, a->start, a->count } : EVERYTHING);
            continue;
        }
        if (d->kind == RANGE && !passes_on(g, n, *d))
            *d = EVERYTHING; /* it is computed whole, and its readers slice it */
        for (int k = 0; k < n->n_in; k++)
            if (ls_present(n->in[k]))
                want(&wanted[n->in[k].id], d->kind == RANGE ? operand_demand(g, n, k, *d) : EVERYTHING);
    }
    return wanted;
}

static bool same_range(demand a, demand b)
{
    return a.kind == RANGE && a.dim == b.dim && a.start == b.start && a.count == b.count;
}

/* Range d of the old value v, as a value of the new graph. */
static ls_value range_of(ls_rewrite *r, const demand *wanted, ls_value v, demand d)
{
    ls_value now = ls_rewrite_value(r, v);
    if (d.kind != RANGE || same_range(wanted[v.id], d))
        return now;
    return ls_slice(r->to, now, (int)d.dim, d.start, d.count);
}

/* Slices of rows of slices of columns of linear(x, w, b): multiplies those rows of x by those rows of w. */
static ls_value split_product(ls_rewrite *r, const ls_node *product, const ls_slice_attrs *columns,
                              demand rows)
{
    ls_graph *g = r->to;
    ls_value x = ls_slice(g, ls_rewrite_value(r, product->in[0]), (int)rows.dim, rows.start, rows.count);
    ls_value w = ls_slice(g, ls_rewrite_value(r, product->in[1]), 0, columns->start, columns->count);
    ls_value b = product->n_in > 2 && ls_present(product->in[2])
                     ? ls_slice(g, ls_rewrite_value(r, product->in[2]), 0, columns->start, columns->count)
                     : LS_NONE;
    return ls_matmul_wt(g, x, w, b);
}

static void emit_slice(ls_rewrite *r, const demand *wanted, const ls_node *n)
{
    const ls_graph *g = r->from;
    const ls_slice_attrs *a = n->attrs;
    demand mine = { RANGE, a->dim, a->start, a->count }, above = wanted[n->out[0].id];
    const ls_node *p = ls_node_of(g, n->in[0]);
    int last = ls_type_of(g, n->in[0])->ndim - 1;
    ls_rewrite_like(r, n);
    if (above.kind == RANGE && above.dim != a->dim && a->dim == last && p->op == &ls_op_linear &&
        wanted[n->in[0].id].kind == ALL && p->n_in <= 3 &&
        ((const ls_linear_attrs *)p->attrs)->act == LS_ACT_NONE) {
        r->map[n->out[0].id] = split_product(r, p, a, above);
        return;
    }
    ls_value v = range_of(r, wanted, n->in[0], mine);
    if (above.kind == RANGE)
        v = ls_slice(r->to, v, (int)above.dim, above.start, above.count);
    r->map[n->out[0].id] = v;
}

/* The box of the operand with @ if only range d of n's result is computed. */
static const ls_box *box_of(ls_rewrite *r, const ls_node *n, demand d)
{
    ls_placed_node p;
    ls_rule rule;
    if (d.kind != RANGE || !(n->op->flags & LS_OP_AT) || ls_placed_node_of(&p, r->from, n) != LS_OK ||
        ls_rule_of(&rule, &p.infer) != LS_OK || rule.at < 0)
        return n->at;
    const demand part = operand_demand(r->from, n, rule.at, d);
    if (part.kind != RANGE)
        return n->at;
    ls_box *box = LS_ARENA_NEW(&r->to->arena, ls_box);
    if (!box)
        return n->at;
    *box = n->at ? *n->at : ls_box_of(&p.in[rule.at]);
    ls_box_slice(box, (int)part.dim, part.start, part.count);
    return box;
}

ls_status ls_pass_slices_up(ls_graph **gp)
{
    const ls_graph *g = *gp;
    ls_rewrite r;
    LS_TRY(ls_rewrite_begin(&r, g));
    demand *wanted = find_demands(g);
    if (!wanted) {
        ls_rewrite_abort(&r);
        return ls_sys_have(wanted);
    }
    for (int i = 0; i < g->n_nodes && r.to->status == LS_OK; i++) {
        const ls_node *n = g->nodes[i];
        if (n->op == &ls_op_slice) {
            emit_slice(&r, wanted, n);
            continue;
        }
        demand d = wanted[n->out[0].id];
        ls_value *in = ls_rewrite_operands(&r, n);
        ls_rewrite_like(&r, n);
        for (int k = 0; in && k < n->n_in; k++)
            in[k] = ls_present(n->in[k]) ? range_of(&r, wanted, n->in[k],
                                                    d.kind == RANGE ? operand_demand(g, n, k, d) : EVERYTHING)
                                         : LS_NONE;
        if (in)
            ls_rewrite_copy_at(&r, n, in, box_of(&r, n, d));
    }
    free(wanted);
    return ls_rewrite_end(&r, gp);
}

/* The smallest range that contains all column ranges which readers slice from a linear's output. whole: a
 * reader reads it otherwise. */
typedef struct hull {
    int64_t start, end;
    bool whole;
} hull;

ls_status ls_pass_narrow(ls_graph **gp)
{
    const ls_graph *g = *gp;
    hull *hulls = ls_sys_calloc((size_t)g->n_vals, sizeof *hulls);
    LS_TRY(ls_sys_have(hulls));
    for (int i = 0; i < g->n_outputs; i++)
        hulls[g->outputs[i].value.id].whole = true;
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        for (int k = 0; k < n->n_in; k++) {
            hull *h = &hulls[n->in[k].id];
            const ls_slice_attrs *a = n->op == &ls_op_slice ? n->attrs : NULL;
            if (!a || a->dim != ls_type_of(g, n->in[k])->ndim - 1) {
                h->whole = true;
            } else if (h->end == 0) {
                *h = (hull){ a->start, a->start + a->count, h->whole };
            } else {
                h->start = a->start < h->start ? a->start : h->start;
                h->end = a->start + a->count > h->end ? a->start + a->count : h->end;
            }
        }
    }
    ls_rewrite r;
    ls_status s = ls_rewrite_begin(&r, g);
    for (int i = 0; i < g->n_nodes && s == LS_OK && r.to->status == LS_OK; i++) {
        const ls_node *n = g->nodes[i];
        const hull *h = n->n_in ? &hulls[n->op == &ls_op_slice ? n->in[0].id : n->out[0].id] : NULL;
        const ls_node *p = n->op == &ls_op_slice ? ls_node_of(g, n->in[0]) : n;
        int64_t columns = p->op == &ls_op_linear ? ls_type_of(g, p->in[1])->dims[0] : 0;
        bool narrow = h && columns && !h->whole && h->end > 0 && h->end - h->start < columns &&
                      p->n_in <= 3 && ((const ls_linear_attrs *)p->attrs)->act == LS_ACT_NONE;
        ls_rewrite_like(&r, n);
        if (narrow && n == p) {
            int64_t count = h->end - h->start;
            ls_value b = n->n_in > 2 && ls_present(n->in[2])
                             ? ls_slice(r.to, ls_rewrite_value(&r, n->in[2]), 0, h->start, count)
                             : LS_NONE;
            r.map[n->out[0].id] = ls_matmul_wt(
                r.to, ls_rewrite_value(&r, n->in[0]),
                ls_slice(r.to, ls_rewrite_value(&r, n->in[1]), 0, h->start, count), b);
        } else if (narrow) {
            const ls_slice_attrs *a = n->attrs;
            r.map[n->out[0].id] = ls_slice(r.to, ls_rewrite_value(&r, n->in[0]), (int)a->dim,
                                           a->start - h->start, a->count);
        } else {
            ls_rewrite_copy(&r, n);
        }
    }
    free(hulls);
    LS_TRY(s);
    return ls_rewrite_end(&r, gp);
}
