/* embedding.c - rows of a table by number, and the gradient of the table: for each row, the sum of dy over
 * all places that read it. */
#include "rules.h"
#include "base/argument.h"

enum { IDS, TABLE };     /* of embedding */
enum { DY, AT, ADDEND }; /* of its gradient; AT: the ids */

static ls_status check_ids(const ls_infer *i, const ls_type *ids)
{
    LS_RULE_CHECK(i, ids->dtype == LS_I32 && ids->ndim < LS_MAX_DIMS, "ids are i32 [..]");
    return LS_OK;
}

static ls_type rows_of(const ls_type *ids, const ls_type *table)
{
    ls_type t = *ids;
    t.dtype = table->dtype;
    t.dims[t.ndim++] = table->dims[1];
    return t;
}

static ls_status infer_embedding(ls_infer *i)
{
    const ls_type *table = &i->in[TABLE];
    LS_TRY(check_ids(i, &i->in[IDS]));
    LS_RULE_CHECK(i, table->ndim == 2 && ls_dtype_is_float(table->dtype), "needs a float table [rows, K]");
    LS_TRY(ls_infer_at(i, table));
    i->out[0] = rows_of(&i->in[IDS], table);
    return LS_OK;
}

static ls_status infer_embedding_grad(ls_infer *i)
{
    const ls_type *dy = &i->in[DY], *ids = &i->in[AT];
    LS_TRY(check_ids(i, ids));
    LS_RULE_CHECK(i, dy->ndim == ids->ndim + 1 && ls_dtype_is_float(dy->dtype),
                  "dy must have one dimension more than the ids");
    const ls_type table = LS_TYPE(dy->dtype, ((const ls_embedding_attrs *)i->attrs)->rows,
                                  dy->dims[dy->ndim - 1]),
                  want = rows_of(ids, &table);
    LS_RULE_CHECK(i, table.dims[0] > 0, "a table of %lld rows", (long long)table.dims[0]);
    LS_TRY(ls_infer_at(i, &table));
    LS_TRY(ls_infer_expect(i, DY, &want, "dy"));
    if (i->n_in > ADDEND && i->in[ADDEND].ndim >= 0)
        LS_TRY(ls_infer_expect(i, ADDEND, &table, "addend"));
    i->out[0] = table;
    return LS_OK;
}

static void grad_embedding(ls_grad *c)
{
    const ls_node *n = c->node;
    const ls_embedding_attrs a = { .rows = ls_type_of(c->g, n->in[TABLE])->dims[0] };
    if (c->needs[TABLE])
        c->din[TABLE] = ls_graph_apply(c->g, &ls_op_embedding_grad, 2, (ls_value[]){ c->dout[0], n->in[IDS] },
                                       &a);
}

static ls_cost cost_embedding(const ls_infer *i)
{
    return (ls_cost){ .bytes = 2.0 * (double)ls_type_bytes(&i->out[0]) };
}

static ls_cost cost_embedding_grad(const ls_infer *i)
{
    const double dy = (double)ls_type_bytes(&i->in[DY]), table = (double)ls_type_bytes(&i->out[0]);
    /* the addend's memory, if there is one */
    return (ls_cost){ .flops = (double)ls_type_count(&i->in[DY]),
                      .bytes = dy + (i->n_in > ADDEND ? 2 * dy : table) };
}

static const ls_attr_field GRAD_FIELDS[] = {
    { "rows", LS_FIELD_I64, offsetof(ls_embedding_attrs, rows), NULL }, { 0 }
};
const ls_op ls_op_embedding = {
    .name = "embedding",
    .rule = "i.., @v f -> i.. f",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LS_OP_AT,
    .infer = infer_embedding,
    .grad = grad_embedding,
    .cost = cost_embedding,
    .summary =
        "Reads row ids[i] of a table for each i: 0 where another rank has it, NaN where there is none.",
};
const ls_op ls_op_embedding_grad = {
    .name = "embedding_grad",
    .rule = LS_RULE_LATER,
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .optional_in = 1 << ADDEND,
    .flags = LS_OP_NO_GRAD | LS_OP_AT,
    .attrs_size = sizeof(ls_embedding_attrs),
    .fields = GRAD_FIELDS,
    .infer = infer_embedding_grad,
    .cost = cost_embedding_grad,
    .inplace = 1 << ADDEND,
    .summary = "Adds up the gradients of each row of the table: dtable[v] = sum of dy[i] with ids[i] = v, "
               "plus an addend.",
};

ls_value ls_embedding_op(ls_graph *g, ls_value ids, ls_value table)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    return ls_graph_apply(g, &ls_op_embedding, 2, (ls_value[]){ ids, table }, NULL);
}
