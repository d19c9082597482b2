/* elementwise.c - the element-wise ops, and `fused`, which is a list of them. One function computes every
 * opcode; the others loop over the broadcast shape. */
#include "ref.h"
#include "base/check.h"

static const double SQRT_HALF = 0.70710678118654752440, INV_SQRT_2PI = 0.39894228040143267794,
                    SQRT_2_OVER_PI = 0.79788456080286535588;

/* x * Phi(x). erfc keeps the accuracy of the left tail. NaN at -inf, as in PyTorch. */
static double gelu(double x) { return 0.5 * x * erfc(-x * SQRT_HALF); }
static double gelu_grad(double x)
{
    if (isinf(x))
        return x > 0; /* the limits, because x * phi(x) would be inf * 0 */
    return 0.5 * erfc(-x * SQRT_HALF) + x * INV_SQRT_2PI * exp(-0.5 * x * x);
}

/* Hendrycks and Gimpel 2016: 0.5 x (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3). 1 + tanh(u) = 2 / (1 +
 * exp(-2u)). */
static double gelu_tanh_slope(double x)
{
    return 1 / (1 + exp(-2 * SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)));
}
static double gelu_tanh(double x) { return x * gelu_tanh_slope(x); }
static double gelu_tanh_grad(double x)
{
    if (isinf(x))
        return x > 0;
    const double s = gelu_tanh_slope(x);
    return s + 2 * x * s * (1 - s) * SQRT_2_OVER_PI * (1 + 3 * 0.044715 * x * x);
}

static double silu(double x) { return x / (1 + exp(-x)); }
static double silu_grad(double x)
{
    if (isinf(x))
        return x > 0;
    const double s = 1 / (1 + exp(-x));
    return s + x * s / (1 + exp(x)); /* 1 - s without cancellation */
}

/* 0 and 1 at the kinks -3 and 3, as in PyTorch */
static double hardswish_grad(double x) { return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5; }

double ls_ref_act(ls_act act, double x)
{
    switch (act) {
    case LS_ACT_NONE: return x;
    case LS_ACT_RELU: return x < 0 ? 0 : x;
    case LS_ACT_GELU: return gelu(x);
    case LS_ACT_GELU_TANH: return gelu_tanh(x);
    }
    return (double)NAN;
}

double ls_ref_act_grad(ls_act act, double dy, double x)
{
    switch (act) {
    case LS_ACT_NONE: return dy;
    case LS_ACT_RELU: return x > 0 ? dy : 0; /* a selection and no product, which could be inf * 0 */
    case LS_ACT_GELU: return dy * gelu_grad(x);
    case LS_ACT_GELU_TANH: return dy * gelu_tanh_grad(x);
    }
    return (double)NAN;
}

/* NaN if either operand is NaN, as in NumPy and PyTorch */
static double larger(double a, double b) { return isnan(a) || a > b ? a : b; }
static double smaller(double a, double b) { return isnan(a) || a < b ? a : b; }

static double value(ls_ew op, double a, double b, double number)
{
    switch (op) {
    case LS_EW_ADD: return a + b;
    case LS_EW_SUB: return a - b;
    case LS_EW_MUL: return a * b;
    case LS_EW_DIV: return a / b;
    case LS_EW_MAX: return larger(a, b);
    case LS_EW_MIN: return smaller(a, b);
    case LS_EW_POW: return pow(a, b);
    case LS_EW_GT: return a > b;
    case LS_EW_GE: return a >= b;
    case LS_EW_EQ: return a == b;
    case LS_EW_KEEP: return b != 0 ? a : 0;
    case LS_EW_DROP: return b == 0 ? a : 0;
    case LS_EW_NEG: return -a;
    case LS_EW_SQRT: return sqrt(a);
    case LS_EW_EXP: return exp(a);
    case LS_EW_LOG: return log(a);
    case LS_EW_TANH: return tanh(a);
    case LS_EW_SQUARE: return a * a;
    case LS_EW_ABS: return fabs(a);
    case LS_EW_SIGN: return isnan(a) ? a : (a > 0) - (a < 0);
    case LS_EW_SIN: return sin(a);
    case LS_EW_COS: return cos(a);
    case LS_EW_SIGMOID: return 1 / (1 + exp(-a));
    case LS_EW_SOFTPLUS: return larger(a, 0) + log1p(exp(-fabs(a)));
    case LS_EW_HARDSWISH: return a * (smaller(larger(a + 3, 0), 6) / 6);
    case LS_EW_HARDSWISH_GRAD: return a * hardswish_grad(b);
    case LS_EW_RELU: return ls_ref_act(LS_ACT_RELU, a);
    case LS_EW_GELU: return ls_ref_act(LS_ACT_GELU, a);
    case LS_EW_GELU_TANH: return ls_ref_act(LS_ACT_GELU_TANH, a);
    case LS_EW_SILU: return silu(a);
    case LS_EW_RELU_GRAD: return ls_ref_act_grad(LS_ACT_RELU, a, b);
    case LS_EW_GELU_GRAD: return ls_ref_act_grad(LS_ACT_GELU, a, b);
    case LS_EW_GELU_TANH_GRAD: return ls_ref_act_grad(LS_ACT_GELU_TANH, a, b);
    case LS_EW_SILU_GRAD: return a * silu_grad(b);
    case LS_EW_SWIGLU: return silu(a) * b;
    case LS_EW_ADD_CONST: return a + number;
    case LS_EW_MUL_CONST: return a * number;
    case LS_EW_DIV_CONST: return a / number;
    case LS_EW_POW_CONST: return pow(a, number);
    case LS_EW_MAX_CONST: return larger(a, number);
    case LS_EW_MIN_CONST: return smaller(a, number);
    case LS_EW_LEAKY_RELU: return a > 0 ? a : number * a;
    case LS_EW_ELU: return a > 0 ? a : number * expm1(a);
    case LS_EW_CAST: return a;
    case LS_EW_COUNT: break;
    }
    return (double)NAN;
}

/* A constant is rounded to f32, unless the result is f64. */
static double rounded(double number, ls_dtype to) { return to == LS_F64 ? number : (double)(float)number; }

static double operand(const ls_tensor *t, const ls_type *shape, int64_t i)
{
    return ls_ref_get(t, ls_ref_broadcast(t, shape, i));
}

static void elementwise(const ls_kernel_args *a, ls_ew op)
{
    const ls_type *shape = &a->out[0].type;
    const ls_number_attrs *at = op == LS_EW_CAST ? NULL : a->attrs;
    const double number = at ? rounded(at->value, shape->dtype) : 0;
    const int64_t n = ls_type_count(shape);
    for (int64_t i = 0; i < n; i++) {
        const double x = operand(&a->in[0], shape, i), y = a->n_in > 1 ? operand(&a->in[1], shape, i) : 0;
        flat_put(&a->out[0], i, value(op, x, y, number));
    }
}

/* Registers 0 .. n_in-1 are the inputs. Instruction m writes register n_in + m, rounded to the type that it
 * names. */
void ls_ref_fused(const ls_kernel_args *a)
{
    const ls_fused_attrs *program = a->attrs;
    const ls_type *shape = &a->out[0].type;
    const int64_t n = ls_type_count(shape), steps = program->numbers.n;
    double *reg = a->workspace;
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < a->n_in; k++)
            reg[k] = operand(&a->in[k], shape, i);
        for (int64_t m = 0; m < steps; m++) {
            const int64_t *code = program->code.v + 4 * m;
            LS_ASSERT(code[1] < a->n_in + m && code[2] < a->n_in + m);
            const double x = reg[code[1]], y = code[2] < 0 ? 0 : reg[code[2]];
            const ls_dtype to = (ls_dtype)code[3];
            reg[a->n_in + m] = ls_ref_round(value((ls_ew)code[0], x, y, rounded(program->numbers.v[m], to)),
                                            to);
        }
        flat_put(&a->out[0], i, reg[a->n_in + steps - 1]);
    }
}

size_t ls_ref_fused_workspace(const ls_kernel_args *a)
{
    return sizeof(double) * ((size_t)a->n_in + (size_t)((const ls_fused_attrs *)a->attrs)->numbers.n);
}

#define ELEMENTWISE(opcode, name) \
    void ls_ref_##name(const ls_kernel_args *a) { elementwise(a, LS_EW_##opcode); }
#include "graph/elementwise.list"
#undef ELEMENTWISE
void ls_ref_cast(const ls_kernel_args *a) { elementwise(a, LS_EW_CAST); }
