/* elementwise.c - one row per element-wise op; each has an ls_ew opcode, so all of them can be fused into one
 * pass over memory. Derivatives: relu' is 0 at 0 as PyTorch's; gelu is x*Phi(x) (Hendrycks and Gimpel 2016),
 * gelu_tanh its tanh approximation, silu x*sigmoid(x) (the same paper; also called swish). */
#include "rules.h"
#include "base/argument.h"

static ls_cost cost_elementwise(const ls_infer *i)
{
    ls_cost c = { .flops = (double)ls_type_count(&i->out[0]), .bytes = (double)ls_type_bytes(&i->out[0]) };
    for (int k = 0; k < i->n_in; k++)
        c.bytes += (double)ls_type_bytes(&i->in[k]);
    return c;
}

static ls_value in0(const ls_grad *c) { return c->node->in[0]; }
static ls_value in1(const ls_grad *c) { return c->node->in[1]; }
static double constant_of(const ls_grad *c) { return ((const ls_number_attrs *)c->node->attrs)->value; }

static void give(ls_grad *c, int j, ls_value v) { c->din[j] = ls_sum_like(c->g, v, c->node->in[j]); }

static void grad_add(ls_grad *c)
{
    for (int j = 0; j < 2; j++)
        if (c->needs[j])
            give(c, j, c->dout[0]);
}

static void grad_sub(ls_grad *c)
{
    if (c->needs[0])
        give(c, 0, c->dout[0]);
    if (c->needs[1])
        give(c, 1, ls_neg(c->g, c->dout[0]));
}

static void grad_mul(ls_grad *c)
{
    if (c->needs[0])
        give(c, 0, ls_mul(c->g, c->dout[0], in1(c)));
    if (c->needs[1])
        give(c, 1, ls_mul(c->g, c->dout[0], in0(c)));
}

static void grad_div(ls_grad *c)
{
    ls_value over = ls_div(c->g, c->dout[0], in1(c));
    if (c->needs[0])
        give(c, 0, over);
    if (c->needs[1])
        give(c, 1, ls_neg(c->g, ls_mul(c->g, over, c->node->out[0])));
}

/* The gradient of piecewise constant functions: zero. */
static void grad_flat(ls_grad *c) { (void)c; }

static ls_value keep_where(ls_grad *c, ls_value a, ls_value where)
{
    return ls_graph_apply(c->g, &ls_op_keep, 2, (ls_value[]){ a, where }, NULL);
}
static ls_value drop(ls_grad *c, ls_value a, ls_value where)
{
    return ls_graph_apply(c->g, &ls_op_drop, 2, (ls_value[]){ a, where }, NULL);
}

/* The gradient of maximum and minimum goes to the operand that was the result; with two equal operands each
 * gets half, as in PyTorch. */
static void grad_larger(ls_grad *c, ls_value a, ls_value b)
{
    ls_value tie = ls_mul_const(c->g, keep_where(c, c->dout[0], ls_eq(c->g, a, b)), 0.5);
    ls_value dy = ls_sub(c->g, c->dout[0], tie);
    if (c->needs[0])
        give(c, 0, drop(c, dy, ls_gt(c->g, b, a)));
    if (c->needs[1])
        give(c, 1, drop(c, dy, ls_gt(c->g, a, b)));
}
static void grad_max(ls_grad *c) { grad_larger(c, in0(c), in1(c)); }
static void grad_min(ls_grad *c) { grad_larger(c, ls_neg(c->g, in0(c)), ls_neg(c->g, in1(c))); }

static void grad_keep(ls_grad *c)
{
    if (c->needs[0])
        give(c, 0, keep_where(c, c->dout[0], in1(c)));
}
static void grad_drop(ls_grad *c)
{
    if (c->needs[0])
        give(c, 0, drop(c, c->dout[0], in1(c)));
}

/* d(a^b) = b a^(b-1) da + a^b log(a) db. The first is 0 where b is 0, the second where a is: the formulas
 * would multiply 0 by infinity there. */
static void grad_pow(ls_grad *c)
{
    ls_graph *g = c->g;
    if (c->needs[0]) {
        ls_value lower = ls_pow(g, in0(c), ls_add_const(g, in1(c), -1.0));
        give(c, 0, ls_mul(g, c->dout[0], keep_where(c, ls_mul(g, in1(c), lower), in1(c))));
    }
    if (c->needs[1])
        give(c, 1,
             ls_mul(g, c->dout[0], keep_where(c, ls_mul(g, c->node->out[0], ls_log_e(g, in0(c))), in0(c))));
}
static void grad_pow_const(ls_grad *c)
{
    const double p = constant_of(c);
    c->din[0] = p == 0 ? ls_mul_const(c->g, c->dout[0], 0.0)
                       : ls_mul(c->g, c->dout[0], ls_mul_const(c->g, ls_pow_const(c->g, in0(c), p - 1), p));
}

static void grad_neg(ls_grad *c) { c->din[0] = ls_neg(c->g, c->dout[0]); }
static void grad_sqrt(ls_grad *c)
{
    c->din[0] = ls_mul_const(c->g, ls_div(c->g, c->dout[0], c->node->out[0]), 0.5);
}
static void grad_exp(ls_grad *c) { c->din[0] = ls_mul(c->g, c->dout[0], c->node->out[0]); }
static void grad_log(ls_grad *c) { c->din[0] = ls_div(c->g, c->dout[0], in0(c)); }
static void grad_square(ls_grad *c) { c->din[0] = ls_mul_const(c->g, ls_mul(c->g, c->dout[0], in0(c)), 2.0); }

static void grad_tanh(ls_grad *c)
{
    ls_value y2 = ls_square(c->g, c->node->out[0]);
    c->din[0] = ls_mul(c->g, c->dout[0], ls_add_const(c->g, ls_neg(c->g, y2), 1.0));
}

static void grad_add_const(ls_grad *c) { c->din[0] = c->dout[0]; }
static void grad_mul_const(ls_grad *c) { c->din[0] = ls_mul_const(c->g, c->dout[0], constant_of(c)); }
static void grad_div_const(ls_grad *c) { c->din[0] = ls_div_const(c->g, c->dout[0], constant_of(c)); }
static void grad_abs(ls_grad *c) { c->din[0] = ls_mul(c->g, c->dout[0], ls_sign(c->g, in0(c))); }
static void grad_sin(ls_grad *c) { c->din[0] = ls_mul(c->g, c->dout[0], ls_cos(c->g, in0(c))); }
static void grad_cos(ls_grad *c) { c->din[0] = ls_neg(c->g, ls_mul(c->g, c->dout[0], ls_sin(c->g, in0(c)))); }
static void grad_sigmoid(ls_grad *c)
{
    ls_value y = c->node->out[0], rest = ls_add_const(c->g, ls_neg(c->g, y), 1.0);
    c->din[0] = ls_mul(c->g, c->dout[0], ls_mul(c->g, y, rest));
}
static void grad_softplus(ls_grad *c) { c->din[0] = ls_mul(c->g, c->dout[0], ls_sigmoid(c->g, in0(c))); }
static void grad_hardswish(ls_grad *c)
{
    c->din[0] = ls_graph_apply(c->g, &ls_op_hardswish_grad, 2, (ls_value[]){ c->dout[0], in0(c) }, NULL);
}
/* The gradient of a bound: at the bound itself it passes, as in PyTorch's clamp. */
static void grad_bound(ls_grad *c)
{
    c->din[0] = keep_where(c, c->dout[0], ls_eq(c->g, in0(c), c->node->out[0]));
}
/* dy where x > 0, else dy times `slope` */
static ls_value two_slopes(ls_grad *c, ls_value slope)
{
    ls_value positive = ls_sign(c->g, ls_relu(c->g, in0(c)));
    return ls_add(c->g, keep_where(c, c->dout[0], positive),
                  ls_mul(c->g, drop(c, c->dout[0], positive), slope));
}
static void grad_leaky_relu(ls_grad *c)
{
    c->din[0] = two_slopes(c, ls_fill(c->g, LS_SCALAR(ls_type_of(c->g, in0(c))->dtype), constant_of(c)));
}
/* Below 0 the slope is number * e^x; above it e^x might be infinite, and is multiplied by 0. */
static void grad_elu(ls_grad *c)
{
    ls_value low = ls_graph_apply(c->g, &ls_op_min_const, 1, &c->node->in[0], &(ls_number_attrs){ 0.0 });
    c->din[0] = two_slopes(c, ls_mul_const(c->g, ls_exp(c->g, low), constant_of(c)));
}
/* The gradient is computed from the result, which is positive where the operand is positive. The result is
 * kept anyway; the operand need not be. */
static void grad_relu(ls_grad *c)
{
    c->din[0] = ls_graph_apply(c->g, &ls_op_relu_grad, 2, (ls_value[]){ c->dout[0], c->node->out[0] }, NULL);
}
static void grad_gelu(ls_grad *c)
{
    c->din[0] = ls_graph_apply(c->g, &ls_op_gelu_grad, 2, (ls_value[]){ c->dout[0], in0(c) }, NULL);
}

static void grad_gelu_tanh(ls_grad *c)
{
    c->din[0] = ls_graph_apply(c->g, &ls_op_gelu_tanh_grad, 2, (ls_value[]){ c->dout[0], in0(c) }, NULL);
}

static ls_value silu_grad(ls_graph *g, ls_value dy, ls_value x)
{
    return ls_graph_apply(g, &ls_op_silu_grad, 2, (ls_value[]){ dy, x }, NULL);
}
static void grad_silu(ls_grad *c) { c->din[0] = silu_grad(c->g, c->dout[0], in0(c)); }

/* silu(gate) is computed again, because keeping it would take as much memory as gate itself. */
static void grad_swiglu(ls_grad *c)
{
    if (c->needs[0])
        give(c, 0, silu_grad(c->g, ls_mul(c->g, c->dout[0], in1(c)), in0(c)));
    if (c->needs[1])
        give(c, 1, ls_mul(c->g, c->dout[0], ls_silu(c->g, in0(c))));
}

static const ls_attr_field NUMBER_FIELDS[] = {
    { "value", LS_FIELD_F64, offsetof(ls_number_attrs, value), NULL }, { 0 }
};

#define ROW(symbol, text, arity, opcode, gradient, about)           \
    const ls_op ls_op_##symbol = { .name = text,                    \
                                   .min_in = arity,                 \
                                   .max_in = arity,                 \
                                   .n_out = 1,                      \
                                   .flags = LS_OP_ELEMENTWISE,      \
                                   .dims = ls_rule_broadcast,       \
                                   .infer = ls_infer_broadcast,     \
                                   .grad = gradient,                \
                                   .cost = cost_elementwise,        \
                                   .inplace = (arity) == 2 ? 3 : 1, \
                                   .ew = opcode,                    \
                                   .summary = about }
#define ROW_CONST(symbol, text, opcode, gradient, about)                  \
    const ls_op ls_op_##symbol = { .name = text,                          \
                                   .min_in = 1,                           \
                                   .max_in = 1,                           \
                                   .n_out = 1,                            \
                                   .flags = LS_OP_ELEMENTWISE,            \
                                   .attrs_size = sizeof(ls_number_attrs), \
                                   .fields = NUMBER_FIELDS,               \
                                   .dims = ls_rule_broadcast,             \
                                   .infer = ls_infer_broadcast,           \
                                   .grad = gradient,                      \
                                   .cost = cost_elementwise,              \
                                   .inplace = 1,                          \
                                   .ew = opcode,                          \
                                   .summary = about }

ROW(add, "add", 2, LS_EW_ADD, grad_add, "Adds: a + b.");
ROW(sub, "sub", 2, LS_EW_SUB, grad_sub, "Subtracts: a - b.");
ROW(mul, "mul", 2, LS_EW_MUL, grad_mul, "Multiplies element by element: a * b.");
ROW(div, "div", 2, LS_EW_DIV, grad_div, "Divides: a / b.");
ROW(max, "max", 2, LS_EW_MAX, grad_max, "Takes the larger of a and b.");
ROW(min, "min", 2, LS_EW_MIN, grad_min, "Takes the smaller of a and b.");
ROW(pow, "pow", 2, LS_EW_POW, grad_pow, "Raises a to the power of b.");
ROW(gt, "gt", 2, LS_EW_GT, grad_flat, "Compares: 1 where a > b, else 0.");
ROW(ge, "ge", 2, LS_EW_GE, grad_flat, "Compares: 1 where a >= b, else 0.");
ROW(eq, "eq", 2, LS_EW_EQ, grad_flat, "Compares: 1 where a = b, else 0.");
ROW(keep, "keep", 2, LS_EW_KEEP, grad_keep, "Keeps a where b is not 0, else 0.");
ROW(drop, "drop", 2, LS_EW_DROP, grad_drop, "Keeps a where b is 0, else 0.");
ROW(neg, "neg", 1, LS_EW_NEG, grad_neg, "Changes the sign: -a.");
ROW(sqrt, "sqrt", 1, LS_EW_SQRT, grad_sqrt, "Computes the square root.");
ROW(exp, "exp", 1, LS_EW_EXP, grad_exp, "Computes e^a.");
ROW(log, "log", 1, LS_EW_LOG, grad_log, "Computes the natural logarithm.");
ROW(tanh, "tanh", 1, LS_EW_TANH, grad_tanh, "Computes the hyperbolic tangent.");
ROW(square, "square", 1, LS_EW_SQUARE, grad_square, "Squares: a * a.");
ROW(abs, "abs", 1, LS_EW_ABS, grad_abs, "Computes the absolute value.");
ROW(sign, "sign", 1, LS_EW_SIGN, grad_flat, "Finds the sign: 1, 0 or -1.");
ROW(sin, "sin", 1, LS_EW_SIN, grad_sin, "Computes the sine.");
ROW(cos, "cos", 1, LS_EW_COS, grad_cos, "Computes the cosine.");
ROW(sigmoid, "sigmoid", 1, LS_EW_SIGMOID, grad_sigmoid, "Computes the sigmoid, 1 / (1 + e^-a).");
ROW(softplus, "softplus", 1, LS_EW_SOFTPLUS, grad_softplus, "Computes softplus, log(1 + e^a).");
ROW(hardswish, "hardswish", 1, LS_EW_HARDSWISH, grad_hardswish,
    "Computes hardswish, a * min(max(a + 3, 0), 6) / 6.");
ROW(relu, "relu", 1, LS_EW_RELU, grad_relu, "Computes ReLU, max(a, 0).");
ROW(gelu, "gelu", 1, LS_EW_GELU, grad_gelu, "Computes GELU, a * Phi(a), by erf.");
ROW(gelu_tanh, "gelu_tanh", 1, LS_EW_GELU_TANH, grad_gelu_tanh, "Computes GELU by its tanh approximation.");
ROW(silu, "silu", 1, LS_EW_SILU, grad_silu, "Computes SiLU, a * sigmoid(a).");
ROW(swiglu, "swiglu", 2, LS_EW_SWIGLU, grad_swiglu, "Computes SwiGLU, silu(a) * b (Shazeer 2020).");
ROW(relu_grad, "relu_grad", 2, LS_EW_RELU_GRAD, NULL,
    "Computes the gradient of relu: dy where x > 0, else 0.");
ROW(gelu_grad, "gelu_grad", 2, LS_EW_GELU_GRAD, NULL,
    "Computes the gradient of gelu: dy * (Phi(x) + x * phi(x)).");
ROW(gelu_tanh_grad, "gelu_tanh_grad", 2, LS_EW_GELU_TANH_GRAD, NULL,
    "Computes the gradient of gelu_tanh: dy times its derivative at x.");
ROW(silu_grad, "silu_grad", 2, LS_EW_SILU_GRAD, NULL,
    "Computes the gradient of silu: dy times its derivative at x.");
ROW(hardswish_grad, "hardswish_grad", 2, LS_EW_HARDSWISH_GRAD, NULL,
    "Computes the gradient of hardswish: dy times its derivative at x.");
ROW_CONST(add_const, "add_const", LS_EW_ADD_CONST, grad_add_const, "Adds a number: a + number.");
ROW_CONST(mul_const, "mul_const", LS_EW_MUL_CONST, grad_mul_const, "Multiplies by a number: a * number.");
ROW_CONST(div_const, "div_const", LS_EW_DIV_CONST, grad_div_const, "Divides by a number: a / number.");
ROW_CONST(pow_const, "pow_const", LS_EW_POW_CONST, grad_pow_const, "Raises a to the power of a number.");
ROW_CONST(max_const, "max_const", LS_EW_MAX_CONST, grad_bound, "Takes the larger of a and a number.");
ROW_CONST(min_const, "min_const", LS_EW_MIN_CONST, grad_bound, "Takes the smaller of a and a number.");
ROW_CONST(leaky_relu, "leaky_relu", LS_EW_LEAKY_RELU, grad_leaky_relu,
          "Computes leaky ReLU: a where a > 0, else a * number.");
ROW_CONST(elu, "elu", LS_EW_ELU, grad_elu,
          "Computes ELU: a where a > 0, else number * (e^a - 1) (Clevert 2016).");

/* cast: from any type to any type. Only casts between float types have gradients. */
static ls_status infer_cast(ls_infer *i)
{
    int64_t to = ((const ls_cast_attrs *)i->attrs)->to;
    LS_RULE_CHECK(i, to >= 0 && to < LS_DTYPE_COUNT, "unknown type number %lld", (long long)to);
    i->out[0] = i->in[0];
    i->out[0].dtype = (ls_dtype)to;
    return LS_OK;
}

static void grad_cast(ls_grad *c)
{
    ls_dtype from = ls_type_of(c->g, in0(c))->dtype;
    if (ls_dtype_is_float(from))
        c->din[0] = ls_cast(c->g, c->dout[0], from);
}

static const char *const DTYPE_WORDS[] = {
    [LS_F32] = "f32", [LS_F64] = "f64", [LS_BF16] = "bf16", [LS_F16] = "f16",
    [LS_I32] = "i32", [LS_I64] = "i64", [LS_U8] = "u8"
};
const ls_attr_field ls_cast_fields[] = { { "to", LS_FIELD_I64, offsetof(ls_cast_attrs, to), DTYPE_WORDS },
                                         { 0 } };
const ls_op ls_op_cast = {
    .name = "cast",
    .dims = ls_rule_broadcast,
    .min_in = 1,
    .max_in = 1,
    .n_out = 1,
    .flags = LS_OP_ELEMENTWISE,
    .attrs_size = sizeof(ls_cast_attrs),
    .fields = ls_cast_fields,
    .infer = infer_cast,
    .grad = grad_cast,
    .cost = cost_elementwise,
    .ew = LS_EW_CAST,
    .summary = "Converts to another element type, rounded to nearest even.",
};

/* fused: passes/fuse.c makes it after differentiation, so it needs no gradient. */
static ls_status infer_fused(ls_infer *i)
{
    const ls_fused_attrs *a = i->attrs;
    LS_RULE_CHECK(i, a->code.n > 0 && a->code.n % 4 == 0 && a->numbers.n == a->code.n / 4,
                  "malformed element-wise program");
    ls_type out = i->in[0];
    for (int k = 1; k < i->n_in; k++)
        for (int d = 1; d <= (i->in[k].ndim > out.ndim ? i->in[k].ndim : out.ndim); d++) {
            const ls_type *t = &i->in[k];
            if (d > out.ndim) { /* the result gets more dimensions, on the left */
                for (int m = out.ndim; m > 0; m--)
                    out.dims[m] = out.dims[m - 1];
                out.dims[0] = 1;
                out.ndim++;
            }
            int64_t x = out.dims[out.ndim - d], y = d <= t->ndim ? t->dims[t->ndim - d] : 1;
            LS_RULE_CHECK(i, x == y || x == 1 || y == 1, "shapes do not broadcast");
            out.dims[out.ndim - d] = x == 1 ? y : x;
        }
    out.dtype = (ls_dtype)a->to;
    i->out[0] = out;
    return LS_OK;
}

static ls_cost cost_fused(const ls_infer *i)
{
    ls_cost c = cost_elementwise(i);
    c.flops *= (double)((const ls_fused_attrs *)i->attrs)->numbers.n;
    return c;
}

static const ls_attr_field FUSED_FIELDS[] = {
    { "code", LS_FIELD_I64S, offsetof(ls_fused_attrs, code), NULL },
    { "numbers", LS_FIELD_F64S, offsetof(ls_fused_attrs, numbers), NULL },
    { "to", LS_FIELD_I64, offsetof(ls_fused_attrs, to), DTYPE_WORDS },
    { 0 },
};
const ls_op ls_op_fused = {
    .name = "fused",
    .rule = LS_RULE_LATER,
    .min_in = 1,
    .max_in = -1,
    .n_out = 1,
    .attrs_size = sizeof(ls_fused_attrs),
    .flags = LS_OP_NO_GRAD,
    .fields = FUSED_FIELDS,
    .infer = infer_fused,
    .cost = cost_fused,
    .inplace = 0xff,
    .summary = "Computes several element-wise operations in one pass over memory.",
};

/* The op `row` as a builder function of lockstep/graph.h. `...` are its operands. */
#define APPLY(row, count, attrs, ...)                                              \
    {                                                                              \
        LS_ARG_OR(g, ((ls_value){ .id = -1 }));                                    \
        return ls_graph_apply(g, &row, count, (ls_value[]){ __VA_ARGS__ }, attrs); \
    }
#define UNARY(name, row) ls_value name(ls_graph *g, ls_value a) APPLY(row, 1, NULL, a)
#define BINARY(name, row) ls_value name(ls_graph *g, ls_value a, ls_value b) APPLY(row, 2, NULL, a, b)
#define WITH_CONST(name, row) \
    ls_value name(ls_graph *g, ls_value a, double c) APPLY(row, 1, &(ls_number_attrs){ .value = c }, a)
BINARY(ls_add, ls_op_add)
BINARY(ls_sub, ls_op_sub)
BINARY(ls_mul, ls_op_mul)
BINARY(ls_div, ls_op_div)
BINARY(ls_max, ls_op_max)
BINARY(ls_min, ls_op_min)
BINARY(ls_pow, ls_op_pow)
BINARY(ls_gt, ls_op_gt)
BINARY(ls_ge, ls_op_ge)
BINARY(ls_eq, ls_op_eq)
UNARY(ls_neg, ls_op_neg)
UNARY(ls_sqrt, ls_op_sqrt)
UNARY(ls_exp, ls_op_exp)
UNARY(ls_log_e, ls_op_log)
UNARY(ls_tanh, ls_op_tanh)
UNARY(ls_square, ls_op_square)
UNARY(ls_abs, ls_op_abs)
UNARY(ls_sign, ls_op_sign)
UNARY(ls_sin, ls_op_sin)
UNARY(ls_cos, ls_op_cos)
UNARY(ls_sigmoid, ls_op_sigmoid)
UNARY(ls_softplus, ls_op_softplus)
UNARY(ls_hardswish, ls_op_hardswish)
UNARY(ls_relu, ls_op_relu)
UNARY(ls_gelu, ls_op_gelu)
UNARY(ls_gelu_tanh, ls_op_gelu_tanh)
UNARY(ls_silu, ls_op_silu)
BINARY(ls_swiglu, ls_op_swiglu)
WITH_CONST(ls_add_const, ls_op_add_const)
WITH_CONST(ls_mul_const, ls_op_mul_const)
WITH_CONST(ls_div_const, ls_op_div_const)
WITH_CONST(ls_pow_const, ls_op_pow_const)
WITH_CONST(ls_leaky_relu, ls_op_leaky_relu)
WITH_CONST(ls_elu, ls_op_elu)

ls_value ls_where(ls_graph *g, ls_value condition, ls_value a, ls_value b)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    ls_value yes = ls_graph_apply(g, &ls_op_keep, 2, (ls_value[]){ a, condition }, NULL);
    ls_value no = ls_graph_apply(g, &ls_op_drop, 2, (ls_value[]){ b, condition }, NULL);
    return ls_add(g, yes, no);
}

ls_value ls_clamp(ls_graph *g, ls_value a, double low, double high)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    ls_value up = ls_graph_apply(g, &ls_op_max_const, 1, &a, &(ls_number_attrs){ .value = low });
    return ls_graph_apply(g, &ls_op_min_const, 1, &up, &(ls_number_attrs){ .value = high });
}

ls_value ls_cast(ls_graph *g, ls_value a, ls_dtype to)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    if (a.id > 0 && ls_type_of(g, a)->dtype == to)
        return a;
    return ls_graph_apply(g, &ls_op_cast, 1, (ls_value[]){ a }, &(ls_cast_attrs){ .to = to });
}
