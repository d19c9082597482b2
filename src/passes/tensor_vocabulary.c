/* tensor_vocabulary.c - a vocabulary split over axis tp: each rank has some rows of the embedding's table and of the head's weight, and so some columns of the logits.
 *
 *   embedding      each rank gives the rows that it has, and zeros: their sum is exact.
 *   cross_entropy  each rank reduces its columns to three numbers a row; all ranks gather those and have the loss of the whole. Its gradient needs no others.
 *   argmax         likewise, with two numbers. */
#define LS_NO_CALL_SITES /* nodes made here keep the model's line */
#include "ops/rules.h"
#include "tensor.h"

ls_status ls_tensor_embedding(ls_tensor_job *j, const ls_node *n)
{
    const ls_value in[] = { ls_rewrite_value(&j->r, n->in[0]), ls_rewrite_value(&j->r, n->in[1]) };
    if (j->kind[n->in[1].id] == LS_WHOLE) {
        ls_rewrite_copy(&j->r, n);
        return LS_OK;
    }
    const int64_t rows = ls_value_type(j->r.to, in[1]).dims[0];
    const ls_embedding_attrs a = { .first = j->position * rows, .of = j->ranks * rows };
    return ls_tensor_leave(j, n->out[0], ls_graph_apply(j->r.to, &ls_op_embedding, 2, in, &a));
}

/* [rows, k] of this rank -> [ranks, rows, k] of all. */
static ls_value of_all(ls_tensor_job *j, const ls_node *n, ls_value part)
{
    ls_graph *g = j->r.to;
    const ls_type t = ls_value_type(g, part);
    int64_t dims[LS_MAX_DIMS] = { j->ranks };
    for (int d = 0; d < t.ndim; d++)
        dims[d + 1] = t.dims[d];
    const ls_gather_attrs a = { .group = "tp", .unit = ls_tensor_place(j, n), .ranks = j->ranks, .to = t.dtype, .via = t.dtype };
    return ls_reshape_dims(g, ls_all_gather(g, ls_reshape_dims(g, part, 1, (int64_t[]){ -1 }), &a), t.ndim + 1, dims);
}

ls_status ls_tensor_cross_entropy(ls_tensor_job *j, const ls_node *n)
{
    ls_graph *g = j->r.to;
    ls_value in[4];
    for (int k = 0; k < 3; k++)
        in[k] = ls_rewrite_value(&j->r, n->in[k]);
    ls_loss_attrs a = *(const ls_loss_attrs *)n->attrs;
    const int64_t columns = ls_value_type(g, in[0]).dims[1];
    a.first = j->position * columns;
    a.of = j->ranks * columns;
    in[3] = of_all(j, n, ls_graph_apply(g, &ls_op_cross_entropy_part, 2, in, &a));
    const ls_value loss = ls_graph_apply(g, &ls_op_cross_entropy, 4, in, &a);
    for (int k = 0; k < n->n_out; k++)
        j->r.map[n->out[k].id] = ls_nth(g, loss, k);
    return LS_OK;
}

ls_status ls_tensor_argmax(ls_tensor_job *j, const ls_node *n)
{
    ls_graph *g = j->r.to;
    ls_value a = ls_rewrite_value(&j->r, n->in[0]);
    const ls_type t = ls_value_type(g, a);
    const ls_value part = ls_graph_apply(g, &ls_op_argmax_part, 1, &a, &(ls_argmax_attrs){ .first = j->position * t.dims[t.ndim - 1] }), all = of_all(j, n, part);
    j->r.map[n->out[0].id] = ls_graph_apply(g, &ls_op_argmax_join, 1, &all, NULL);
    return LS_OK;
}
