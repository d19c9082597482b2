/* test_update.c - the optimizers' passes over parameters: what Adam writes besides parameters and moments,
 * and casts of whole buffers. Bit for bit, at every level of this machine, with 1 and 3 threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/bf16.h"
#include "graph/update_attrs.h"
#include "support/levels.h"
#include "support/support.h"

static ls_tensor flat(void *data, ls_dtype t, int64_t n) { return ls_tensor_of(data, &LS_TYPE(t, n)); }

static void run(const ls_device *d, const char *op, ls_kernel_args *a)
{
    const char *why = "";
    const ls_kernel *k = ls_device_find(d, op, a, &why);
    if (!k)
        fail_msg("%s: %s", op, why);
    a->threads = d->threads;
    a->arch = d->arch;
    k->run(a);
}

static void cast(const ls_device *d, const ls_tensor *from, const ls_tensor *to)
{
    run(d, "cast",
        &(ls_kernel_args){
            .n_in = 1, .n_out = 1, .in = from, .out = to, .attrs = &(ls_cast_attrs){ to->type.dtype } });
}

enum { MOST = 70001 };
typedef struct buffers {
    float p[MOST], g[MOST], m[MOST], v[MOST];
    uint16_t w[MOST];
} buffers;

static void fill(buffers *b)
{
    uint32_t x = 7;
    for (int i = 0; i < MOST; i++) {
        float *at[] = { &b->p[i], &b->g[i], &b->m[i], &b->v[i] };
        for (int k = 0; k < 4; k++) {
            x = x * 1664525 + 1013904223;
            *at[k] = (float)(x >> 8) * 0x1p-24f - (k == 3 ? 0.0f : 0.5f);
        }
        b->w[i] = 0xffff;
    }
    b->p[3] = __builtin_nanf("");
    b->p[40] = __builtin_inff();
}

static void adam(const ls_device *d, buffers *b, int64_t n, ls_dtype type, const ls_tensor *gradient,
                 bool weights, int32_t apply)
{
    int64_t step = 3;
    double lr = 1e-2;
    const ls_adam_attrs at = { 0.9, 0.999, 1e-8, 0.01, 1 };
    const ls_tensor none = { .type = { .ndim = -1 } },
                    in[] = { flat(b->p, LS_F32, n),
                             *gradient,
                             flat(b->m, LS_F32, n),
                             flat(b->v, LS_F32, n),
                             ls_tensor_of(&step, &LS_SCALAR(LS_I64)),
                             ls_tensor_of(&lr, &LS_SCALAR(LS_F64)),
                             none,
                             ls_tensor_of(&apply, &LS_SCALAR(LS_I32)),
                             weights ? flat(b->w, type, n) : none },
                    out[] = { in[0], in[2], in[3], in[8] };
    run(d, "adam",
        &(ls_kernel_args){ .n_in = 9, .n_out = weights ? 4 : 3, .in = in, .out = out, .attrs = &at });
}

static void adam_case(const ls_device *d, int64_t n, ls_dtype type, bool there, int32_t apply)
{
    buffers *plain = malloc(sizeof *plain), *with = malloc(sizeof *with);
    uint16_t *g = malloc(sizeof *g * (size_t)n), *want = malloc(sizeof *want * (size_t)n);
    fill(plain);
    fill(with);
    const ls_tensor gradient = flat(g, type, n), in_weights = flat(with->w, type, n),
                    wide = flat(plain->g, LS_F32, n), wanted = flat(want, type, n),
                    parameters = flat(plain->p, LS_F32, n);
    cast(d, &wide, &gradient);
    if (there)
        memcpy(with->w, g, sizeof *g * (size_t)n);
    adam(d, plain, n, type, &gradient, false, apply);
    adam(d, with, n, type, there ? &in_weights : &gradient, true, apply);
    cast(d, &parameters, &wanted);
    assert_memory_equal(plain->p, with->p, sizeof plain->p);
    assert_memory_equal(plain->m, with->m, sizeof plain->m);
    assert_memory_equal(plain->v, with->v, sizeof plain->v);
    assert_memory_equal(want, with->w, sizeof *want * (size_t)n);
    for (int64_t i = n; i < MOST; i++)
        assert_int_equal(with->w[i], 0xffff);
    free(plain);
    free(with);
    free(g);
    free(want);
}

/* Weights are the parameters, rounded: also where the gradient is, and where the step is skipped. */
static void adam_writes_weights(void **state)
{
    (void)state;
    static const int64_t SIZES[] = { 1, 15, 16, 33, 4095, 4097, MOST };
    for (int level = -1; level <= (int)ls_isa_best(); level++)
        for (int threads = 1; threads <= 3; threads += 2) {
            ls_device d;
            if (ls_device_open(&d, level < 0 ? "ref" : "cpu",
                               &(ls_device_opts){ LS_DEVICE_DEFAULTS, .isa = level_name(level),
                                                  .threads = threads }) != LS_OK)
                continue; /* (this build does not have the level) */
            for (size_t s = 0; s < sizeof SIZES / sizeof *SIZES; s++)
                for (int k = 0; k < 8; k++)
                    adam_case(&d, SIZES[s], k & 1 ? LS_F16 : LS_BF16, k & 2, k & 4 ? 0 : 1);
        }
}

/* A sum of moment and gradient that is not a number has no sign: the parameter is none either. Zero has none.
 */
static void lion_keeps_nan(void **state)
{
    (void)state;
    for (int level = -1; level <= (int)ls_isa_best(); level++) {
        ls_device d;
        if (ls_device_open(&d, level < 0 ? "ref" : "cpu",
                           &(ls_device_opts){ LS_DEVICE_DEFAULTS, .isa = level_name(level), .threads = 1 }) !=
            LS_OK)
            continue; /* (this build does not have the level) */
        float p[40], g[40], m[40];
        double lr = 0.5;
        for (int i = 0; i < 40; i++) {
            p[i] = 1;
            g[i] = (float[]){ 2, -2, 0, __builtin_nanf("") }[i % 4];
            m[i] = 0;
        }
        const ls_tensor none = { .type = { .ndim = -1 } },
                        in[] = { flat(p, LS_F32, 40),
                                 flat(g, LS_F32, 40),
                                 flat(m, LS_F32, 40),
                                 ls_tensor_of(&lr, &LS_SCALAR(LS_F64)),
                                 none,
                                 none },
                        out[] = { in[0], in[2] };
        run(&d, "lion",
            &(ls_kernel_args){ .n_in = 6,
                               .n_out = 2,
                               .in = in,
                               .out = out,
                               .attrs = &(ls_lion_attrs){ .beta1 = 0.9, .beta2 = 0.9 } });
        for (int i = 0; i < 40; i += 4) {
            assert_true(p[i] == 0.5f && p[i + 1] == 1.5f && p[i + 2] == 1);
            assert_true(p[i + 3] != p[i + 3] && m[i + 3] != m[i + 3]);
        }
    }
}

/* From some size on, results of bf16 go past the caches. */
static void a_large_cast_is_exact(void **state)
{
    (void)state;
    const int64_t n = ((int64_t)16 << 20) + 37;
    float *from = malloc(sizeof *from * (size_t)n);
    uint16_t *to = aligned_alloc(64, ((size_t)n * 2 + 63) / 64 * 64);
    assert_true(from && to);
    for (int64_t i = 0; i < n; i++) {
        const uint32_t bits = (uint32_t)i * 2654435761u;
        memcpy(&from[i], &bits, sizeof bits);
    }
    ls_device d;
    ASSERT_OK(ls_device_open(&d, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 2 }));
    const ls_tensor in = flat(from, LS_F32, n), out = flat(to, LS_BF16, n);
    cast(&d, &in, &out);
    for (int64_t i = 0; i < n; i++)
        if (to[i] != ls_to_bf16(from[i]))
            fail_msg("element %lld: %04x, not %04x", (long long)i, to[i], ls_to_bf16(from[i]));
    free(from);
    free(to);
}

/* From some size on, Adam's weights go past the caches too. */
static void weights_of_many_parameters_are_rounded(void **state)
{
    (void)state;
    const int64_t n = ((int64_t)16 << 20) + 37;
    float *of[3]; /* parameters and moments */
    for (int k = 0; k < 3; k++) {
        of[k] = malloc(sizeof(float) * (size_t)n);
        assert_non_null(of[k]);
        for (int64_t i = 0; i < n; i++)
            of[k][i] = (float)((uint32_t)i * 2654435761u >> 8) * 0x1p-24f;
    }
    uint16_t *g = malloc(sizeof *g * (size_t)n), *w = aligned_alloc(64, ((size_t)n * 2 + 63) / 64 * 64);
    assert_true(g && w);
    for (int64_t i = 0; i < n; i++)
        g[i] = ls_to_bf16(of[0][i] - 0.5f);
    ls_device d;
    ASSERT_OK(ls_device_open(&d, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 2 }));
    int64_t step = 3;
    double lr = 1e-2;
    const ls_adam_attrs at = { 0.9, 0.999, 1e-8, 0.01, 1 };
    const ls_tensor none = { .type = { .ndim = -1 } },
                    in[] = { flat(of[0], LS_F32, n),
                             flat(g, LS_BF16, n),
                             flat(of[1], LS_F32, n),
                             flat(of[2], LS_F32, n),
                             ls_tensor_of(&step, &LS_SCALAR(LS_I64)),
                             ls_tensor_of(&lr, &LS_SCALAR(LS_F64)),
                             none,
                             none,
                             flat(w, LS_BF16, n) },
                    out[] = { in[0], in[2], in[3], in[8] };
    run(&d, "adam", &(ls_kernel_args){ .n_in = 9, .n_out = 4, .in = in, .out = out, .attrs = &at });
    for (int64_t i = 0; i < n; i++)
        if (w[i] != ls_to_bf16(of[0][i]))
            fail_msg("element %lld: %04x, not %04x", (long long)i, w[i], ls_to_bf16(of[0][i]));
    for (int k = 0; k < 3; k++)
        free(of[k]);
    free(g);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(lion_keeps_nan),
                                        cmocka_unit_test(adam_writes_weights),
                                        cmocka_unit_test(weights_of_many_parameters_are_rounded),
                                        cmocka_unit_test(a_large_cast_is_exact) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
