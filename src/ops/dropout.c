/* dropout.c - dropout (Srivastava et al. 2014), and the key of a step's random numbers. The gradient draws
 * the same numbers again, so no mask is kept. */
#include "rules.h"

enum { X, KEY, ADDEND };

static ls_status infer_key(ls_infer *i)
{
    const ls_type scalar = LS_SCALAR(LS_I64), places = LS_TYPE(LS_I64, 2);
    LS_TRY(ls_infer_expect(i, 0, &scalar, "seed"));
    LS_TRY(ls_infer_expect(i, 1, &scalar, "step"));
    LS_TRY(ls_infer_expect(i, 2, &places, "places"));
    i->out[0] = LS_TYPE(LS_I64, 3);
    return LS_OK;
}

static ls_status infer_dropout(ls_infer *i)
{
    const ls_dropout_attrs *a = i->attrs;
    const ls_type *x = &i->in[X], key = LS_TYPE(LS_I64, 3);
    LS_RULE_CHECK(i, ls_dtype_is_float(x->dtype) && x->ndim > 0, "x is a float tensor of samples");
    LS_RULE_CHECK(i, a->p >= 0 && a->p < 1, "p %g is not in [0, 1)", a->p);
    LS_TRY(ls_infer_at(i, x));
    LS_TRY(ls_infer_expect(i, KEY, &key, "key"));
    if (i->n_in > ADDEND && i->in[ADDEND].ndim >= 0)
        LS_TRY(ls_infer_expect(i, ADDEND, x, "addend"));
    i->out[0] = *x;
    return LS_OK;
}

/* passes/fuse.c adds the addend after differentiation */
static void grad_dropout(ls_grad *c)
{
    if (c->needs[X])
        c->din[X] = ls_graph_apply(c->g, &ls_op_dropout, 2, (ls_value[]){ c->dout[0], c->node->in[KEY] },
                                   c->node->attrs);
}

const ls_op ls_op_random_key = {
    .name = "random_key",
    .rule = "., ., p! -> k!",
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .infer = infer_key,
    .summary = "Makes the key of a step's random numbers: hash of (seed, step), and where the rank's samples "
               "stand in the step.",
};

static const ls_attr_field FIELDS[] = {
    { "p", LS_FIELD_F64, offsetof(ls_dropout_attrs, p), NULL },
    { "purpose", LS_FIELD_I64, offsetof(ls_dropout_attrs, purpose), NULL },
    { 0 },
};
const ls_op ls_op_dropout = {
    .name = "dropout",
    .rule = "@r.., k!, +r.. -> r..",
    .min_in = 2,
    .max_in = 3,
    .n_out = 1,
    .flags = LS_OP_RANDOM | LS_OP_AT,
    .optional_in = 1 << ADDEND,
    .attrs_size = sizeof(ls_dropout_attrs),
    .fields = FIELDS,
    .infer = infer_dropout,
    .grad = grad_dropout,
    .inplace = 1 << X | 1 << ADDEND,
    .summary = "Keeps x / (1 - p) with probability 1 - p, else 0, and adds an addend.",
};
