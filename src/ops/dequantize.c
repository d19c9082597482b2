/* dequantize.c - a weight of 4 bits a number, as base/nf4.h has it, becomes the operand of a product. Scales
 * come first, whole: they are small, and their own scales belong to 256 of them wherever rows are cut.
 * Neither op has a gradient: such weights are frozen. */
#include "rules.h"
#include "base/nf4.h"

enum { CODES, SCALES };         /* dequantize */
enum { BYTES, NESTED, OFFSET }; /* dequantize_scales */

static ls_status infer_dequantize_scales(ls_infer *i)
{
    const ls_type *q = &i->in[BYTES];
    LS_RULE_CHECK(i, q->ndim == 2 && q->dtype == LS_U8, "needs bytes [N, blocks]");
    LS_TRY(ls_infer_expect(i, NESTED, &LS_TYPE(LS_F32, ls_nf4_nested(ls_type_count(q))), "nested scales"));
    LS_TRY(ls_infer_expect(i, OFFSET, &LS_TYPE(LS_F32, 1), "offset"));
    i->out[0] = *q;
    i->out[0].dtype = LS_F32;
    return LS_OK;
}

ls_status ls_infer_nf4(ls_type *whole, const ls_infer *i, int codes, int scales, ls_dtype to)
{
    const ls_type *q = &i->in[codes];
    const int64_t half = LS_NF4_BLOCK / 2;
    LS_RULE_CHECK(i, q->ndim == 2 && q->dtype == LS_U8 && q->dims[1] % half == 0,
                  "needs codes u8 [N, K/2], K a multiple of %d", LS_NF4_BLOCK);
    LS_TRY(ls_infer_expect(i, scales, &LS_TYPE(LS_F32, q->dims[0], q->dims[1] / half), "scales"));
    *whole = LS_TYPE(to, q->dims[0], 2 * q->dims[1]);
    return LS_OK;
}

static ls_status infer_dequantize(ls_infer *i)
{
    const int64_t to = ((const ls_cast_attrs *)i->attrs)->to;
    LS_RULE_CHECK(i, to >= 0 && to < LS_DTYPE_COUNT && ls_dtype_is_float((ls_dtype)to), "makes a float type");
    return ls_infer_nf4(&i->out[0], i, CODES, SCALES, (ls_dtype)to);
}

const ls_op ls_op_dequantize_scales = {
    .name = "dequantize_scales",
    .rule = "n! b!, m!, o! -> n! b!",
    .min_in = 3,
    .max_in = 3,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .infer = infer_dequantize_scales,
    .summary = "Makes scales of their bytes: map[byte] * nested + offset.",
};
/* Loop k: two numbers of a byte, 64 of a scale. */
const ls_op ls_op_dequantize = {
    .name = "dequantize",
    .rule = "n k, ~n k -> n k",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .flags = LS_OP_NO_GRAD,
    .attrs_size = sizeof(ls_cast_attrs),
    .fields = ls_cast_fields,
    .infer = infer_dequantize,
    .summary = "Makes numbers of a weight of 4 bits: the value of a code times its block's scale.",
};

ls_value ls_dequantize(ls_graph *g, ls_value codes, ls_value bytes, ls_value nested, ls_value offset)
{
    const ls_value scales = ls_graph_apply(g, &ls_op_dequantize_scales, 3,
                                           (ls_value[]){ bytes, nested, offset }, NULL);
    return ls_graph_apply(g, &ls_op_dequantize, 2, (ls_value[]){ codes, scales },
                          &(ls_cast_attrs){ .to = LS_F32 });
}
