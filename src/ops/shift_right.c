/* shift_right.c - makes the decoder's input from its labels: a start token, then all labels but the last. */
#include "rules.h"
#include "base/argument.h"

static ls_status infer_shift_right(ls_infer *i)
{
    LS_RULE_CHECK(i, i->in[0].dtype == LS_I32 && i->in[0].ndim >= 1, "ids are i32 [.., tokens]");
    return ls_infer_same(i);
}

static const ls_attr_field FIELDS[] = {
    { "start", LS_FIELD_I64, offsetof(ls_shift_attrs, start), NULL },
    { "pad", LS_FIELD_I64, offsetof(ls_shift_attrs, pad), NULL },
    { 0 },
};
const ls_op ls_op_shift_right = {
    .name = "shift_right",
    .rule = "b.. t! -> b.. t",
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_shift_attrs),
    .fields = FIELDS,
    .infer = infer_shift_right,
    .summary = "Shifts ids by one: y[.., t] = ids[.., t - 1], y[.., 0] = start; ids below 0 become pad.",
};

ls_value ls_shift_right(ls_graph *g, ls_value ids, int64_t start, int64_t pad)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    return ls_graph_apply(g, &ls_op_shift_right, 1, &ids, &(ls_shift_attrs){ .start = start, .pad = pad });
}
