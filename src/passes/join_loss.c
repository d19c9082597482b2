/* join_loss.c - joins a head and its loss:
 *
 *     linear(x, w, b?) -> cross_entropy -> cross_entropy_grad -> linear_dx, linear_dw
 *     linear(x, w, b?) -> cross_entropy, argmax
 *
 * Reshapes may lie between them. The joined node stands where cross_entropy stood. So what its gradients are
 * multiplied by (dloss) is computed earlier than in the old graph. */
#define LS_NO_CALL_SITES /* new nodes keep the call site of the model's line */
#include "join_loss.h"

#include <stdlib.h>

#include "base/sys.h"
#include "graph/rewrite.h"
#include "ops/linear_loss.h"

enum { MOST_ROWS = 2048 }; /* at a time, however few classes there are */

/* The nodes of one head; NULL: there is none. */
typedef struct head {
    const ls_node *linear, *loss, *grad, *dx, *dw, *top;
} head;

typedef struct join {
    ls_rewrite r;
    ls_uses uses;
    int *root;  /* [values]: the value that this one is a reshape of, or itself */
    bool *done; /* [nodes]: emitted already, or part of a head */
} join;

static const ls_node *maker(const join *j, ls_value v) { return ls_node_of(j->r.from, v); }
static int root_of(const join *j, ls_value v) { return ls_present(v) ? j->root[v.id] : 0; }

/* Finds the readers of the logits, or of their gradient: the values with this root. False: there is a reader
 * that a head does not have, or a second one of a kind. */
static bool find_readers(const join *j, int root, head *h)
{
    const ls_graph *g = j->r.from;
    for (int i = 0; i < g->n_outputs; i++)
        if (root_of(j, g->outputs[i].value) == root)
            return false;
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        for (int k = 0; k < n->n_in; k++) {
            if (root_of(j, n->in[k]) != root || n->op == &ls_op_reshape)
                continue;
            const ls_node **as = n->op == &ls_op_cross_entropy        ? &h->loss
                                 : n->op == &ls_op_cross_entropy_grad ? &h->grad
                                 : n->op == &ls_op_argmax             ? &h->top
                                 : n->op == &ls_op_linear_dx          ? &h->dx
                                 : n->op == &ls_op_linear_dw          ? &h->dw
                                                                      : NULL;
            if (!as || *as || k > 0 || n->at || n->clone_of >= 0)
                return false;
            *as = n;
        }
    }
    return true;
}

/* Whether v is made of one source by ops with one operand, as the gradient of a step's loss is: a constant or
 * the loss scale, multiplied by the loss's factor. */
static bool known_early(const join *j, ls_value v)
{
    const ls_node *n = maker(j, v);
    while (n->n_in == 1 && n->n_out == 1)
        n = maker(j, n->in[0]);
    return n->n_in == 0;
}

/* The gradients are linear's, of the same operands, and they can be computed together with the loss. */
static bool gradients_fit(const join *j, const head *h)
{
    const ls_node *l = h->linear, *e = h->grad;
    if (h->top || e->in[1].id != h->loss->in[1].id || e->in[2].id != h->loss->out[1].id ||
        j->uses.count[h->loss->out[1].id] != 1 || !(h->dx || h->dw) ||
        !ls_attrs_equal(e->op, e->attrs, h->loss->attrs))
        return false;
    const ls_value count = e->in[3];
    if (ls_present(count) && count.id != h->loss->in[2].id)
        return false;
    if (!ls_present(count) && ls_present(h->loss->in[2])) /* the gradient of the rows: they have no count */
        return false;
    if (h->dx && (h->dx->n_in != 2 || h->dx->in[1].id != l->in[1].id))
        return false;
    if (h->dw && (h->dw->in[1].id != l->in[0].id || ((const ls_linear_dw_attrs *)h->dw->attrs)->bias))
        return false;
    return known_early(j, e->in[4]);
}

/* Whether this linear is the head of a loss. */
static bool find_head(const join *j, const ls_node *l, int64_t most, head *h)
{
    const ls_graph *g = j->r.from;
    *h = (head){ .linear = l };
    if (l->op != &ls_op_linear || l->n_in > 3 || ((const ls_linear_attrs *)l->attrs)->act != LS_ACT_NONE ||
        ls_type_count(ls_type_of(g, l->out[0])) < most / 16)
        return false;
    if (!find_readers(j, l->out[0].id, h) || !h->loss || h->dx || h->dw)
        return false;
    const ls_node *loss = h->loss;
    if (loss->n_in > 3)
        return false;
    if (!h->grad)
        return j->uses.count[loss->out[1].id] == 0;
    head readers = { 0 };
    if (!find_readers(j, h->grad->out[0].id, &readers) || readers.loss || readers.grad || readers.top)
        return false;
    h->dx = readers.dx;
    h->dw = readers.dw;
    const ls_type *w = ls_type_of(g, l->in[1]);
    return gradients_fit(j, h) && !(h->dw && (ls_dtype_size(w->dtype) < 4 || w->dims[1] % 16));
}

/* Emits what a value depends on, which stands later in the old graph. */
static void emit_early(join *j, ls_value v)
{
    const ls_node *n = maker(j, v);
    if (!ls_present(v) || j->done[n->id] || ls_present(j->r.map[n->out[0].id]))
        return;
    for (int k = 0; k < n->n_in; k++)
        if (ls_present(n->in[k]))
            emit_early(j, n->in[k]);
    ls_rewrite_copy(&j->r, n);
    j->done[n->id] = true;
}

static ls_value reshaped(join *j, ls_value v, ls_value like)
{
    const ls_type *t = ls_type_of(j->r.from, like), is = ls_value_type(j->r.to, v);
    return ls_type_equal(t, &is) ? v : ls_reshape_dims(j->r.to, v, t->ndim, t->dims);
}

static void emit_head(join *j, const head *h, int64_t most)
{
    ls_graph *g = j->r.to;
    const ls_node *l = h->linear;
    const ls_loss_attrs *loss = h->loss->attrs;
    const ls_type *w = ls_type_of(j->r.from, l->in[1]);
    int64_t rows = (most / w->dims[0] + LS_LOSS_BLOCK / 2) / LS_LOSS_BLOCK * LS_LOSS_BLOCK;
    rows = rows < LS_LOSS_BLOCK ? LS_LOSS_BLOCK : rows > MOST_ROWS ? MOST_ROWS : rows;
    const ls_linear_loss_attrs attrs = { .ignore_index = loss->ignore_index,
                                         .smoothing = loss->smoothing,
                                         .rows = rows,
                                         .top = h->top != NULL,
                                         .dx = h->dx != NULL,
                                         .dw = h->dw != NULL };
    if (h->grad)
        emit_early(j, h->grad->in[4]);
    ls_rewrite_like(&j->r, h->grad ? h->grad : h->loss);
    ls_value in[] = {
        ls_rewrite_value(&j->r, l->in[0]),       ls_rewrite_value(&j->r, l->in[1]),
        ls_rewrite_value(&j->r, h->loss->in[1]), l->n_in > 2 ? ls_rewrite_value(&j->r, l->in[2]) : LS_NONE,
        ls_rewrite_value(&j->r, h->loss->in[2]), h->grad ? ls_rewrite_value(&j->r, h->grad->in[4]) : LS_NONE
    };
    if (ls_value_type(g, in[0]).ndim != 2)
        in[0] = ls_reshape_dims(g, in[0], 2, (int64_t[]){ -1, w->dims[1] });
    const ls_node *n = ls_graph_add(g, &ls_op_linear_cross_entropy, 6, in, &attrs);
    if (!n)
        return;
    int out = 2;
    j->r.map[h->loss->out[0].id] = n->out[0];
    j->r.map[h->loss->out[2].id] = n->out[1];
    if (h->top)
        j->r.map[h->top->out[0].id] = reshaped(j, n->out[out++], h->top->out[0]);
    if (h->dx)
        j->r.map[h->dx->out[0].id] = reshaped(j, n->out[out++], h->dx->out[0]);
    if (h->dw)
        j->r.map[h->dw->out[0].id] = n->out[out++];
}

/* Marks the nodes that the joined one replaces. */
static void take(join *j, const head *h)
{
    const ls_graph *g = j->r.from;
    const ls_node *nodes[] = { h->linear, h->loss, h->grad, h->dx, h->dw, h->top };
    for (int k = 0; k < 6; k++)
        if (nodes[k])
            j->done[nodes[k]->id] = true;
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        if (n->op == &ls_op_reshape && (root_of(j, n->out[0]) == h->linear->out[0].id ||
                                        (h->grad && root_of(j, n->out[0]) == h->grad->out[0].id)))
            j->done[i] = true;
    }
}

static ls_status join_all(join *j, int64_t most)
{
    const ls_graph *g = j->r.from;
    head *heads = ls_sys_calloc((size_t)g->n_nodes + 1, sizeof *heads); /* by the node of the loss */
    LS_TRY(ls_sys_have(heads));
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        for (int k = 0; k < n->n_out; k++)
            j->root[n->out[k].id] = n->op == &ls_op_reshape ? root_of(j, n->in[0]) : n->out[k].id;
    }
    for (int i = 0; i < g->n_nodes; i++) {
        head h;
        if (find_head(j, g->nodes[i], most, &h)) {
            heads[h.loss->id] = h;
            take(j, &h);
        }
    }
    for (int i = 0; i < g->n_nodes && j->r.to->status == LS_OK; i++)
        if (heads[i].linear)
            emit_head(j, &heads[i], most);
        else if (!j->done[i])
            ls_rewrite_copy(&j->r, g->nodes[i]);
    free(heads);
    return LS_OK;
}

ls_status ls_pass_join_loss(ls_graph **gp, int64_t most)
{
    const ls_graph *g = *gp;
    join j = { 0 };
    LS_TRY(ls_rewrite_begin(&j.r, g));
    j.root = ls_sys_calloc((size_t)g->n_vals, sizeof *j.root);
    j.done = ls_sys_calloc((size_t)g->n_nodes + 1, sizeof *j.done);
    ls_status s = ls_uses_init(&j.uses, g);
    if (s == LS_OK)
        s = ls_sys_have(j.root ? j.done : NULL);
    if (s == LS_OK)
        s = join_all(&j, most);
    ls_uses_release(&j.uses);
    free(j.root);
    free(j.done);
    if (s == LS_OK)
        return ls_rewrite_end(&j.r, gp);
    ls_rewrite_abort(&j.r);
    return s;
}
