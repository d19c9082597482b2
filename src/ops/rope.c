/* rope.c - rotary position embedding (Su et al. 2021) in the layout of Hugging Face's models: feature i of a
 * head is rotated together with feature i + head_dim/2. The gradient is the opposite rotation, so the op
 * serves as its own gradient. */
#include "rules.h"
#include "base/argument.h"

enum { X, POSITIONS };

static ls_status infer_rope(ls_infer *i)
{
    const ls_rope_attrs *a = i->attrs;
    const ls_type *x = &i->in[X];
    LS_RULE_CHECK(i, x->ndim == 3 && ls_dtype_is_float(x->dtype),
                  "x is float [batch, tokens, heads * head_dim]");
    LS_RULE_CHECK(i, a->head_dim > 0 && a->head_dim % 2 == 0 && x->dims[2] % a->head_dim == 0,
                  "head_dim %lld is odd or does not divide the features", (long long)a->head_dim);
    LS_TRY(ls_infer_at(i, x));
    LS_RULE_CHECK(i, a->theta > 0, "theta must be positive");
    const double *s = a->scaling.v;
    LS_RULE_CHECK(i, !a->scaling.n || s[0] > 0, "scaling: factor %g is not positive", s[0]);
    LS_RULE_CHECK(i, a->scaling.n < 4 || (s[1] > 0 && s[2] > s[1] && s[3] > 0),
                  "scaling: low %g is not positive and below high %g", s[1], s[2]);
    if (i->n_in > POSITIONS && i->in[POSITIONS].ndim >= 0)
        LS_TRY(ls_infer_expect(i, POSITIONS, &LS_TYPE(LS_I32, x->dims[0], x->dims[1]), "positions"));
    return ls_infer_same(i);
}

static void grad_rope(ls_grad *c)
{
    const ls_node *n = c->node;
    ls_rope_attrs back = *(const ls_rope_attrs *)n->attrs;
    back.inverse = !back.inverse;
    c->din[X] = ls_graph_apply(c->g, &ls_op_rope, n->n_in,
                               (ls_value[]){ c->dout[0], n->n_in > POSITIONS ? n->in[POSITIONS] : LS_NONE },
                               &back);
}

static ls_cost cost_rope(const ls_infer *i)
{
    return (ls_cost){ .flops = 3.0 * (double)ls_type_count(&i->in[X]),
                      .bytes = 2.0 * (double)ls_type_bytes(&i->in[X]) };
}

static const ls_attr_field FIELDS[] = {
    { "head_dim", LS_FIELD_I64, offsetof(ls_rope_attrs, head_dim), NULL },
    { "inverse", LS_FIELD_I64, offsetof(ls_rope_attrs, inverse), NULL },
    { "theta", LS_FIELD_F64, offsetof(ls_rope_attrs, theta), NULL },
    { "scaling", LS_FIELD_F64S, offsetof(ls_rope_attrs, scaling), NULL },
    { 0 },
};
const ls_op ls_op_rope = {
    .name = "rope",
    .rule = "@b t h*, b t -> b t h",
    .min_in = 1,
    .max_in = 2,
    .n_out = 1,
    .flags = LS_OP_AT,
    .optional_in = 1 << POSITIONS,
    .attrs_size = sizeof(ls_rope_attrs),
    .fields = FIELDS,
    .infer = infer_rope,
    .grad = grad_rope,
    .cost = cost_rope,
    .inplace = 1 << X,
    .summary = "Turns each head's features (i, i + head_dim/2) by the angle position * theta^(-2i/head_dim), "
               "which may be scaled.",
};

ls_value ls_rope(ls_graph *g, ls_value x, ls_value positions, int64_t head_dim, double theta)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    return ls_rope_scaled(g, x, positions, head_dim, theta, &(const ls_rope_scaling){ 0 });
}

ls_value ls_rope_scaled(ls_graph *g, ls_value x, ls_value positions, int64_t head_dim, double theta,
                        const ls_rope_scaling *scaling)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ARG(g, scaling, ((ls_value){ .id = -1 }));
    const double all[] = { scaling->factor, scaling->low, scaling->high, (double)scaling->original };
    const ls_rope_attrs a = { .head_dim = head_dim,
                              .theta = theta,
                              .scaling = { scaling->factor == 0 ? 0
                                           : scaling->original  ? 4
                                                                : 1,
                                           all } };
    return ls_graph_apply(g, &ls_op_rope, positions.id ? 2 : 1, (ls_value[]){ x, positions }, &a);
}
