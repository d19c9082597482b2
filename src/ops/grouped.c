/* grouped.c - rows that go to one of several groups; each group has a weight, as the tokens of a
 * mixture of experts: which groups a token goes to (top_k), the rows sorted by group (group_order, dispatch),
 * a product of each row and its group's weight (grouped_linear), and the sum of a token's rows (combine).
 * Sizes are static: k rows for each token, wherever they go. Only offsets, which are data, say how many rows
 * a group has. */
#include "rules.h"
#include "graph/tensor_attrs.h"

enum { X, OFFSETS, WEIGHTS }; /* grouped_linear; grouped_linear_dx has dy for x */

/* ---- top_k */

static ls_status infer_top_k(ls_infer *i)
{
    const int64_t k = ((const ls_top_k_attrs *)i->attrs)->k;
    ls_type t = i->in[0];
    LS_RULE_CHECK(i, t.ndim >= 1 && ls_dtype_is_float(t.dtype), "needs float a [.., n]");
    LS_RULE_CHECK(i, k >= 1 && k <= t.dims[t.ndim - 1], "the %lld largest of %lld elements", (long long)k,
                  (long long)t.dims[t.ndim - 1]);
    t.dims[t.ndim - 1] = k;
    i->out[0] = i->out[1] = t;
    i->out[1].dtype = LS_I32;
    return LS_OK;
}

static void grad_top_k(ls_grad *c)
{
    const ls_type *t = ls_type_of(c->g, c->node->in[0]);
    c->din[0] = ls_graph_apply(c->g, &ls_op_scatter_add, 2, (ls_value[]){ c->dout[0], c->node->out[1] },
                               &(ls_index_attrs){ .dim = t->ndim - 1, .size = t->dims[t->ndim - 1] });
}

/* ---- group_order, dispatch, combine */

static ls_status infer_group_order(ls_infer *i)
{
    const ls_type *index = &i->in[0];
    const int64_t groups = ((const ls_group_attrs *)i->attrs)->n;
    LS_RULE_CHECK(i, index->ndim == 2 && index->dtype == LS_I32, "needs i32 groups [tokens, k]");
    LS_RULE_CHECK(i, groups >= 1, "%lld groups", (long long)groups);
    LS_RULE_CHECK(i, ls_type_count(index) <= INT32_MAX, "%lld rows: an i32 counts to 2^31 - 1",
                  (long long)ls_type_count(index));
    i->out[0] = i->out[1] = LS_TYPE(LS_I32, ls_type_count(index));
    i->out[2] = LS_TYPE(LS_I32, groups + 1);
    return LS_OK;
}

/* in[1] and in[2] are the order of `rows` rows, and the place of each. */
static ls_status check_order(const ls_infer *i, int64_t *rows)
{
    const ls_type *x = &i->in[0];
    LS_RULE_CHECK(i, x->ndim >= 1 && ls_dtype_is_float(x->dtype), "needs float rows [n, ..]");
    *rows = i->in[1].ndim == 1 ? i->in[1].dims[0] : 0;
    LS_TRY(ls_infer_expect(i, 1, &LS_TYPE(LS_I32, *rows), "order"));
    return ls_infer_expect(i, 2, &LS_TYPE(LS_I32, *rows), "place");
}

static ls_status infer_dispatch(ls_infer *i)
{
    int64_t rows;
    LS_TRY(check_order(i, &rows));
    const int64_t n = i->in[0].dims[0];
    LS_RULE_CHECK(i, n > 0 && rows > 0 && rows % n == 0, "%lld rows of %lld tokens", (long long)rows,
                  (long long)n);
    i->out[0] = i->in[0];
    i->out[0].dims[0] = rows;
    return LS_OK;
}

static ls_status infer_combine(ls_infer *i)
{
    int64_t rows;
    const int64_t n = ((const ls_group_attrs *)i->attrs)->n;
    LS_TRY(check_order(i, &rows));
    LS_RULE_CHECK(i, i->in[0].dims[0] == rows && n > 0 && rows > 0 && rows % n == 0,
                  "%lld rows in an order of %lld, of %lld tokens", (long long)i->in[0].dims[0],
                  (long long)rows, (long long)n);
    i->out[0] = i->in[0];
    i->out[0].dims[0] = n;
    return LS_OK;
}

static void grad_dispatch(ls_grad *c)
{
    const ls_node *n = c->node;
    c->din[0] = ls_combine(c->g, c->dout[0], n->in[1], n->in[2], ls_type_of(c->g, n->in[0])->dims[0]);
}

static void grad_combine(ls_grad *c)
{
    const ls_node *n = c->node;
    c->din[0] = ls_dispatch(c->g, c->dout[0], n->in[1], n->in[2]);
}

static void local_combine(ls_arena *a, void *attrs, const ls_type *out)
{
    (void)a;
    ((ls_group_attrs *)attrs)->n = out->dims[0];
}

static ls_cost cost_combine(const ls_infer *i)
{
    return (ls_cost){ .flops = (double)ls_type_count(&i->in[0]),
                      .bytes = (double)ls_type_bytes(&i->in[0]) + (double)ls_type_bytes(&i->out[0]) };
}

/* ---- grouped_linear and its gradients */

static int64_t groups_of(const ls_infer *i, int offsets) { return i->in[offsets].dims[0] - 1; }

/* x [rows, ..], offsets, then a weight [n, k] for each group */
static ls_status check_groups(const ls_infer *i)
{
    const ls_type *x = &i->in[X];
    LS_RULE_CHECK(i, x->ndim == 2 && ls_dtype_is_float(x->dtype), "needs float rows [rows, features]");
    LS_TRY(ls_infer_expect(i, OFFSETS, &LS_TYPE(LS_I32, i->n_in - WEIGHTS + 1), "offsets"));
    LS_RULE_CHECK(i, i->in[WEIGHTS].ndim == 2 && i->in[WEIGHTS].dtype == x->dtype,
                  "needs weights [n, k] of the rows' type");
    for (int k = WEIGHTS + 1; k < i->n_in; k++)
        LS_TRY(ls_infer_expect(i, k, &i->in[WEIGHTS], "a group's weight"));
    return LS_OK;
}

/* side 1: rows of x meet rows of w; 0: columns of w */
static ls_status infer_product(ls_infer *i, int side)
{
    LS_TRY(check_groups(i));
    const ls_type *x = &i->in[X], *w = &i->in[WEIGHTS];
    LS_RULE_CHECK(i, x->dims[1] == w->dims[side], "rows of %lld features, and weights of %lld",
                  (long long)x->dims[1], (long long)w->dims[side]);
    i->out[0] = LS_TYPE(x->dtype, x->dims[0], w->dims[!side]);
    return LS_OK;
}
static ls_status infer_grouped_linear(ls_infer *i) { return infer_product(i, 1); }
static ls_status infer_grouped_linear_dx(ls_infer *i) { return infer_product(i, 0); }

static ls_status infer_grouped_linear_dw(ls_infer *i) /* dy, x, offsets */
{
    const ls_type *dy = &i->in[0], *x = &i->in[1], *offsets = &i->in[2];
    const int64_t group = ((const ls_group_attrs *)i->attrs)->n;
    LS_RULE_CHECK(i, dy->ndim == 2 && x->ndim == 2 && dy->dims[0] == x->dims[0] && dy->dtype == x->dtype,
                  "needs dy [rows, N] and x [rows, K] of one type");
    LS_RULE_CHECK(
        i, offsets->ndim == 1 && offsets->dtype == LS_I32 && group >= 0 && group + 1 < offsets->dims[0],
        "needs i32 offsets of more than %lld groups", (long long)group);
    i->out[0] = LS_TYPE(x->dtype, dy->dims[1], x->dims[1]);
    return LS_OK;
}

/* The rows move among the groups by data, so they are never split; features are, as linear's. */
static ls_status dims_grouped_linear(ls_rule *r, const ls_infer *i)
{
    const int rows = ls_rule_loop(r), k = ls_rule_loop(r), n = ls_rule_loop(r), groups = ls_rule_loop(r);
    r->loop[rows].fixed = r->loop[rows].moved = r->loop[groups].fixed = true;
    r->in[X][0] = r->out[0][0] = (int8_t)rows;
    r->in[X][1] = (int8_t)k;
    r->in[OFFSETS][0] = (int8_t)groups;
    r->out[0][1] = (int8_t)n;
    for (int w = WEIGHTS; w < i->n_in && w < LS_RULE_IN; w++) {
        r->in[w][0] = (int8_t)n;
        r->in[w][1] = (int8_t)k;
    }
    return LS_OK;
}

static double moved_bytes(const ls_infer *i)
{
    double bytes = (double)ls_type_bytes(&i->out[0]);
    for (int k = 0; k < i->n_in; k++)
        bytes += (double)ls_type_bytes(&i->in[k]);
    return bytes;
}

/* How many of the rows in operand 0 belong to a group, if they are spread evenly. */
static double rows_of_groups(const ls_infer *i)
{
    const int64_t rows = ((const ls_group_attrs *)i->attrs)->rows;
    return (double)(rows ? rows : i->in[0].dims[0]);
}

static ls_cost cost_grouped(const ls_infer *i) /* each row meets the weight of one group */
{
    return (ls_cost){ .flops = 2.0 * rows_of_groups(i) * (double)ls_type_count(&i->in[WEIGHTS]),
                      .bytes = moved_bytes(i) };
}

/* That of a group with as many rows as the others. */
static ls_cost cost_grouped_dw(const ls_infer *i)
{
    const double share = 1.0 / (double)groups_of(i, 2);
    return (ls_cost){ .flops = 2.0 * share * rows_of_groups(i) * (double)ls_type_count(&i->out[0]),
                      .bytes = share * moved_bytes(i) + (1 - share) * (double)ls_type_bytes(&i->out[0]) };
}

static void grad_grouped_linear(ls_grad *c)
{
    const ls_node *n = c->node;
    ls_value *in = LS_ARENA_ARRAY(&c->g->arena, ls_value, n->n_in);
    if (!ls_graph_room(c->g))
        return;
    for (int k = 0; k < n->n_in; k++)
        in[k] = k == X ? c->dout[0] : n->in[k];
    if (c->needs[X])
        c->din[X] = ls_graph_apply(c->g, &ls_op_grouped_linear_dx, n->n_in, in, n->attrs);
    for (int k = WEIGHTS; k < n->n_in; k++)
        if (c->needs[k])
            c->din[k] = ls_graph_apply(
                c->g, &ls_op_grouped_linear_dw, 3, (ls_value[]){ c->dout[0], n->in[X], n->in[OFFSETS] },
                &(ls_group_attrs){ k - WEIGHTS, ((const ls_group_attrs *)n->attrs)->rows });
}

/* ---- the groups of one rank, with the rows that all ranks send it */

static ls_status infer_received_groups(ls_infer *i)
{
    const ls_received_attrs *a = i->attrs;
    const ls_type *begins = &i->in[0];
    LS_RULE_CHECK(i, a->ranks >= 1 && a->position >= 0 && a->position < a->ranks,
                  "position %lld of %lld ranks", (long long)a->position, (long long)a->ranks);
    LS_RULE_CHECK(i, begins->ndim == 1 && begins->dtype == LS_I32 && begins->dims[0] % a->ranks == 0,
                  "needs i32 offsets of %lld ranks, one after the other", (long long)a->ranks);
    const int64_t groups = begins->dims[0] / a->ranks - 1;
    LS_RULE_CHECK(i, groups >= 1 && groups % a->ranks == 0, "%lld ranks do not divide %lld groups",
                  (long long)a->ranks, (long long)groups);
    i->out[0] = LS_TYPE(LS_I32, groups + 1);
    return LS_OK;
}

static const ls_attr_field TOP_K_FIELDS[] = { { "k", LS_FIELD_I64, offsetof(ls_top_k_attrs, k), NULL },
                                              { 0 } };
#define GROUP_FIELDS(name)                                               \
    {                                                                    \
        { name, LS_FIELD_I64, offsetof(ls_group_attrs, n), NULL }, { 0 } \
    }
static const ls_attr_field ORDER_FIELDS[] = GROUP_FIELDS("groups"), COMBINE_FIELDS[] = GROUP_FIELDS("tokens");
static const ls_attr_field DW_FIELDS[] = { { "group", LS_FIELD_I64, offsetof(ls_group_attrs, n), NULL },
                                           { "rows", LS_FIELD_I64, offsetof(ls_group_attrs, rows), NULL },
                                           { 0 } };
static const ls_attr_field RECEIVED_FIELDS[] = {
    { "position", LS_FIELD_I64, offsetof(ls_received_attrs, position), NULL },
    { "ranks", LS_FIELD_I64, offsetof(ls_received_attrs, ranks), NULL },
    { 0 }
};

const ls_op ls_op_top_k = {
    .name = "top_k",
    .rule = "r.. f! -> r.. k!, r.. k!",
    .min_in = 1,
    .max_in = 1,
    .n_out = 2,
    .attrs_size = sizeof(ls_top_k_attrs),
    .fields = TOP_K_FIELDS,
    .infer = infer_top_k,
    .grad = grad_top_k,
    .summary = "Finds the k largest elements of the last dimension, the largest first, and their numbers.",
};
const ls_op ls_op_group_order = {
    .name = "group_order",
    .rule = "t% k! -> t%, t%, g!",
    .min_in = 1,
    .max_in = 1,
    .n_out = 3,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_group_attrs),
    .fields = ORDER_FIELDS,
    .infer = infer_group_order,
    .summary = "Sorts rows by their groups: their order, the place of each, and where each group begins.",
};
const ls_op ls_op_dispatch = {
    .name = "dispatch",
    .rule = "t% b.., t%, t% -> t% b..",
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .infer = infer_dispatch,
    .grad = grad_dispatch,
    .summary = "Copies each token's row to its k places in the order of the groups.",
};
const ls_op ls_op_combine = {
    .name = "combine",
    .rule = "t% b.., t%, t% -> t% b..",
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .attrs_size = sizeof(ls_group_attrs),
    .fields = COMBINE_FIELDS,
    .infer = infer_combine,
    .local = local_combine,
    .grad = grad_combine,
    .cost = cost_combine,
    .summary = "Adds up each token's k rows, which lie in the order of the groups.",
};
const ls_op ls_op_grouped_linear = {
    .name = "grouped_linear",
    .dims = dims_grouped_linear,
    .min_in = 3,
    .max_in = -1,
    .n_out = 1,
    .attrs_size = sizeof(ls_group_attrs),
    .fields = DW_FIELDS + 1,
    .infer = infer_grouped_linear,
    .grad = grad_grouped_linear,
    .cost = cost_grouped,
    .summary = "Multiplies each row by the weight of its group: x * w^T.",
};
const ls_op ls_op_grouped_linear_dx = {
    .name = "grouped_linear_dx",
    .rule = LS_RULE_LATER,
    .min_in = 3,
    .max_in = -1,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_group_attrs),
    .fields = DW_FIELDS + 1,
    .infer = infer_grouped_linear_dx,
    .cost = cost_grouped,
    .summary = "Computes the gradient of grouped_linear for x: dy * w, by groups.",
};
const ls_op ls_op_grouped_linear_dw = {
    .name = "grouped_linear_dw",
    .rule = LS_RULE_LATER,
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_group_attrs),
    .fields = DW_FIELDS,
    .infer = infer_grouped_linear_dw,
    .cost = cost_grouped_dw,
    .summary = "Computes the gradient of grouped_linear for a group's weight: dy^T * x over its rows.",
};
const ls_op ls_op_received_groups = {
    .name = "received_groups",
    .rule = LS_RULE_LATER,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_received_attrs),
    .fields = RECEIVED_FIELDS,
    .infer = infer_received_groups,
    .summary = "Says where each group begins in the rows that all_to_all brings: by rank, then by group.",
};

ls_value ls_top_k(ls_graph *g, ls_value a, int64_t k)
{
    return ls_graph_apply(g, &ls_op_top_k, 1, &a, &(ls_top_k_attrs){ .k = k });
}

ls_value ls_group_order(ls_graph *g, ls_value index, int64_t groups)
{
    return ls_graph_apply(g, &ls_op_group_order, 1, &index, &(ls_group_attrs){ .n = groups });
}

ls_value ls_dispatch(ls_graph *g, ls_value x, ls_value order, ls_value place)
{
    return ls_graph_apply(g, &ls_op_dispatch, 3, (ls_value[]){ x, order, place }, NULL);
}

ls_value ls_combine(ls_graph *g, ls_value x, ls_value order, ls_value place, int64_t tokens)
{
    return ls_graph_apply(g, &ls_op_combine, 3, (ls_value[]){ x, order, place },
                          &(ls_group_attrs){ .n = tokens });
}
