/* test_math_attention.c - attention and its gradient on device cpu, at every level of this machine, against
 * device ref: sequences of one tile and of several, heads of odd size, shared key heads, causal masks,
 * biases, column slices of one buffer. The bits depend neither on threads nor on the batch, nor on the
 * documents beside a document. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "math_case.h"

typedef struct shape {
    int64_t B, Tq, Tk, H, G, D;
    bool causal;
    int bias; /* 0 none, else its batch: 1 or B */
    int64_t pad;
} shape;

static const shape SHAPES[] = {
    /* as q, k, v in one [B, T, 384] buffer */
    { .B = 2, .Tq = 17, .Tk = 17, .H = 2, .G = 2, .D = 64, .pad = 256 },
    { .B = 2, .Tq = 21, .Tk = 20, .H = 4, .G = 2, .D = 24, .pad = 5 }, /* queries and keys beyond whole
                                                                          vectors */
    { .B = 1, .Tq = 50, .Tk = 50, .H = 2, .G = 2, .D = 16 },
    { .B = 3, .Tq = 1, .Tk = 17, .H = 2, .G = 2, .D = 64 },
    { .B = 1, .Tq = 1, .Tk = 1, .H = 1, .G = 1, .D = 1 },
    { .B = 2, .Tq = 7, .Tk = 33, .H = 4, .G = 2, .D = 5, .bias = 2, .pad = 3 },
    { .B = 2, .Tq = 33, .Tk = 7, .H = 3, .G = 1, .D = 16, .bias = 1 },
    { .B = 2, .Tq = 15, .Tk = 15, .H = 2, .G = 1, .D = 24, .causal = true, .pad = 7 },
    /* the first four queries see nothing */
    { .B = 1, .Tq = 9, .Tk = 5, .H = 2, .G = 2, .D = 8, .causal = true },
    { .B = 1, .Tq = 64, .Tk = 64, .H = 1, .G = 1, .D = 32 },
    { .B = 2, .Tq = 130, .Tk = 65, .H = 2, .G = 1, .D = 17, .bias = 1, .pad = 1 },
    { .B = 1, .Tq = 150, .Tk = 150, .H = 2, .G = 1, .D = 40, .causal = true },
    { .B = 1, .Tq = 70, .Tk = 200, .H = 1, .G = 1, .D = 8, .causal = true, .bias = 1 },
    /* a whole block of queries sees nothing */
    { .B = 1, .Tq = 140, .Tk = 70, .H = 1, .G = 1, .D = 8, .causal = true },
    { .B = 2,
      .Tq = 140,
      .Tk = 60,
      .H = 2,
      .G = 1,
      .D = 8,
      .causal = true,
      .bias = 1 }, /* the same where all keys are one block */
    { .B = 1, .Tq = 130, .Tk = 130, .H = 1, .G = 1, .D = 8, .causal = true, .bias = 1 },
    /* several blocks of keys */
    { .B = 1, .Tq = 150, .Tk = 301, .H = 2, .G = 1, .D = 64, .causal = true },
    { .B = 1, .Tq = 150, .Tk = 150, .H = 2, .G = 1, .D = 128, .causal = true },
    { .B = 1, .Tq = 37, .Tk = 290, .H = 1, .G = 1, .D = 40, .bias = 1 },
};
static const ls_dtype FLOATS[] = { LS_F32, LS_BF16, LS_F16 };
/* Probabilities and their gradients are rounded to bf16 where products take bf16: each is off by 2^-9. */
#define OF_MAX_BF16 2.4e-3
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static math_case forward_case(const shape *s, ls_dtype d, const ls_attention_attrs *attrs, uint64_t seed)
{
    const operand none = ABSENT;
    const ls_type q = LS_TYPE(d, s->B, s->Tq, s->H * s->D), k = LS_TYPE(d, s->B, s->Tk, s->G * s->D);
    const operand kv = { .type = k, .kind = FILL_NORMAL, .scale = 1, .pad = s->pad };
    const operand bias = NORMAL(LS_TYPE(d, s->bias, s->H, s->Tq, s->Tk), 1);
    return (math_case){ .op = "attention",
                        .n_in = 4,
                        .n_out = 2,
                        .attrs = attrs,
                        .seed = seed,
                        .in = { { .type = q, .kind = FILL_NORMAL, .scale = 2, .pad = s->pad },
                                kv,
                                kv,
                                s->bias ? bias : none },
                        .out = { { .type = q, .pad = s->pad }, PLAIN(LS_TYPE(LS_F32, s->B, s->H, s->Tq)) },
                        .rel = 20 * EPS,
                        .of_max = 20 * EPS,
                        .of_max_bf16 = OF_MAX_BF16 };
}

static double *numbers_of(const ls_tensor *t)
{
    const int64_t n = ls_type_count(&t->type);
    double *v = malloc(sizeof(double) * (size_t)(n ? n : 1));
    for (int64_t i = 0; i < n; i++)
        v[i] = math_value(t, i);
    return v;
}

/* Forward, and the gradient from y and lse as ref gives them. */
static void check(const shape *s, ls_dtype d, uint64_t seed)
{
    const ls_attention_attrs attrs = { .head_dim = s->D,
                                       .causal = s->causal,
                                       .scale = 1 / sqrt((double)s->D) };
    math_case f = forward_case(s, d, &attrs, seed);
    math_check(&f);
    const ls_device ref = { .ops = &ls_device_ref, .threads = 1 };
    math_run r;
    math_make(&r, &f);
    math_execute(&r, &f, &ref);
    double *y = numbers_of(&r.out[0]), *lse = numbers_of(&r.out[1]);
    math_case g = { .op = "attention_grad",
                    .n_in = 7,
                    .n_out = s->bias ? 4 : 3,
                    .attrs = &attrs,
                    .seed = f.seed,
                    .rel = 40 * EPS,
                    .of_max = 60 * EPS,
                    .of_max_bf16 = OF_MAX_BF16 };
    g.in[0] = (operand){ .type = f.in[0].type, .kind = FILL_NORMAL, .scale = 1, .pad = s->pad };
    double *q[4];
    for (int j = 0; j < 4; j++) {
        q[j] = f.in[j].type.ndim < 0 ? NULL : numbers_of(&r.in[j]);
        g.in[1 + j] = f.in[j];
        g.in[1 + j].kind = FILL_DATA;
        g.in[1 + j].data = q[j];
    }
    g.in[5] = (operand){ .type = f.in[0].type, .kind = FILL_DATA, .data = y, .pad = s->pad };
    g.in[6] = (operand)DATA(f.out[1].type, lse);
    for (int j = 0; j < 3; j++)
        g.out[j] = (operand){ .type = f.in[j].type, .pad = s->pad };
    g.out[3].type = f.in[3].type;
    math_check(&g);
    for (int j = 0; j < 4; j++)
        free(q[j]);
    free(y);
    free(lse);
    math_free(&r);
}

static void test_attention(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT(SHAPES); i++)
        for (int t = 0; t < 3; t++)
            check(&SHAPES[i], FLOATS[t], (uint64_t)i);
}

/* A language model's sequence: many tiles; and scratch that grows with it by some rows of a head for each
 * thread: q and dy twice, dq, the sums of dk and dv, log-sum-exp, delta. */
static void test_long(void **state)
{
    (void)state;
    check(&(shape){ .B = 1, .Tq = 517, .Tk = 517, .H = 2, .G = 1, .D = 64, .causal = true }, LS_F32, 1);
    const ls_attention_attrs attrs = { .head_dim = 64, .causal = true, .scale = 0.125 };
    size_t bytes[2][2];
    for (int i = 0; i < 2; i++) {
        const int64_t tokens = i ? 4096 : 512;
        const ls_tensor q = ls_tensor_of(NULL, &LS_TYPE(LS_F32, 1, tokens, 14 * 64)),
                        k = ls_tensor_of(NULL, &LS_TYPE(LS_F32, 1, tokens, 2 * 64)),
                        lse = ls_tensor_of(NULL, &LS_TYPE(LS_F32, 1, 14, tokens)), none = { .type.ndim = -1 };
        const ls_tensor in[][9] = { { q, k, k, none, none, none }, { q, q, k, k, none, q, lse, none, none } },
                        out[] = { q, k, k };
        for (int grad = 0; grad < 2; grad++) {
            const ls_kernel_args a = { .n_in = grad ? 7 : 3,
                                       .n_out = grad ? 3 : 2,
                                       .in = in[grad],
                                       .out = grad ? out : (ls_tensor[]){ q, lse },
                                       .attrs = &attrs,
                                       .threads = 2,
                                       .arch = ls_isa_arch(LS_ISA_GENERIC) };
            const ls_device d = math_cpu(LS_ISA_GENERIC, 2);
            const char *why;
            const ls_kernel *kernel = ls_device_find(&d, grad ? "attention_grad" : "attention", &a, &why);
            assert_non_null(kernel);
            bytes[i][grad] = kernel->workspace(&a);
        }
    }
    assert_int_equal(bytes[0][0], bytes[1][0]);
    assert_int_equal(bytes[1][1] - bytes[0][1], (4096 - 512) * 2 * sizeof(float) * (7 * 64 + 2));
}

/* Keys that a bias of -inf hides do not count; a query that sees none gives zeros, lse -inf and no gradient.
 */
static void test_masked(void **state)
{
    (void)state;
    enum { T = 70 };
    static double mask[T * T];
    for (int i = 0; i < T; i++)
        for (int j = 0; j < T; j++)
            mask[i * T + j] = i == 3 || i == 66 || (i * j) % 5 == 3 || j == 0 ? -INFINITY : 0.25 * (j % 3);
    const shape s = { .B = 1, .Tq = T, .Tk = T, .H = 1, .G = 1, .D = 20, .bias = 1 };
    const ls_attention_attrs attrs = { .head_dim = 20, .scale = 0.2 };
    math_case f = forward_case(&s, LS_F32, &attrs, 1);
    f.in[3].kind = FILL_DATA;
    f.in[3].data = mask;
    math_check(&f);
    ls_isa levels[LS_ISA_COUNT];
    for (int l = math_levels(levels) - 1; l >= 0; l--) {
        const ls_device d = math_cpu(levels[l], 1);
        math_run r, back;
        math_make(&r, &f);
        math_execute(&r, &f, &d);
        assert_true(math_value(&r.out[1], 3) == -INFINITY && math_value(&r.out[0], 3 * 20) == 0 &&
                    math_value(&r.out[0], 66 * 20 + 19) == 0);
        double *y = numbers_of(&r.out[0]), *lse = numbers_of(&r.out[1]);
        math_case g = { .op = "attention_grad",
                        .n_in = 7,
                        .n_out = 4,
                        .attrs = &attrs,
                        .seed = 3,
                        .rel = 40 * EPS,
                        .of_max = 60 * EPS,
                        .in = { f.in[0], f.in[0], f.in[1], f.in[2], f.in[3], DATA(f.in[0].type, y),
                                DATA(f.out[1].type, lse) },
                        .out = { PLAIN(f.in[0].type), PLAIN(f.in[0].type), PLAIN(f.in[0].type),
                                 PLAIN(f.in[3].type) } };
        math_make(&back, &g);
        math_execute(&back, &g, &d);
        for (int c = 0; c < 20; c++)
            assert_true(math_value(&back.out[0], 3 * 20 + c) == 0 && math_value(&back.out[1], c) == 0 &&
                        math_value(&back.out[2], c) == 0);
        for (int o = 0; o < 4; o++)
            for (int64_t i = 0; i < ls_type_count(&back.out[o].type); i++)
                assert_true(isfinite(math_value(&back.out[o], i)));
        math_free(&back);
        math_free(&r);
        free(y);
        free(lse);
    }
}

/* A sample's result has the same bits alone and in a batch. */
static void test_batch(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT(SHAPES); i++) {
        shape s = SHAPES[i], alone = s;
        if (s.B == 1 || s.bias > 1)
            continue;
        alone.B = 1;
        const ls_attention_attrs attrs = { .head_dim = s.D, .causal = s.causal, .scale = 0.3 };
        const math_case whole = forward_case(&s, LS_BF16, &attrs, 9),
                        part = forward_case(&alone, LS_BF16, &attrs, 9);
        ls_isa levels[LS_ISA_COUNT];
        for (int l = math_levels(levels) - 1; l >= 0; l--) {
            const ls_device d = math_cpu(levels[l], 1);
            math_run a, b;
            math_make(&a, &whole);
            math_make(&b, &part);
            math_execute(&a, &whole, &d);
            for (int j = 0; j < 3; j++) /* the last sample */
                b.in[j].data = (uint16_t *)a.in[j].data + (s.B - 1) * a.in[j].strides[0];
            b.in[3].data = a.in[3].data;
            math_execute(&b, &part, &d);
            for (int o = 0; o < 2; o++) {
                const int64_t n = ls_type_count(&b.out[o].type);
                for (int64_t e = 0; e < n; e++)
                    assert_int_equal(math_bits(&b.out[o], e), math_bits(&a.out[o], (s.B - 1) * n + e));
            }
            math_free(&a);
            math_free(&b);
        }
    }
}

/* ---- documents side by side */

enum { DOCUMENTS = 7, TOKENS = 463, HEADS = 2, KEY_HEADS = 1, WIDTH = 24 };
static const int LENGTHS[DOCUMENTS] = { 1, 70, 17, 300, 64, 9, 2 };

/* A tensor's rows from `first` on, n of them. */
static void cut_rows(ls_tensor *out, const ls_tensor *in, int64_t first, int64_t n)
{
    *out = *in;
    out->type.dims[1] = n;
    out->data = (char *)in->data + first * in->strides[1] * (int64_t)ls_dtype_size(in->type.dtype);
}

static void same_rows(const ls_tensor *part, const ls_tensor *whole, int64_t first, int64_t n)
{
    const int64_t width = whole->type.dims[2];
    for (int64_t i = 0; i < n * width; i++)
        assert_int_equal(math_bits(part, i), math_bits(whole, first * width + i));
}

/* lse [1, HEADS, tokens] of a document. */
static void same_lse(const ls_tensor *part, const ls_tensor *whole, int64_t first, int64_t n)
{
    for (int64_t h = 0; h < HEADS; h++)
        for (int64_t i = 0; i < n; i++)
            assert_int_equal(math_bits(part, h * part->type.dims[2] + i),
                             math_bits(whole, h * TOKENS + first + i));
}

static math_case documents_case(ls_dtype d, int64_t tokens, const ls_attention_attrs *attrs,
                                const double *positions)
{
    const shape s = { .B = 1, .Tq = tokens, .Tk = tokens, .H = HEADS, .G = KEY_HEADS, .D = WIDTH, .pad = 5 };
    math_case c = forward_case(&s, d, attrs, 3);
    c.in[4] = c.in[5] = c.in[6] = ABSENT;
    c.n_in = positions ? 7 : 3;
    if (positions)
        c.in[6] = (operand)DATA(LS_TYPE(LS_I32, 1, tokens), positions);
    return c;
}

/* The gradient's case; dy, q, .. are random, since no number depends on another document's. */
static math_case documents_grad_case(const math_case *f)
{
    const operand q = f->in[0], k = f->in[1];
    math_case g = *f;
    g.op = "attention_grad";
    g.n_in = f->n_in > 3 ? 10 : 7;
    g.n_out = 3;
    const operand in[] = { q, q, k, k, ABSENT, q, NORMAL(f->out[1].type, 1), ABSENT, ABSENT, f->in[6] };
    memcpy(g.in, in, sizeof in);
    g.out[0] = f->out[0];
    g.out[1] = g.out[2] = (operand){ .type = k.type, .pad = k.pad };
    return g;
}

/* A document has the bits that it has alone, and at the head of a longer row. */
static void compare_document(const math_case *of, const math_run *whole, const ls_device *d, int64_t first,
                             int64_t n, int64_t row)
{
    const bool grad = of->n_out == 3;
    const math_case f = documents_case(of->out[0].type.dtype, row, of->attrs, NULL),
                    c = grad ? documents_grad_case(&f) : f;
    math_run r;
    math_make(&r, &c);
    for (int j = 0; j < c.n_in; j++)
        if (c.in[j].type.ndim == 3 && c.in[j].type.dtype == of->in[0].type.dtype && !(grad && j == 6))
            cut_rows(&r.in[j], &whole->in[j], first, row);
    for (int64_t h = 0; h < HEADS && grad; h++)
        memcpy((float *)r.in[6].data + h * row, (const float *)whole->in[6].data + h * TOKENS + first,
               sizeof(float) * (size_t)row);
    math_execute(&r, &c, d);
    if (!grad)
        same_lse(&r.out[1], &whole->out[1], first, n);
    for (int o = 0; o < (grad ? 3 : 1); o++)
        same_rows(&r.out[o], &whole->out[o], first, n);
    math_free(&r);
}

static void test_documents(void **state)
{
    (void)state;
    static double positions[TOKENS];
    for (int k = 0, at = 0; k < DOCUMENTS; at += LENGTHS[k++])
        for (int i = 0; i < LENGTHS[k]; i++)
            positions[at + i] = i;
    const ls_attention_attrs attrs = { .head_dim = WIDTH, .causal = true, .scale = 0.3 };
    for (int t = 0; t < 3; t++) {
        const math_case f = documents_case(FLOATS[t], TOKENS, &attrs, positions), g = documents_grad_case(&f);
        ls_isa levels[LS_ISA_COUNT];
        for (int l = math_levels(levels) - 1; l >= 0; l--)
            for (int threads = 1; threads <= 3;
                 threads += 2) { /* with 3 query heads are tasks of their own */
                const ls_device d = math_cpu(levels[l], threads);
                math_run a, b;
                math_make(&a, &f);
                math_make(&b, &g);
                math_execute(&a, &f, &d);
                math_execute(&b, &g, &d);
                for (int k = 0, first = 0; k < DOCUMENTS; first += LENGTHS[k++]) {
                    compare_document(&f, &a, &d, first, LENGTHS[k], LENGTHS[k]);
                    compare_document(&f, &a, &d, first, LENGTHS[k], TOKENS - first);
                    compare_document(&g, &b, &d, first, LENGTHS[k], LENGTHS[k]);
                }
                math_free(&a);
                math_free(&b);
            }
    }
}

/* Device ref in f64: positions are a bias that is -inf outside of the blocks on the diagonal. */
static void test_blocks(void **state)
{
    (void)state;
    enum { T = 12, D = 4 };
    static const int FIRST[T] = { 0, 0, 0, 3, 4, 4, 4, 4, 8, 8, 8, 8 }; /* of each token's document */
    double positions[T], mask[T * T];
    for (int i = 0; i < T; i++) {
        positions[i] = i - FIRST[i];
        for (int j = 0; j < T; j++)
            mask[i * T + j] = j < FIRST[i] ? -INFINITY : 0;
    }
    const ls_attention_attrs attrs = { .head_dim = D, .causal = true, .scale = 0.5 };
    const ls_device ref = { .ops = &ls_device_ref, .threads = 1 };
    const operand x = NORMAL(LS_TYPE(LS_F64, 1, T, D), 1), lse = NORMAL(LS_TYPE(LS_F64, 1, 1, T), 1);
    for (int grad = 0; grad < 2; grad++) {
        math_case c = { .op = grad ? "attention_grad" : "attention",
                        .n_in = grad ? 10 : 7,
                        .n_out = grad ? 3 : 2,
                        .attrs = &attrs,
                        .in = { x, x, x, x, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT },
                        .out = { x, grad ? x : lse, x },
                        .seed = 5 },
                  masked;
        c.in[grad ? 5 : 3] = grad ? x : (operand)ABSENT;
        c.in[6] = lse;
        c.in[grad ? 9 : 6] = (operand)DATA(LS_TYPE(LS_I32, 1, T), positions);
        masked = c;
        masked.in[grad ? 9 : 6] = ABSENT;
        masked.in[grad ? 4 : 3] = (operand)DATA(LS_TYPE(LS_F64, 1, 1, T, T), mask);
        math_run a, b;
        math_make(&a, &c);
        math_make(&b, &masked);
        for (int j = 0; j < c.n_in; j++) /* the same numbers */
            if (c.in[j].kind == FILL_NORMAL && a.in[j].type.ndim > 0)
                memcpy(b.in[j].data, a.in[j].data, ls_type_bytes(&a.in[j].type));
        math_execute(&a, &c, &ref);
        math_execute(&b, &masked, &ref);
        for (int o = 0; o < c.n_out; o++)
            for (int64_t i = 0; i < ls_type_count(&c.out[o].type); i++)
                assert_int_equal(math_bits(&a.out[o], i), math_bits(&b.out[o], i));
        math_free(&a);
        math_free(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_attention), cmocka_unit_test(test_long),
                                        cmocka_unit_test(test_masked),    cmocka_unit_test(test_batch),
                                        cmocka_unit_test(test_documents), cmocka_unit_test(test_blocks) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
