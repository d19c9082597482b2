/* exchange.c - all_to_all: rows that are sorted by group go to the ranks that have their groups, and return.
 * How many rows go where is data: operand 1 has, for each rank, where each of its groups begins. */
#include "rules.h"

static ls_status infer_all_to_all(ls_infer *i)
{
    const ls_exchange_attrs *a = i->attrs;
    const ls_type *x = &i->in[0], *begins = &i->in[1];
    LS_RULE_CHECK(i, a->ranks >= 1 && x->ndim >= 1, "a group of %lld ranks, and rows [n, ..]",
                  (long long)a->ranks);
    LS_RULE_CHECK(i, begins->ndim == 1 && begins->dtype == LS_I32 && begins->dims[0] % a->ranks == 0,
                  "needs i32 offsets of %lld ranks, one after the other", (long long)a->ranks);
    LS_RULE_CHECK(i, a->rows >= 1 && (begins->dims[0] / a->ranks - 1) % a->ranks == 0,
                  "%lld rows of %lld groups over %lld ranks", (long long)a->rows,
                  (long long)(begins->dims[0] / a->ranks - 1), (long long)a->ranks);
    i->out[0] = *x;
    i->out[0].dims[0] = a->rows;
    return LS_OK;
}

static void grad_all_to_all(ls_grad *c)
{
    const ls_node *n = c->node;
    const ls_exchange_attrs *a = n->attrs;
    c->din[0] = ls_graph_apply(c->g, &ls_op_all_to_all, 2, (ls_value[]){ c->dout[0], n->in[1] },
                               &(ls_exchange_attrs){ .group = a->group,
                                                     .unit = a->unit,
                                                     .ranks = a->ranks,
                                                     .rows = ls_type_of(c->g, n->in[0])->dims[0],
                                                     .back = !a->back });
}

static const ls_attr_field FIELDS[] = { { "group", LS_FIELD_TEXT, offsetof(ls_exchange_attrs, group), NULL },
                                        { "unit", LS_FIELD_TEXT, offsetof(ls_exchange_attrs, unit), NULL },
                                        { "ranks", LS_FIELD_I64, offsetof(ls_exchange_attrs, ranks), NULL },
                                        { "rows", LS_FIELD_I64, offsetof(ls_exchange_attrs, rows), NULL },
                                        { "back", LS_FIELD_I64, offsetof(ls_exchange_attrs, back), NULL },
                                        { 0 } };

const ls_op ls_op_all_to_all = {
    .name = "all_to_all",
    .rule = LS_RULE_LATER,
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LS_OP_COLLECTIVE,
    .attrs_size = sizeof(ls_exchange_attrs),
    .fields = FIELDS,
    .infer = infer_all_to_all,
    .grad = grad_all_to_all,
    .cost = ls_cost_move,
    .summary = "Sends rows, sorted by group, to the ranks that have their groups, or back.",
};
