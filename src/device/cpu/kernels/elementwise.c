/* elementwise.c - all element-wise ops, `cast` and `fused`, as one small interpreter.
 *
 * A program's registers are blocks of f32 elements that fit L1 together. Inputs are converted and broadcast
 * into them, or read where they lie. Each instruction is one vector loop over the block, and rounds to its
 * type. The block of the last instruction is stored. An element's result depends on its operands only, not on
 * where blocks begin. A block is read before it is written, so the output may have the memory of an input. */
#include "table.h"
#include "stream.h"
#include "vmath_more.h"
#include "walk.h"

/* 16 KB for all registers, but at least 32 elements in each */
enum { BLOCK_FLOATS = 4096, BLOCK_MAX = 512, REGISTERS_MAX = 128 };

typedef struct instruction {
    ls_ew op;
    int a, b;
    ls_dtype to;
    float number;
} instruction;

typedef struct program {
    const ls_kernel_args *args;
    int n_in, n_code;
    int64_t n, block;
    walk in[REGISTERS_MAX];
    instruction code[REGISTERS_MAX];
} program;

/* ---- one instruction over a block */

/* One instruction over n elements; x and y are vectors of registers a and b. A last, partial vector goes
 * through the same expression. */
#define EACH(expression)                                                     \
    do {                                                                     \
        int64_t i = 0;                                                       \
        for (; i + VF_LANES <= n; i += VF_LANES) {                           \
            const vf x = vf_load(a + i), y = vf_load(b + i);                 \
            (void)y;                                                         \
            vf_store(r + i, expression);                                     \
        }                                                                    \
        if (i < n) {                                                         \
            const int left = (int)(n - i);                                   \
            const vf x = vf_load_n(a + i, left), y = vf_load_n(b + i, left); \
            (void)y;                                                         \
            vf_store_n(r + i, expression, left);                             \
        }                                                                    \
    } while (0)

/* max and min return NaN if either operand is NaN, as PyTorch's maximum and minimum do. */
SIMD_FN vf max_nan(vf x, vf y) { return vf_select(vf_isnan(x), x, vf_max(x, y)); }
SIMD_FN vf min_nan(vf x, vf y) { return vf_select(vf_isnan(x), x, vf_min(x, y)); }
SIMD_FN vf where_positive(vf dy, vf x) { return vf_select(vf_lt(vf_zero(), x), dy, vf_zero()); }

static void execute(const instruction *in, float *r, const float *a, const float *b, int64_t n)
{
    const vf c = vf_set1(in->number), one = vf_set1(1.0f);
    switch (in->op) {
    case LS_EW_ADD: EACH(x + y); break;
    case LS_EW_SUB: EACH(x - y); break;
    case LS_EW_MUL: EACH(x * y); break;
    case LS_EW_DIV: EACH(x / y); break;
    case LS_EW_MAX: EACH(max_nan(x, y)); break;
    case LS_EW_MIN: EACH(min_nan(x, y)); break;
    case LS_EW_POW: EACH(vf_pow(x, y)); break;
    case LS_EW_GT: EACH(vf_select(vf_lt(y, x), one, vf_zero())); break;
    case LS_EW_GE: EACH(vf_select(vf_le(y, x), one, vf_zero())); break;
    case LS_EW_EQ: EACH(vf_select(vf_eq(x, y), one, vf_zero())); break;
    case LS_EW_KEEP: EACH(vf_select(vf_eq(y, vf_zero()), vf_zero(), x)); break;
    case LS_EW_DROP: EACH(vf_select(vf_eq(y, vf_zero()), x, vf_zero())); break;
    case LS_EW_NEG: EACH(vf_neg(x)); break;
    case LS_EW_SQRT: EACH(vf_sqrt(x)); break;
    case LS_EW_EXP: EACH(vf_exp(x)); break;
    case LS_EW_LOG: EACH(vf_log(x)); break;
    case LS_EW_TANH: EACH(vf_tanh(x)); break;
    case LS_EW_SQUARE: EACH(x * x); break;
    case LS_EW_ABS: EACH(vf_abs(x)); break;
    case LS_EW_SIGN: EACH(vf_sign(x)); break;
    case LS_EW_SIN: EACH(vf_sin(x)); break;
    case LS_EW_COS: EACH(vf_cos(x)); break;
    case LS_EW_SIGMOID: EACH(vf_sigmoid(x)); break;
    case LS_EW_SOFTPLUS: EACH(vf_softplus(x)); break;
    case LS_EW_HARDSWISH: EACH(vf_hardswish(x)); break;
    case LS_EW_HARDSWISH_GRAD: EACH(x * vf_hardswish_slope(y)); break;
    case LS_EW_RELU: EACH(vf_relu(x)); break;
    case LS_EW_GELU: EACH(vf_gelu(x)); break;
    case LS_EW_GELU_TANH: EACH(vf_gelu_tanh(x)); break;
    case LS_EW_RELU_GRAD: EACH(where_positive(x, y)); break;
    case LS_EW_GELU_GRAD: EACH(x * vf_gelu_slope(y)); break;
    case LS_EW_GELU_TANH_GRAD: EACH(x * vf_gelu_tanh_slope(y)); break;
    case LS_EW_SILU: EACH(vf_silu(x)); break;
    case LS_EW_SILU_GRAD: EACH(x * vf_silu_slope(y)); break;
    case LS_EW_SWIGLU: EACH(vf_silu(x) * y); break;
    case LS_EW_ADD_CONST: EACH(x + c); break;
    case LS_EW_MUL_CONST: EACH(x * c); break;
    case LS_EW_DIV_CONST: EACH(x / c); break;
    case LS_EW_POW_CONST: EACH(vf_pow(x, c)); break;
    case LS_EW_MAX_CONST: EACH(max_nan(x, c)); break;
    case LS_EW_MIN_CONST: EACH(min_nan(x, c)); break;
    case LS_EW_LEAKY_RELU: EACH(vf_select(vf_lt(vf_zero(), x), x, x * c)); break;
    case LS_EW_ELU: EACH(vf_select(vf_lt(vf_zero(), x), x, c * vf_expm1_negative(x))); break;
    case LS_EW_CAST:
    case LS_EW_COUNT: EACH(x); break;
    }
    if (in->to == LS_BF16 || in->to == LS_F16) {
        a = b = r;
        if (in->to == LS_BF16)
            EACH(vf_round_to(x, LS_BF16));
        else
            EACH(vf_round_to(x, LS_F16));
    }
}

/* ---- blocks */

SIMD_FN void convert_run(ls_dtype T, float *to, const char *data, int64_t offset, int64_t n)
{
    int64_t i = 0;
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_store(to + i, vf_get(data, T, offset + i));
    if (i < n)
        vf_store_n(to + i, vf_get_n(data, T, offset + i, (int)(n - i)), (int)(n - i));
}

SIMD_FN float number_at(ls_dtype t, const char *data, int64_t i)
{
    switch (t) {
    case LS_U8: return (float)((const uint8_t *)data)[i];
    case LS_I32: return (float)((const int32_t *)data)[i];
    case LS_I64: return (float)((const int64_t *)data)[i];
    default: return f_get(data, t, i);
    }
}

/* Elements [i, i+n) of an input, in the order of the output, as f32. */
static void read_block(float *to, const walk *w, ls_dtype t, int64_t i, int64_t n)
{
    const int64_t stride = w->strides[w->ndim - 1];
    while (n > 0) {
        int64_t left;
        const int64_t offset = walk_at(w, i, &left);
        left = min_i64(left, n);
        if (stride == 0) {
            const float x = number_at(t, w->data, offset);
            for (int64_t k = 0; k < left; k++)
                to[k] = x;
        } else if (stride == 1 && is_float16_or_32(t)) {
            BY_FLOAT(t, convert_run, to, w->data, offset, left);
        } else if (stride == 1 && t == LS_U8) { /* pictures */
            const uint8_t *from = (const uint8_t *)w->data + offset;
            for (int64_t k = 0; k < left; k++)
                to[k] = (float)from[k];
        } else {
            for (int64_t k = 0; k < left; k++)
                to[k] = number_at(t, w->data, offset + k * stride);
        }
        to += left;
        i += left;
        n -= left;
    }
}

SIMD_FN void store_run(ls_dtype T, char *to, const float *from, int64_t n)
{
    int64_t i = 0;
    for (; i + 2 * VF_LANES <= n; i += 2 * VF_LANES)
        vf_put2(to, T, i, vf_load(from + i), vf_load(from + i + VF_LANES));
    for (; i + VF_LANES <= n; i += VF_LANES)
        vf_put(to, T, i, vf_load(from + i));
    if (i < n)
        vf_put_n(to, T, i, vf_load_n(from + i, (int)(n - i)), (int)(n - i));
}

static void run_blocks(void *context, int64_t begin, int64_t end, int worker)
{
    const program *p = context;
    const ls_tensor *out = &p->args->out[0];
    _Alignas(64) float slots[BLOCK_FLOATS];
    const float *reg[REGISTERS_MAX];
    (void)worker;
    for (int64_t k = begin; k < end; k++) {
        const int64_t i = k * p->block, n = min_i64(p->block, p->n - i);
        float *slot = slots;
        for (int j = 0; j < p->n_in; j++, slot += p->block) {
            const ls_dtype t = p->args->in[j].type.dtype;
            if (t == LS_F32 && walk_is_flat(&p->in[j])) {
                reg[j] = (const float *)p->in[j].data + i;
            } else {
                read_block(slot, &p->in[j], t, i, n);
                reg[j] = slot;
            }
        }
        for (int j = 0; j < p->n_code; j++, slot += p->block) {
            const instruction *in = &p->code[j];
            const bool direct = j == p->n_code - 1 && out->type.dtype == LS_F32;
            float *r = direct ? (float *)out->data + i : slot;
            execute(in, r, reg[in->a], reg[in->b < 0 ? in->a : in->b], n);
            reg[p->n_in + j] = r;
        }
        if (out->type.dtype != LS_F32)
            BY_FLOAT(out->type.dtype, store_run, elem_at(out, i), reg[p->n_in + p->n_code - 1], n);
    }
}

static void run_program(program *p, const ls_kernel_args *a)
{
    p->args = a;
    p->n_in = a->n_in;
    p->n = count_of(&a->out[0]);
    const int registers = p->n_in + p->n_code;
    p->block = min_i64(BLOCK_MAX, BLOCK_FLOATS / registers / 16 * 16);
    for (int j = 0; j < a->n_in; j++)
        p->in[j] = walk_broadcast(&a->in[j], &a->out[0].type);
    ls_parallel_for(threads_for(a, p->n * p->n_code), (p->n + p->block - 1) / p->block, run_blocks, p);
}

/* ---- ops */

static void run_single(const ls_kernel_args *a, ls_ew op, double number)
{
    program p; /* (it is large: only the part that is used is initialised) */
    p.n_code = 1;
    p.code[0] = (instruction){
        .op = op, .a = 0, .b = a->n_in > 1 ? 1 : -1, .to = LS_F32, .number = (float)number
    };
    run_program(&p, a);
}

#define ELEMENTWISE(opcode, name)                                                                   \
    KERNEL(name)                                                                                    \
    {                                                                                               \
        run_single(a, LS_EW_##opcode, a->attrs ? ((const ls_number_attrs *)a->attrs)->value : 0.0); \
    }
#include "graph/elementwise.list"
#undef ELEMENTWISE

KERNEL(fused)
{
    const ls_fused_attrs *at = a->attrs;
    program p;
    p.n_code = (int)at->numbers.n;
    for (int j = 0; j < p.n_code; j++) {
        const int64_t *c = at->code.v + 4 * j;
        p.code[j] = (instruction){ .op = (ls_ew)c[0],
                                   .a = (int)c[1],
                                   .b = (int)c[2],
                                   .to = (ls_dtype)c[3],
                                   .number = (float)at->numbers.v[j] };
    }
    if (p.code[p.n_code - 1].to == a->out[0].type.dtype)
        p.code[p.n_code - 1].to = LS_F32; /* (storing rounds to the output's type) */
    run_program(&p, a);
}

KERNEL_SUPPORTS(fused)
{
    const ls_fused_attrs *at = a->attrs;
    if (a->n_in + at->numbers.n > REGISTERS_MAX)
        return "an element-wise program of more than 128 inputs and instructions";
    for (int64_t j = 0; j < at->numbers.n; j++)
        if (!is_float16_or_32((ls_dtype)at->code.v[4 * j + 3]))
            return "element-wise programs compute in f32, bf16 and f16 only";
    if (!is_float16_or_32((ls_dtype)at->to))
        return "the result of an element-wise program is f32, bf16 or f16";
    return LS_NAME(ls_no_f64)(a);
}

/* cast to an integer type. From a float: truncates towards zero and saturates; NaN becomes 0. From an
 * integer: wraps. */
typedef struct cast_job {
    const ls_kernel_args *a;
    walk in;
} cast_job;

SIMD_FN int64_t to_integer(float x, float least, float beyond, int64_t min, int64_t max)
{
    return x != x ? 0 : x <= least ? min : x >= beyond ? max : (int64_t)x;
}

static void cast_elements(void *context, int64_t begin, int64_t end, int worker)
{
    const cast_job *j = context;
    const ls_dtype from = j->a->in[0].type.dtype, to = j->a->out[0].type.dtype;
    void *out = j->a->out[0].data;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        int64_t left, x;
        const int64_t at = walk_at(&j->in, i, &left);
        const char *data = j->in.data;
        if (from == LS_U8 || from == LS_I32 || from == LS_I64) {
            x = from == LS_U8    ? ((const uint8_t *)data)[at]
                : from == LS_I32 ? ((const int32_t *)data)[at]
                                 : ((const int64_t *)data)[at];
        } else {
            const float f = f_get(data, from, at);
            x = to == LS_U8    ? to_integer(f, 0.0f, 255.0f, 0, 255)
                : to == LS_I32 ? to_integer(f, -0x1p31f, 0x1p31f, INT32_MIN, INT32_MAX)
                               : to_integer(f, -0x1p63f, 0x1p63f, INT64_MIN, INT64_MAX);
        }
        switch (to) {
        case LS_U8: ((uint8_t *)out)[i] = (uint8_t)x; break;
        case LS_I32: ((int32_t *)out)[i] = (int32_t)x; break;
        default: ((int64_t *)out)[i] = x; break;
        }
    }
}

/* cast of a contiguous tensor from f32, bf16 or f16 to another of these types, in one pass. */
typedef struct convert_job {
    const char *in;
    char *out;
    ls_dtype from, to;
    int64_t n;
} convert_job;
enum { CONVERT_BLOCK = 4096 };

SIMD_FN void convert_to(ls_dtype TO, ls_dtype from, const convert_job *j, int64_t i, int64_t stop)
{
    const bool stream = streams(j->out, j->n, TO);
#define PAIR(FROM, put) put(j->out, TO, i, vf_get(j->in, FROM, i), vf_get(j->in, FROM, i + VF_LANES))
    if (from == LS_F32 && stream)
        for (; i + 2 * VF_LANES <= stop; i += 2 * VF_LANES)
            PAIR(LS_F32, vf_put2_stream);
    else if (from == LS_F32)
        for (; i + 2 * VF_LANES <= stop; i += 2 * VF_LANES)
            PAIR(LS_F32, vf_put2);
    else if (from == LS_BF16)
        for (; i + 2 * VF_LANES <= stop; i += 2 * VF_LANES)
            PAIR(LS_BF16, vf_put2);
    else
        for (; i + 2 * VF_LANES <= stop; i += 2 * VF_LANES)
            PAIR(LS_F16, vf_put2);
#undef PAIR
    for (; i < stop; i += VF_LANES) {
        const int n = (int)min_i64(VF_LANES, stop - i);
        vf_put_n(j->out, TO, i, vf_get_n(j->in, from, i, n), n);
    }
    if (stream)
        vf_stream_end();
}

static void convert_blocks(void *context, int64_t begin, int64_t end, int worker)
{
    const convert_job *j = context;
    (void)worker;
    BY_FLOAT(j->to, convert_to, j->from, j, begin * CONVERT_BLOCK, min_i64(end * CONVERT_BLOCK, j->n));
}

KERNEL(cast)
{
    const ls_dtype from = a->in[0].type.dtype, to = a->out[0].type.dtype;
    if (is_float16_or_32(to)) {
        const walk in = walk_broadcast(&a->in[0], &a->out[0].type);
        if (!is_float16_or_32(from) || !walk_is_flat(&in)) {
            run_single(a, LS_EW_CAST, 0.0);
            return;
        }
        convert_job j = { in.data, a->out[0].data, from, to, count_of(&a->out[0]) };
        ls_parallel_for(threads_for(a, j.n), (j.n + CONVERT_BLOCK - 1) / CONVERT_BLOCK, convert_blocks, &j);
        return;
    }
    cast_job j = { .a = a, .in = walk_broadcast(&a->in[0], &a->out[0].type) };
    const int64_t n = count_of(&a->out[0]);
    ls_parallel_for(threads_for(a, n), n, cast_elements, &j);
}
