/* test_math_elements.c - element-wise ops, fused programs, casts, and ops that move or sum elements, on
 * device cpu at every level of this machine, against device ref: odd sizes, broadcasts, strides, extreme
 * values, every type; the same bits with 1, 2 and 3 threads (math_case.c). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "math_case.h"

static const ls_dtype FLOATS[] = { LS_F32, LS_BF16, LS_F16 };
static const int64_t SIZES[] = { 1, 2, 3, 7, 15, 17, 33, 65, 127, 1000 };
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))
#define LIST(...)                                                        \
    {                                                                    \
        COUNT(((int64_t[]){ __VA_ARGS__ })), (int64_t[]) { __VA_ARGS__ } \
    }

/* ---- element-wise */

static const struct {
    const char *op;
    int arity;
    fill_kind kind;
    double scale, rel;
} EW[] = {
    { "add", 2, FILL_EXTREME, 1, EPS },
    { "sub", 2, FILL_EXTREME, 1, EPS },
    { "mul", 2, FILL_EXTREME, 1, EPS },
    { "div", 2, FILL_EXTREME, 1, EPS },
    { "max", 2, FILL_EXTREME, 1, 0 },
    { "min", 2, FILL_EXTREME, 1, 0 },
    { "gt", 2, FILL_EXTREME, 1, 0 },
    { "ge", 2, FILL_EXTREME, 1, 0 },
    { "eq", 2, FILL_EXTREME, 1, 0 },
    { "keep", 2, FILL_EXTREME, 1, 0 },
    { "drop", 2, FILL_EXTREME, 1, 0 },
    { "pow", 2, FILL_EXTREME, 2, 2 * EPS },
    { "abs", 1, FILL_EXTREME, 1, 0 },
    { "sign", 1, FILL_EXTREME, 1, 0 },
    { "sin", 1, FILL_NORMAL, 100, 16 * EPS },
    { "cos", 1, FILL_NORMAL, 100, 16 * EPS },
    { "sin", 1, FILL_EXTREME, 1e5, EPS },
    { "cos", 1, FILL_EXTREME, 1e5, EPS },
    { "sigmoid", 1, FILL_NORMAL, 8, 8 * EPS },
    { "softplus", 1, FILL_NORMAL, 8, 8 * EPS },
    { "hardswish", 1, FILL_NORMAL, 4, 4 * EPS },
    { "hardswish_grad", 2, FILL_NORMAL, 4, 4 * EPS },
    { "neg", 1, FILL_EXTREME, 1, 0 },
    { "sqrt", 1, FILL_EXTREME, 3, EPS },
    { "exp", 1, FILL_EXTREME, 20, 4 * EPS },
    { "log", 1, FILL_EXTREME, 5, 4 * EPS },
    { "tanh", 1, FILL_EXTREME, 2, 4 * EPS },
    { "square", 1, FILL_EXTREME, 9, EPS },
    { "relu", 1, FILL_EXTREME, 1, 0 },
    { "gelu", 1, FILL_NORMAL, 4, 8 * EPS },
    { "gelu_tanh", 1, FILL_NORMAL, 4, 16 * EPS },
    { "silu", 1, FILL_NORMAL, 4, 16 * EPS },
    { "swiglu", 2, FILL_NORMAL, 4, 32 * EPS },
    { "relu_grad", 2, FILL_EXTREME, 1, 0 },
    { "gelu_grad", 2, FILL_NORMAL, 4, 16 * EPS },
    { "gelu_tanh_grad", 2, FILL_NORMAL, 4, 16 * EPS },
    { "silu_grad", 2, FILL_NORMAL, 4, 16 * EPS },
    { "pow_const", 1, FILL_EXTREME, 2, 2 * EPS },
    { "max_const", 1, FILL_EXTREME, 1, 0 },
    { "min_const", 1, FILL_EXTREME, 1, 0 },
    { "leaky_relu", 1, FILL_EXTREME, 1, EPS },
    { "elu", 1, FILL_NORMAL, 4, 8 * EPS },
    { "add_const", 1, FILL_EXTREME, 1, EPS },
    { "mul_const", 1, FILL_EXTREME, 1, EPS },
    { "div_const", 1, FILL_EXTREME, 1, 2 * EPS },
};

static void test_elementwise(void **state)
{
    (void)state;
    const ls_number_attrs attrs = { .value = 1.625 };
    for (int e = 0; e < COUNT(EW); e++)
        for (int t = 0; t < 3; t++)
            for (int s = 0; s < COUNT(SIZES); s++) {
                /* near a zero of the result only the absolute error is small */
                const bool smooth = EW[e].kind == FILL_NORMAL;
                const operand x = { .type = LS_TYPE(FLOATS[t], SIZES[s]),
                                    .kind = EW[e].kind,
                                    .scale = EW[e].scale };
                math_check(&(math_case){ .op = EW[e].op,
                                         .n_in = EW[e].arity,
                                         .n_out = 1,
                                         .in = { x, x },
                                         .out = { PLAIN(x.type) },
                                         .attrs = EW[e].arity == 1 ? &attrs : NULL,
                                         .rel = EW[e].rel,
                                         .of_max = smooth ? 2 * EPS : 0,
                                         .seed = (uint64_t)(e * 100 + s) });
            }
}

static void test_broadcast_and_strides(void **state)
{
    (void)state;
    const int64_t turned[] = { 1, 5, 35 }, every_other[] = { 66, 11, 2 };
    for (int t = 0; t < 3; t++) {
        const ls_dtype d = FLOATS[t];
        const operand full = NORMAL(LS_TYPE(d, 5, 7, 33), 1), row = NORMAL(LS_TYPE(d, 33), 1),
                      column = NORMAL(LS_TYPE(d, 7, 1), 1), middle = NORMAL(LS_TYPE(d, 5, 1, 33), 1),
                      scalar = NORMAL(LS_SCALAR(d), 1), outer = NORMAL(LS_TYPE(d, 5, 1, 1), 1),
                      strided = { .type = full.type, .kind = FILL_NORMAL, .scale = 1, .pad = 5 },
                      flipped = { .type = LS_TYPE(d, 5, 7, 3),
                                  .kind = FILL_NORMAL,
                                  .scale = 1,
                                  .strides = turned },
                      holes = {
                          .type = LS_TYPE(d, 5, 3, 3), .kind = FILL_NORMAL, .scale = 1, .strides = every_other
                      };
        const operand pairs[][2] = { { full, row },        { row, full },     { full, column },
                                     { full, middle },     { full, scalar },  { scalar, full },
                                     { outer, full },      { strided, full }, { column, row },
                                     { flipped, flipped }, { holes, scalar }, { scalar, scalar } };
        const ls_type outs[] = { full.type,         full.type,    full.type,  full.type,
                                 full.type,         full.type,    full.type,  full.type,
                                 LS_TYPE(d, 7, 33), flipped.type, holes.type, scalar.type };
        for (int i = 0; i < COUNT(pairs); i++)
            math_check(&(math_case){ .op = "sub",
                                     .n_in = 2,
                                     .n_out = 1,
                                     .in = { pairs[i][0], pairs[i][1] },
                                     .out = { PLAIN(outs[i]) },
                                     .rel = EPS,
                                     .seed = (uint64_t)i });
        math_check(&(math_case){ .op = "add",
                                 .n_in = 2,
                                 .n_out = 1,
                                 .in = { NORMAL(LS_TYPE(d, 211, 333), 1), NORMAL(LS_TYPE(d, 333), 1) },
                                 .out = { UPDATES(LS_TYPE(d, 211, 333), 1) },
                                 .rel = EPS });
    }
}

/* Fused and unfused give the same bits: each instruction rounds to its type. */
static void test_fused(void **state)
{
    (void)state;
    enum { N = 777 };
    for (int t = 0; t < 3; t++) {
        const ls_dtype d = FLOATS[t];
        const operand x = NORMAL(LS_TYPE(d, 7, N / 7), 2), b = NORMAL(LS_TYPE(d, N / 7), 1);
        int64_t code[] = { LS_EW_ADD,       0, 1,  d, LS_EW_GELU, 2, -1, d, LS_EW_MUL, 3, 0, d,
                           LS_EW_MUL_CONST, 4, -1, d, LS_EW_SUB,  5, 1,  d };
        double numbers[] = { 0, 0, 0, 1.7, 0 };
        const ls_fused_attrs attrs = { .code = { COUNT(code), code },
                                       .numbers = { COUNT(numbers), numbers },
                                       .to = d };
        const math_case fused = { .op = "fused",
                                  .n_in = 2,
                                  .n_out = 1,
                                  .in = { x, b },
                                  .out = { PLAIN(x.type) },
                                  .attrs = &attrs,
                                  .rel = 8 * EPS,
                                  .of_max = d == LS_F32    ? 8 * EPS
                                            : d == LS_BF16 ? 0x1p-6
                                                           : 0x1p-9,
                                  .seed = 5 };
        math_check(&fused);
        ls_isa levels[LS_ISA_COUNT];
        for (int l = math_levels(levels) - 1; l >= 0; l--) {
            const ls_device dev = math_cpu(levels[l], 1);
            math_run whole, step;
            math_make(&whole, &fused);
            math_execute(&whole, &fused, &dev);
            const math_case ops[] = { { .op = "add", .n_in = 2 },
                                      { .op = "gelu", .n_in = 1 },
                                      { .op = "mul", .n_in = 2 },
                                      { .op = "mul_const", .n_in = 1 },
                                      { .op = "sub", .n_in = 2 } };
            ls_tensor reg[7];
            math_make(&step, &fused);
            reg[0] = step.in[0];
            reg[1] = step.in[1];
            math_run parts[5];
            for (int i = 0; i < 5; i++) {
                math_case c = ops[i];
                c.n_out = 1;
                c.in[0] = (operand){ .type = reg[code[4 * i + 1]].type, .kind = FILL_VALUE };
                if (c.n_in > 1)
                    c.in[1] = (operand){ .type = reg[code[4 * i + 2]].type, .kind = FILL_VALUE };
                c.out[0].type = x.type;
                const ls_number_attrs number = { numbers[i] };
                c.attrs = i == 3 ? &number : NULL;
                math_make(&parts[i], &c);
                parts[i].in[0] = reg[code[4 * i + 1]];
                if (c.n_in > 1)
                    parts[i].in[1] = reg[code[4 * i + 2]];
                math_execute(&parts[i], &c, &dev);
                reg[2 + i] = parts[i].out[0];
            }
            for (int64_t i = 0; i < N; i++)
                assert_int_equal(math_bits(&whole.out[0], i), math_bits(&reg[6], i));
            for (int i = 0; i < 5; i++)
                math_free(&parts[i]);
            math_free(&step);
            math_free(&whole);
        }
    }
    /* A program from bytes, as the images come, that fills the first cache with registers. */
    enum { LONG = 100 };
    int64_t code[4 * LONG] = { LS_EW_CAST, 0, -1, LS_F32 };
    double numbers[LONG] = { 0 };
    for (int i = 1; i < LONG; i++) {
        const int64_t in[] = { i % 3 ? LS_EW_ADD_CONST : LS_EW_DIV_CONST, i, -1, LS_F32 };
        memcpy(code + 4 * i, in, sizeof in);
        numbers[i] = i % 3 ? 0.5 : 1.25;
    }
    const ls_fused_attrs attrs = { .code = { 4 * LONG, code }, .numbers = { LONG, numbers }, .to = LS_F32 };
    math_check(&(math_case){ .op = "fused",
                             .n_in = 1,
                             .n_out = 1,
                             .in = { BELOW(LS_TYPE(LS_U8, 1003), 256) },
                             .out = { PLAIN(LS_TYPE(LS_F32, 1003)) },
                             .attrs = &attrs,
                             .rel = 100 * EPS });
}

/* An element's bits do not depend on where in the tensor it lies: vector loop, tail and blocks do the same.
 */
static void test_position(void **state)
{
    (void)state;
    static const char *const ops[] = { "exp", "log", "tanh", "gelu", "gelu_tanh", "silu", "sqrt" };
    double values[1000];
    for (int i = 0; i < 1000; i++)
        values[i] = (i - 300) / 64.0;
    ls_isa levels[LS_ISA_COUNT];
    const int n = math_levels(levels);
    for (int o = 0; o < COUNT(ops); o++)
        for (int l = 0; l < n; l++) {
            const ls_device d = math_cpu(levels[l], 1);
            math_run long_run, short_run;
            const math_case all = { .op = ops[o],
                                    .n_in = 1,
                                    .n_out = 1,
                                    .in = { DATA(LS_TYPE(LS_F32, 1000), values) },
                                    .out = { PLAIN(LS_TYPE(LS_F32, 1000)) } };
            math_make(&long_run, &all);
            math_execute(&long_run, &all, &d);
            for (int start = 990; start < 1000; start++) {
                const math_case few = { .op = ops[o],
                                        .n_in = 1,
                                        .n_out = 1,
                                        .in = { DATA(LS_TYPE(LS_F32, 1000 - start), values + start) },
                                        .out = { PLAIN(LS_TYPE(LS_F32, 1000 - start)) } };
                math_make(&short_run, &few);
                math_execute(&short_run, &few, &d);
                for (int i = start; i < 1000; i++)
                    assert_int_equal(math_bits(&long_run.out[0], i), math_bits(&short_run.out[0], i - start));
                math_free(&short_run);
            }
            math_free(&long_run);
        }
}

static void test_cast(void **state)
{
    (void)state;
    static const ls_dtype types[] = { LS_F32, LS_BF16, LS_F16, LS_I32, LS_I64, LS_U8 };
    for (int f = 0; f < 6; f++)
        for (int t = 0; t < 6; t++)
            for (int s = 0; s < COUNT(SIZES); s++) {
                if (f >= 3 && t >= 3 && types[t] < types[f] && types[t] != LS_U8)
                    continue; /* integers that do not fit: the narrower type is never asked for */
                const operand x = { .type = LS_TYPE(types[f], SIZES[s]),
                                    .kind = f < 3 ? FILL_EXTREME : FILL_COUNT,
                                    .scale = f < 3 ? 100 : 200 };
                math_check(&(math_case){ .op = "cast",
                                         .n_in = 1,
                                         .n_out = 1,
                                         .in = { x },
                                         .out = { PLAIN(LS_TYPE(types[t], SIZES[s])) },
                                         .attrs = &(ls_cast_attrs){ types[t] },
                                         .seed = (uint64_t)s });
            }
}

/* ---- moving and summing */

static void test_moves(void **state)
{
    (void)state;
    static const ls_dtype types[] = { LS_F32, LS_F64, LS_BF16, LS_F16, LS_I32, LS_I64, LS_U8 };
    const int64_t turned[] = { 1, 5, 35 }, still[] = { 0, 3, 1 };
    for (int t = 0; t < 7; t++) {
        const ls_dtype d = types[t];
        for (int s = 0; s < COUNT(SIZES); s++)
            math_check(
                &(math_case){ .op = "fill",
                              .n_out = 1,
                              .out = { PLAIN(LS_TYPE(d, SIZES[s])) },
                              .attrs = &(ls_fill_attrs){ .type = LS_TYPE(d, SIZES[s]), .value = 3.0 } });
        const operand x = BELOW(LS_TYPE(d, 5, 7, 9), 100);
        const operand views[] = {
            { .type = x.type, .pad = 4, .kind = FILL_COUNT, .scale = 100 },
            { .type = LS_TYPE(d, 5, 7, 2), .strides = turned, .kind = FILL_COUNT, .scale = 100 },
            { .type = LS_TYPE(d, 4, 2, 3), .strides = still, .kind = FILL_VALUE, .scale = 7 },
            BELOW(LS_SCALAR(d), 9),
            x
        };
        for (int i = 0; i < COUNT(views); i++)
            math_check(&(math_case){ .op = "copy",
                                     .n_in = 1,
                                     .n_out = 1,
                                     .in = { views[i] },
                                     .out = { PLAIN(views[i].type) },
                                     .seed = (uint64_t)i });
        const int64_t perms[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
                                     { 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };
        for (int i = 0; i < 6; i++) {
            const ls_permute_attrs perm = { { 3, perms[i] } };
            math_check(
                &(math_case){ .op = "permute",
                              .n_in = 1,
                              .n_out = 1,
                              .in = { x },
                              .attrs = &perm,
                              .out = { PLAIN(LS_TYPE(d, x.type.dims[perms[i][0]], x.type.dims[perms[i][1]],
                                                     x.type.dims[perms[i][2]])) } });
        }
        const ls_type small[] = { LS_SCALAR(d), LS_TYPE(d, 9), LS_TYPE(d, 7, 1), LS_TYPE(d, 5, 1, 9),
                                  LS_TYPE(d, 5, 7, 9) };
        for (int i = 0; i < COUNT(small); i++)
            math_check(&(math_case){ .op = "broadcast_to",
                                     .n_in = 1,
                                     .n_out = 1,
                                     .in = { BELOW(small[i], 100) },
                                     .out = { PLAIN(LS_TYPE(d, 5, 7, 9)) } });
        for (int dim = 0; dim < 3; dim++) {
            const int64_t starts[] = { 1, 4, 5 };
            ls_type part = LS_TYPE(d, 3, 3, 3), one = part, two = part, out = part;
            part.dims[dim] = 3;
            one.dims[dim] = 1;
            two.dims[dim] = 2;
            out.dims[dim] = 9; /* 0 | part 1-3 | one 4 | two 5-6 | 7 8 */
            const ls_pack_attrs pack = { .dim = dim, .extent = 9, .starts = { 3, starts } };
            math_check(&(math_case){ .op = "pack",
                                     .n_in = 3,
                                     .n_out = 1,
                                     .attrs = &pack,
                                     .out = { PLAIN(out) },
                                     .in = { BELOW(part, 99), BELOW(one, 99), BELOW(two, 99) } });
        }
    }
    const ls_permute_attrs perm = { LIST(0, 2, 1, 3) };
    math_check(&(math_case){ .op = "permute",
                             .n_in = 1,
                             .n_out = 1,
                             .in = { NORMAL(LS_TYPE(LS_F32, 3, 17, 5, 129), 1) },
                             .out = { PLAIN(LS_TYPE(LS_F32, 3, 5, 17, 129)) },
                             .attrs = &perm });
}

/* A part that already lies where it belongs stays as it is; gaps are still cleared. */
static void test_pack_in_place(void **state)
{
    (void)state;
    ls_isa levels[LS_ISA_COUNT];
    for (int l = math_levels(levels) - 1; l >= 0; l--) {
        const int64_t starts[] = { 1, 4 };
        const ls_pack_attrs pack = { .dim = 1, .extent = 6, .starts = { 2, starts } };
        const math_case c = { .op = "pack",
                              .n_in = 2,
                              .n_out = 1,
                              .attrs = &pack,
                              .out = { PLAIN(LS_TYPE(LS_F32, 2, 6)) },
                              .in = { VALUE(LS_TYPE(LS_F32, 2, 2), 3), VALUE(LS_TYPE(LS_F32, 2, 1), 4) } };
        const ls_device d = math_cpu(levels[l], 1);
        math_run r;
        math_make(&r, &c);
        float *out = r.out[0].data;
        for (int i = 0; i < 12; i++)
            out[i] = (float)(10 + i);
        r.in[0].data = out + 1;
        r.in[0].strides[0] = 6;
        ls_kernel_args a = {
            .n_in = 2, .n_out = 1, .in = r.in, .out = r.out, .attrs = &pack, .threads = 1, .arch = d.arch
        };
        const ls_kernel *k = ls_device_find(&d, "pack", &a, NULL);
        k->run(&a);
        const float want[] = { 0, 11, 12, 0, 4, 0, 0, 17, 18, 0, 4, 0 };
        assert_memory_equal(out, want, sizeof want);
        math_free(&r);
    }
}

static void test_sum_to(void **state)
{
    (void)state;
    for (int t = 0; t < 3; t++) {
        const ls_dtype d = FLOATS[t];
        const struct {
            ls_type from, to;
        } cases[] = { { LS_TYPE(d, 65, 17, 33), LS_TYPE(d, 33) },
                      { LS_TYPE(d, 65, 17, 33), LS_TYPE(d, 17, 33) },
                      { LS_TYPE(d, 5, 17, 33), LS_TYPE(d, 5, 1, 33) },
                      { LS_TYPE(d, 5, 17, 33), LS_TYPE(d, 17, 1) },
                      { LS_TYPE(d, 5, 17, 33), LS_TYPE(d, 5, 1, 1) },
                      { LS_TYPE(d, 5, 17, 33), LS_SCALAR(d) },
                      { LS_TYPE(d, 5, 17, 33), LS_TYPE(d, 1, 1, 33) },
                      { LS_TYPE(d, 9), LS_TYPE(d, 1) },
                      { LS_TYPE(d, 3, 5000), LS_TYPE(d, 3, 1) },
                      { LS_TYPE(d, 1000, 1), LS_TYPE(d, 1) },
                      { LS_TYPE(d, 4, 1, 3), LS_TYPE(d, 4, 1, 3) },
                      { LS_TYPE(d, 300, 200), LS_TYPE(d, 200) },
                      { LS_TYPE(d, 2, 3, 4, 5), LS_TYPE(d, 3, 1, 5) },
                      { LS_TYPE(d, 2, 3, 4, 5), LS_TYPE(d, 2, 1, 4, 1) } };
        for (int i = 0; i < COUNT(cases); i++) {
            const double n = (double)ls_type_count(&cases[i].from) / (double)ls_type_count(&cases[i].to);
            math_check(&(math_case){ .op = "sum_to",
                                     .n_in = 1,
                                     .n_out = 1,
                                     .in = { NORMAL(cases[i].from, 1) },
                                     .out = { PLAIN(cases[i].to) },
                                     .of_max = EPS * (4 + sqrt(n)),
                                     .rel = EPS,
                                     .seed = (uint64_t)i });
        }
    }
}

/* f64 is refused with a reason, and so is what the interpreter cannot hold. */
static void test_refusals(void **state)
{
    (void)state;
    ls_isa levels[LS_ISA_COUNT];
    for (int l = math_levels(levels) - 1; l >= 0; l--) {
        const ls_device d = math_cpu(levels[l], 1);
        const ls_type f64 = LS_TYPE(LS_F64, 4);
        ls_tensor in[2] = { ls_tensor_of(NULL, &f64), ls_tensor_of(NULL, &f64) }, out = in[0];
        const ls_kernel_args a = {
            .n_in = 2, .n_out = 1, .in = in, .out = &out, .threads = 1, .arch = d.arch
        };
        const char *why = NULL;
        assert_null(ls_device_find(&d, "add", &a, &why));
        assert_string_equal(why, "f64 is for device ref");
        const ls_type f32 = LS_TYPE(LS_F32, 4);
        out = ls_tensor_of(NULL, &f32);
        assert_null(ls_device_find(
            &d, "cast", &(ls_kernel_args){ .n_in = 1, .n_out = 1, .in = in, .out = &out, .arch = d.arch },
            &why));
        ls_tensor to = in[0];
        assert_null(ls_device_find(
            &d, "cast", &(ls_kernel_args){ .n_in = 1, .n_out = 1, .in = &out, .out = &to, .arch = d.arch },
            &why));
        static int64_t code[4 * 200];
        static double numbers[200];
        const ls_fused_attrs attrs = { .code = { 800, code }, .numbers = { 200, numbers }, .to = LS_F32 };
        const ls_kernel_args b = {
            .n_in = 2, .n_out = 1, .in = in, .out = &out, .attrs = &attrs, .threads = 1, .arch = d.arch
        };
        assert_null(ls_device_find(&d, "fused", &b, &why));
        assert_non_null(strstr(why, "128"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise),   cmocka_unit_test(test_broadcast_and_strides),
        cmocka_unit_test(test_fused),         cmocka_unit_test(test_position),
        cmocka_unit_test(test_cast),          cmocka_unit_test(test_moves),
        cmocka_unit_test(test_pack_in_place), cmocka_unit_test(test_sum_to),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
