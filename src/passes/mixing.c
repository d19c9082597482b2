/* mixing.c - finds the values of a model that depend on other samples of their micro-batch. Padding repeats
 * a sample, so a loss over such values would change with the padding. Such a model is refused.
 *
 * For every value the pass knows one of three cases. The value does not depend on the samples. Or it has
 * numbers of each sample by itself, in one dimension, where the numbers of successive samples are `each`
 * elements apart (a reshape to [batch * tokens, ..] leaves them in dimension 0 with each = tokens). Or it
 * mixes samples. The loops of an op's rule (ops/rule.h) lead from operands to results. A loop over samples
 * mixes them if the op sums it, computes it as a whole (a softmax), or has it as different loops in
 * different operands (a product of each sample with each). Where an op finds elements by numbers (the mark
 * %), each is still of one sample, and results without the loop only say where they are. */
#include <stdlib.h>

#include "base/field.h"
#include "base/sys.h"
#include "graph/identity.h"
#include "objective.h"
#include "ops/rule.h"
#include "ops/rules.h"
#include "passes.h"
#include "placed_node.h"

typedef struct spread {
    enum { APART_FROM_SAMPLES, BY_SAMPLE, MIXED } kind;
    int dim;      /* BY_SAMPLE */
    int64_t each; /* BY_SAMPLE: elements of the dimension from a sample to the next one */
    int node;     /* MIXED: the first node that mixes samples */
} spread;

static spread mixed(const ls_node *n) { return (spread){ .kind = MIXED, .node = n->id }; }

/* The stride of dimension d in a contiguous tensor: the number of elements after it. */
static int64_t behind(const ls_type *t, int d)
{
    int64_t n = 1;
    for (int k = d + 1; k < t->ndim; k++)
        n *= t->dims[k];
    return n;
}

/* A reshape does not move samples in memory. So one dimension of the result has the samples, or the reshape
 * splits a sample in two and the result mixes them. */
static spread through_reshape(const ls_node *n, const spread *s, const ls_type *a, const ls_type *b,
                              int64_t batch)
{
    const int64_t apart = s->each * behind(a, s->dim);
    for (int d = 0; d < b->ndim; d++) {
        const int64_t inner = behind(b, d);
        if (inner <= apart && apart % inner == 0 && b->dims[d] % (batch * (apart / inner)) == 0)
            return (spread){ .kind = BY_SAMPLE, .dim = d, .each = apart / inner };
    }
    return mixed(n);
}

/* Derives the results' case from the operands. *loop: the loop over the samples, which are `each` apart in
 * it; -1: there is none. */
static spread of_operands(const ls_node *n, const spread *of, const ls_rule *r, int *loop)
{
    spread s = { .kind = APART_FROM_SAMPLES };
    *loop = -1;
    for (int k = 0; k < n->n_in; k++) {
        const spread *x = &of[n->in[k].id];
        if (!ls_present(n->in[k]) || x->kind == APART_FROM_SAMPLES)
            continue;
        if (x->kind == MIXED)
            return *x;
        const int l = ls_rule_in(r, k, x->dim);
        const bool moved = l >= 0 && r->loop[l].moved;
        if (l < 0 || (r->loop[l].fixed && !moved) || r->loop[l].join ||
            (*loop >= 0 && (l != *loop || (x->each != s.each && !moved))))
            return mixed(n);
        s = *x;
        *loop = l;
    }
    return s;
}

static ls_status visit(const ls_graph *g, const ls_node *n, spread *of, int64_t batch)
{
    ls_placed_node types;
    ls_rule r;
    int loop;
    bool any = false;
    for (int k = 0; k < n->n_in; k++)
        any = any || of[n->in[k].id].kind != APART_FROM_SAMPLES;
    if (n->op == &ls_op_input && ls_source_is(n).what == LS_IS_NAMED) {
        const ls_type *t = ls_type_of(g, n->out[0]);
        if (t->ndim > 0 && t->dims[0] % batch == 0)
            of[n->out[0].id] = (spread){ .kind = BY_SAMPLE, .each = t->dims[0] / batch };
    }
    if (!any)
        return LS_OK;
    if (n->op == &ls_op_reshape) {
        const spread *s = &of[n->in[0].id];
        of[n->out[0].id] = s->kind == MIXED ? *s
                                            : through_reshape(n, s, ls_type_of(g, n->in[0]),
                                                              ls_type_of(g, n->out[0]), batch);
        return LS_OK;
    }
    LS_TRY(ls_placed_node_of(&types, g, n));
    LS_TRY(ls_rule_of(&r, &types.infer));
    const spread s = of_operands(n, of, &r, &loop);
    for (int k = 0; k < n->n_out; k++) {
        const int d = s.kind == BY_SAMPLE ? ls_rule_out_dim(&r, &types.infer, k, loop) : -1;
        const bool moved = s.kind == BY_SAMPLE && r.loop[loop].moved;
        spread *result = &of[n->out[k].id];
        if (s.kind != BY_SAMPLE)
            *result = s;
        else if (d < 0)
            *result = moved ? (spread){ .kind = APART_FROM_SAMPLES } : mixed(n);
        else
            *result = (spread){ .kind = BY_SAMPLE,
                                .dim = d,
                                .each = moved ? types.infer.out[k].dims[d] / batch : s.each };
    }
    return LS_OK;
}

static ls_status mixing_refuse(const ls_graph *g, int node, const char *what, const char *name)
{
    const ls_node *n = g->nodes[node];
    char site[LS_SITE_SIZE];
    return ls_fail_field(
        LS_E_USAGE, "padding",
        "%s%s%s%s computes over the samples of a micro-batch, so the padding of an "
        "incomplete batch would change %s%s%s%s; leave an incomplete batch out (drop_last: true), or "
        "evaluate in micro-batches that divide the samples",
        ls_site_before(site, n->file, n->line), n->op->name, n->scope->path[0] ? " in " : "", n->scope->path,
        what, *name ? "\"" : "", name, *name ? "\"" : "");
}

/* Rows of a loss or a metric: [batch, ..] or [batch * n, ..], which row_sum counts up to the first padding.
 */
static ls_status check_rows(const ls_graph *g, const ls_declared *d, ls_value rows, const spread *s,
                            int64_t batch)
{
    char site[LS_SITE_SIZE];
    const char *what = d->loss ? "the loss " : "the metric ";
    if (s->kind == MIXED)
        return d->among ? LS_OK : mixing_refuse(g, s->node, what, d->name);
    if (s->kind == BY_SAMPLE && (s->dim || s->each * batch != ls_type_of(g, rows)->dims[0]))
        return ls_fail_field(LS_E_USAGE, "padding",
                             "%sthe rows of %s\"%s\" are not in the order of the samples, so padding "
                             "cannot be told from them; make them [batch, ..] (ls_permute)",
                             ls_site_before(site, d->file, d->line), what, d->name);
    return LS_OK;
}

static ls_status mixing_check(const ls_graph *g, const spread *of, int64_t batch)
{
    for (int i = 0; i < g->n_declared; i++) {
        const ls_declared *d = &g->declared[i];
        if (ls_present(d->rows))
            LS_TRY(check_rows(g, d, d->rows, &of[d->rows.id], batch));
        if (ls_present(d->targets))
            LS_TRY(check_rows(g, d, d->targets, &of[d->targets.id], batch));
    }
    for (int i = 0; i < g->n_nodes; i++) /* running statistics */
        for (int k = 0; g->nodes[i]->op->flags & LS_OP_EFFECT && k < g->nodes[i]->n_in; k++)
            if (of[g->nodes[i]->in[k].id].kind == MIXED)
                return mixing_refuse(g, of[g->nodes[i]->in[k].id].node, "the state of the model", "");
    return LS_OK;
}

ls_status ls_objective_check_mixing(const ls_graph *g, int64_t batch)
{
    ls_status s = LS_OK;
    if (batch == 1)
        return LS_OK;
    spread *of = ls_sys_calloc((size_t)g->n_vals, sizeof *of);
    LS_TRY(ls_sys_have(of));
    for (int i = 0; i < g->n_nodes && s == LS_OK; i++)
        s = visit(g, g->nodes[i], of, batch);
    if (s == LS_OK)
        s = mixing_check(g, of, batch);
    free(of);
    return s;
}

ls_status ls_objective_check_padding(const ls_graph *g, int64_t batch)
{
    for (int i = 0; i < g->n_declared; i++)
        if (g->declared[i].scalar)
            return ls_fail_field(
                LS_E_USAGE, "padding",
                "the loss \"%s\" is one number of a whole micro-batch (ls_loss_scalar), which "
                "padding would change; leave an incomplete batch out (drop_last: true)",
                g->declared[i].name);
    /* a sum over one sample mixes nothing, but ranks may share the statistics of a batch norm */
    for (int i = 0; i < g->n_nodes && batch == 1; i++)
        if (g->nodes[i]->op == &ls_op_batch_norm)
            return mixing_refuse(g, i, "its statistics", "");
    return ls_objective_check_mixing(g, batch);
}
