/* position_bias.c - T5's relative positions. What attention adds to the score of a query and a key depends
 * only on the bucket of their distance. So the bias is a tensor by distance, [heads, queries + keys - 1], and
 * never one of [queries, keys]. */
#include "rules.h"
#include "base/argument.h"

static ls_status position_bias_check(const ls_infer *i)
{
    const ls_position_bias_attrs *a = i->attrs;
    LS_RULE_CHECK(i, a->queries > 0 && a->keys > 0, "%lld queries and %lld keys", (long long)a->queries,
                  (long long)a->keys);
    const int64_t exact = a->buckets / (a->both ? 4 : 2);
    LS_RULE_CHECK(i, exact >= 1 && (!a->both || a->buckets % 2 == 0), "%lld buckets do not part",
                  (long long)a->buckets);
    LS_RULE_CHECK(i, a->max_distance > exact,
                  "max_distance %lld is not above %lld, to where each distance has its own bucket",
                  (long long)a->max_distance, (long long)exact);
    return LS_OK;
}

static ls_status infer_position_bias(ls_infer *i)
{
    const ls_position_bias_attrs *a = i->attrs;
    const ls_type *table = &i->in[0];
    LS_TRY(position_bias_check(i));
    LS_RULE_CHECK(i, table->ndim == 2 && ls_dtype_is_float(table->dtype) && table->dims[0] == a->buckets,
                  "needs a float table [%lld, heads]", (long long)a->buckets);
    i->out[0] = LS_TYPE(table->dtype, table->dims[1], a->queries + a->keys - 1);
    return LS_OK;
}

static ls_status infer_position_bias_grad(ls_infer *i)
{
    const ls_position_bias_attrs *a = i->attrs;
    const ls_type *dy = &i->in[0];
    LS_TRY(position_bias_check(i));
    LS_RULE_CHECK(i, dy->ndim == 2 && ls_dtype_is_float(dy->dtype) && dy->dims[1] == a->queries + a->keys - 1,
                  "needs float dy [heads, %lld]", (long long)(a->queries + a->keys - 1));
    i->out[0] = LS_TYPE(dy->dtype, a->buckets, dy->dims[0]);
    return LS_OK;
}

static void grad_position_bias(ls_grad *c)
{
    c->din[0] = ls_graph_apply(c->g, &ls_op_position_bias_grad, 1, c->dout, c->node->attrs);
}

static const ls_attr_field FIELDS[] = {
    { "queries", LS_FIELD_I64, offsetof(ls_position_bias_attrs, queries), NULL },
    { "keys", LS_FIELD_I64, offsetof(ls_position_bias_attrs, keys), NULL },
    { "buckets", LS_FIELD_I64, offsetof(ls_position_bias_attrs, buckets), NULL },
    { "max_distance", LS_FIELD_I64, offsetof(ls_position_bias_attrs, max_distance), NULL },
    { "both", LS_FIELD_I64, offsetof(ls_position_bias_attrs, both), NULL },
    { 0 },
};
const ls_op ls_op_position_bias = {
    .name = "position_bias",
    .rule = "n! h -> h d!",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .attrs_size = sizeof(ls_position_bias_attrs),
    .fields = FIELDS,
    .infer = infer_position_bias,
    .grad = grad_position_bias,
    .summary = "Reads T5's bias of relative positions: y[h, j - i + queries - 1] = table[bucket(j - i), h].",
};
const ls_op ls_op_position_bias_grad = {
    .name = "position_bias_grad",
    .rule = LS_RULE_LATER,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_position_bias_attrs),
    .fields = FIELDS,
    .infer = infer_position_bias_grad,
    .summary = "Adds up the gradients of T5's biases: dtable[n, h] = sum of dy[h, d] over the distances of "
               "bucket n.",
};

ls_value ls_position_bias(ls_graph *g, ls_value table, int64_t queries, int64_t keys, int64_t max_distance,
                          bool both)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    const ls_type t = ls_value_type(g, table);
    return ls_graph_apply(g, &ls_op_position_bias, 1, &table,
                          &(ls_position_bias_attrs){ .queries = queries,
                                                     .keys = keys,
                                                     .buckets = t.ndim == 2 ? t.dims[0] : 0,
                                                     .max_distance = max_distance,
                                                     .both = both });
}
