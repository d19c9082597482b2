/* elements.c - rows of all element-wise ops, `cast` and `fused` on GPUs: a program of them becomes a function
 * in the kernels' language. The rows of dropout.c are here too. */
#include "dropout.h"
#include "elementwise.h"
#include "kernels/elementwise.h"
#include <string.h>

static const char *const NAME[] = {
#define ELEMENTWISE(opcode, name) [LS_EW_##opcode] = #name,
#include "graph/elementwise.list"
#undef ELEMENTWISE
    [LS_EW_CAST] = "cast"
};

static bool computes(int64_t t) { return t == LS_F32 || t == LS_BF16 || t == LS_F16; }

/* Register `to` = op of registers a and b, rounded to a type. Numbers are written as bits, which are exact.
 */
static void put_step(ls_gpu_text *t, int to, ls_ew op, int a, int b, double number, ls_dtype type)
{
    const float x = (float)number;
    u32 bits;
    memcpy(&bits, &x, sizeof bits);
    ls_gpu_put(t, "    const float r%d = ", to);
    if (type != LS_F32)
        ls_gpu_put(t, "ROUNDED(%s, ", ls_dtype_name(type));
    ls_gpu_put(t, "ew_%s(r%d, r%d, ", NAME[op], a, b < 0 ? a : b);
    if (op >= LS_EW_ADD_CONST && op < LS_EW_CAST)
        ls_gpu_put(t, "float_of(0x%xu))", bits);
    else
        ls_gpu_put(t, "0.0f)");
    ls_gpu_put(t, "%s;\n", type != LS_F32 ? ")" : "");
}

static void run_single(const ls_kernel_args *a, ls_ew op)
{
    ls_gpu_text steps;
    steps.n = 0;
    put_step(&steps, a->n_in, op, 0, a->n_in > 1 ? 1 : -1,
             a->attrs ? ((const ls_number_attrs *)a->attrs)->value : 0.0, LS_F32);
    ls_gpu_elementwise(a->queue, LS_GPU_FLOATS, a->n_in, a->in, &a->out[0], steps.at, a->n_in);
}

#define ELEMENTWISE(opcode, name) \
    static void run_##name(const ls_kernel_args *a) { run_single(a, LS_EW_##opcode); }
#include "graph/elementwise.list"
#undef ELEMENTWISE

static void run_cast(const ls_kernel_args *a)
{
    const bool integers = !ls_dtype_is_float(a->in[0].type.dtype) && !ls_dtype_is_float(a->out[0].type.dtype);
    ls_gpu_elementwise(a->queue, integers ? LS_GPU_INTEGERS : LS_GPU_FLOATS, 1, a->in, &a->out[0], "", 0);
}

static void run_fused(const ls_kernel_args *a)
{
    const ls_fused_attrs *o = a->attrs;
    const int n = (int)o->numbers.n;
    ls_gpu_text steps;
    steps.n = 0;
    for (int j = 0; j < n; j++) {
        const int64_t *c = o->code.v + 4 * j;
        const bool stored = j == n - 1 && c[3] == (int64_t)a->out[0].type.dtype; /* storing rounds */
        put_step(&steps, a->n_in + j, (ls_ew)c[0], (int)c[1], (int)c[2], o->numbers.v[j],
                 stored ? LS_F32 : (ls_dtype)c[3]);
    }
    ls_gpu_elementwise(a->queue, LS_GPU_FLOATS, a->n_in, a->in, &a->out[0], steps.at, a->n_in + n - 1);
}

static const char *fused_supports(const ls_kernel_args *a)
{
    const ls_fused_attrs *o = a->attrs;
    if (a->n_in > INPUTS)
        return "an element-wise program of more than 48 inputs";
    if (a->n_in + o->numbers.n > 128)
        return "an element-wise program of more than 128 inputs and instructions";
    for (int64_t j = 0; j < o->numbers.n; j++)
        if (!computes(o->code.v[4 * j + 3]))
            return "element-wise programs compute in f32, bf16 and f16 only";
    if (!computes(o->to))
        return "the result of an element-wise program is f32, bf16 or f16";
    return ls_gpu_no_f64(a);
}

const ls_kernel ls_gpu_elements[] = {
#define ELEMENTWISE(opcode, name) \
    { .op = #name, .run = run_##name, .supports = ls_gpu_no_f64, .any_in = LS_OPERAND(0) | LS_OPERAND(1) },
#include "graph/elementwise.list"
#undef ELEMENTWISE
    { .op = "cast", .run = run_cast, .supports = ls_gpu_no_f64, .any_in = LS_OPERAND(0) },
    { .op = "fused", .run = run_fused, .supports = fused_supports, .any_in = 0xffffffffu },
    { .op = "random_key", .run = ls_gpu_random_key },
    { .op = "dropout", .run = ls_gpu_dropout, .supports = ls_gpu_no_f64 },
    { 0 },
};
