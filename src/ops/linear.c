/* linear.c - the matrix products: y = x * w^T + b (PyTorch's F.linear), and its two gradients. passes/fuse.c
 * attaches the optional operands. Kernels apply them while a tile is in registers, and round as the unfused
 * graph would. passes/unpack.c gives them weights of 4 bits as they are. */
#include "rules.h"
#include "base/argument.h"

enum { X, W, BIAS, RESIDUAL, SCALES }; /* linear */
enum { DY, DXW, PRE, ADDEND };         /* linear_dx; then SCALES */

static int64_t last(const ls_type *t) { return t->ndim ? t->dims[t->ndim - 1] : 1; }
static bool linear_given(const ls_infer *i, int j) { return j < i->n_in && i->in[j].ndim >= 0; }

static ls_type with_last(const ls_type *t, int64_t n)
{
    ls_type r = *t;
    r.dims[r.ndim - 1] = n;
    return r;
}

/* The type of w: with scales, that of the numbers that its codes of 4 bits stand for. */
static ls_status weight_type(ls_type *w, const ls_infer *i)
{
    *w = i->in[W];
    return linear_given(i, SCALES) ? ls_infer_nf4(w, i, W, SCALES, i->in[0].dtype) : LS_OK;
}

static ls_status infer_linear(ls_infer *i)
{
    ls_type of_w;
    const ls_type *x = &i->in[X], *w = &of_w;
    const ls_linear_attrs *a = i->attrs;
    LS_TRY(weight_type(&of_w, i));
    LS_RULE_CHECK(i, x->ndim >= 1 && w->ndim == 2, "needs x [.., K] and w [N, K]");
    LS_RULE_CHECK(i, ls_dtype_is_float(x->dtype) && x->dtype == w->dtype,
                  "x and w have different types; cast one");
    LS_RULE_CHECK(i, last(x) == w->dims[1], "x has %lld features, w wants %lld", (long long)last(x),
                  (long long)w->dims[1]);
    ls_type y = with_last(x, w->dims[0]);
    if (linear_given(i, BIAS))
        LS_TRY(ls_infer_expect(i, BIAS, &LS_TYPE(x->dtype, w->dims[0]), "bias"));
    if (linear_given(i, RESIDUAL))
        LS_TRY(ls_infer_expect(i, RESIDUAL, &y, "residual"));
    i->out[0] = y;
    i->n_out = 1;
    if (a->act != LS_ACT_NONE)
        i->out[i->n_out++] = y; /* the activation's input, which the backward pass needs */
    return LS_OK;
}

static ls_status infer_linear_dx(ls_infer *i)
{
    ls_type of_w;
    const ls_type *dy = &i->in[DY], *w = &of_w;
    const ls_linear_attrs *a = i->attrs;
    LS_TRY(weight_type(&of_w, i));
    LS_RULE_CHECK(i, dy->ndim >= 1 && w->ndim == 2, "needs dy [.., N] and w [N, K]");
    LS_RULE_CHECK(i, dy->dtype == w->dtype, "dy and w have different types");
    LS_RULE_CHECK(i, last(dy) == w->dims[0], "dy has %lld features, w has %lld rows", (long long)last(dy),
                  (long long)w->dims[0]);
    LS_RULE_CHECK(i, (a->act != LS_ACT_NONE) == linear_given(i, PRE),
                  "an activation's gradient needs its input, and only that");
    ls_type dx = with_last(dy, w->dims[1]);
    if (linear_given(i, PRE))
        LS_TRY(ls_infer_expect(i, PRE, &dx, "pre"));
    if (linear_given(i, ADDEND))
        LS_TRY(ls_infer_expect(i, ADDEND, &dx, "addend"));
    i->out[0] = dx;
    return LS_OK;
}

static ls_status infer_linear_dw(ls_infer *i)
{
    const ls_type *dy = &i->in[0], *x = &i->in[1];
    LS_RULE_CHECK(i, dy->ndim >= 1 && dy->ndim == x->ndim && dy->dtype == x->dtype,
                  "needs dy [.., N] and x [.., K] of one type");
    for (int d = 0; d + 1 < dy->ndim; d++)
        LS_RULE_CHECK(i, dy->dims[d] == x->dims[d], "dy and x have different rows");
    i->out[0] = LS_TYPE(x->dtype, last(dy), last(x));
    i->n_out = 1;
    if (((const ls_linear_dw_attrs *)i->attrs)->bias)
        i->out[i->n_out++] = LS_TYPE(x->dtype, last(dy));
    return LS_OK;
}

static double operand_bytes(const ls_infer *i)
{
    double bytes = 0;
    for (int k = 0; k < i->n_in; k++)
        if (i->in[k].ndim >= 0)
            bytes += (double)ls_type_bytes(&i->in[k]);
    for (int k = 0; k < i->n_out; k++)
        bytes += (double)ls_type_bytes(&i->out[k]);
    return bytes;
}

static ls_cost cost_product(const ls_infer *i) /* linear and linear_dx: each row meets all of w [N, K] */
{
    const double codes = linear_given(i, SCALES) ? 2 : 1; /* numbers of an element of w */
    return (ls_cost){ .flops = 2.0 * (double)ls_type_rows(&i->in[0]) * codes *
                               (double)ls_type_count(&i->in[1]),
                      .bytes = operand_bytes(i) };
}

static ls_cost cost_linear_dw(const ls_infer *i)
{
    return (ls_cost){ .flops = 2.0 * (double)ls_type_rows(&i->in[0]) * (double)ls_type_count(&i->out[0]),
                      .bytes = operand_bytes(i) };
}

static void grad_linear(ls_grad *c)
{
    const ls_node *n = c->node;
    bool bias = n->n_in > BIAS && ls_present(n->in[BIAS]) && c->needs[BIAS];
    if (((const ls_linear_attrs *)n->attrs)->act != LS_ACT_NONE ||
        (n->n_in > RESIDUAL && ls_present(n->in[RESIDUAL]))) {
        ls_graph_error(c->g, LS_E_INTERNAL, "linear was fused before differentiation");
        return;
    }
    /* dx comes first: then w is no longer needed, and dw may take its place (plan/avoid_copies.c). */
    if (c->needs[X])
        c->din[X] = ls_linear_dx(c->g, c->dout[0], n->in[W]);
    if (c->needs[W] || bias) {
        ls_value dw = ls_linear_dw(c->g, c->dout[0], n->in[X], bias);
        c->din[W] = dw;
        if (bias)
            c->din[BIAS] = ls_nth(c->g, dw, 1);
    }
}

/* With an activation, the summed loop must not be split: the activation of a sum is not the sum of
 * activations. */
static ls_status dims_linear(ls_rule *r, const ls_infer *i)
{
    if (((const ls_linear_attrs *)i->attrs)->act != LS_ACT_NONE)
        ls_rule_fix(r, 'k');
    return LS_OK;
}

static const char *const ACT_WORDS[] = {
    [LS_ACT_NONE] = "none", [LS_ACT_RELU] = "relu", [LS_ACT_GELU] = "gelu", [LS_ACT_GELU_TANH] = "gelu_tanh"
};
static const ls_attr_field ACT_FIELDS[] = {
    { "act", LS_FIELD_I64, offsetof(ls_linear_attrs, act), ACT_WORDS }, { 0 }
};
static const ls_attr_field DW_FIELDS[] = { { "bias", LS_FIELD_I64, offsetof(ls_linear_dw_attrs, bias), NULL },
                                           { 0 } };

const ls_op ls_op_linear = {
    .name = "linear",
    .rule = "r.. k, n k, +n, +r.. n, n k -> r.. n, r.. n",
    .dims = dims_linear,
    .min_in = 2,
    .max_in = 5,
    .n_out = 1,
    .optional_in = 1 << BIAS | 1 << RESIDUAL | 1 << SCALES,
    .attrs_size = sizeof(ls_linear_attrs),
    .fields = ACT_FIELDS,
    .infer = infer_linear,
    .grad = grad_linear,
    .cost = cost_product,
    .summary = "Multiplies by a weight: act(x * w^T + bias) + residual.",
};
const ls_op ls_op_linear_dx = {
    .name = "linear_dx",
    .rule = LS_RULE_LATER,
    .min_in = 2,
    .max_in = 5,
    .n_out = 1,
    .optional_in = 1 << PRE | 1 << ADDEND | 1 << SCALES,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_linear_attrs),
    .fields = ACT_FIELDS,
    .infer = infer_linear_dx,
    .cost = cost_product,
    .summary = "Computes the gradient of linear for x: dy * w, times act'(pre), plus an addend.",
};
const ls_op ls_op_linear_dw = {
    .name = "linear_dw",
    .rule = LS_RULE_LATER,
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_linear_dw_attrs),
    .fields = DW_FIELDS,
    .infer = infer_linear_dw,
    .cost = cost_linear_dw,
    .summary =
        "Computes the gradient of linear for the weight, dy^T * x, and the column sums of dy, for the bias.",
};

ls_value ls_matmul_wt(ls_graph *g, ls_value x, ls_value w, ls_value b)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    return ls_graph_apply(g, &ls_op_linear, ls_present(b) || b.id < 0 ? 3 : 2, (ls_value[]){ x, w, b },
                          &(ls_linear_attrs){ 0 });
}

ls_value ls_linear_dx(ls_graph *g, ls_value dy, ls_value w)
{
    return ls_graph_apply(g, &ls_op_linear_dx, 2, (ls_value[]){ dy, w }, &(ls_linear_attrs){ 0 });
}

ls_value ls_linear_dw(ls_graph *g, ls_value dy, ls_value x, bool bias)
{
    return ls_graph_apply(g, &ls_op_linear_dw, 2, (ls_value[]){ dy, x },
                          &(ls_linear_dw_attrs){ .bias = bias });
}
