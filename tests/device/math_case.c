/* math_case.c - see math_case.h. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "device/ref/ref.h"
#include "math_case.h"

enum { GUARD = 128 };
static const unsigned char PAINT = 0xa5;

static uint64_t next(uint64_t *state)
{ /* splitmix64 */
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static double uniform(uint64_t *s) { return (double)(next(s) >> 11) * 0x1p-53; }
static double normal(uint64_t *s) { return uniform(s) + uniform(s) + uniform(s) + uniform(s) - 2.0; }

static double number(const operand *o, int64_t i, uint64_t *s)
{
    static const double odd[] = { 0.0,   -0.0,  INFINITY, -INFINITY, NAN,   1e30,   -1e30,
                                  3e38,  -3e38, 1e-30,    -1e-30,    1e-40, -1e-44, 88.0,
                                  -88.0, 90.0,  -104.5,   1.0,       -1.0,  20.5,   -20.5,
                                  0.625, 5.5,   -5.5,     65504.0,   6e-8,  -14.0,  14.0 };
    switch (o->kind) {
    case FILL_NORMAL: return normal(s) * o->scale;
    case FILL_POSITIVE: return fabs(normal(s)) * o->scale + 1e-3;
    case FILL_EXTREME: return next(s) % 3 ? odd[next(s) % (sizeof odd / sizeof *odd)] : normal(s) * o->scale;
    case FILL_MIXED: return ldexp(normal(s), (int)(next(s) % 41) - 30);
    case FILL_COUNT: return (double)(next(s) % (uint64_t)o->scale);
    case FILL_VALUE: return o->scale;
    case FILL_DATA: return o->data[i];
    }
    return NAN;
}

int math_levels(ls_isa levels[LS_ISA_COUNT])
{
    int n = 0;
    for (int i = 0; i <= (int)ls_isa_best(); i++)
        if (ls_cpu_tables((ls_isa)i))
            levels[n++] = (ls_isa)i;
    return n;
}

ls_device math_cpu(ls_isa isa, int threads)
{
    return (ls_device){ .ops = &ls_device_cpu, .arch = ls_isa_arch(isa), .here = true, .threads = threads };
}
static const ls_device REF = { .ops = &ls_device_ref, .threads = 1 };

/* Bytes from the first to behind the last element. */
static size_t extent(const ls_tensor *t)
{
    int64_t last = 0;
    for (int d = 0; d < t->type.ndim; d++) {
        if (t->type.dims[d] == 0)
            return 0;
        last += (t->type.dims[d] - 1) * t->strides[d];
    }
    return (size_t)(last + 1) * ls_dtype_size(t->type.dtype);
}

static ls_tensor make(math_run *r, const operand *o)
{
    ls_tensor t = ls_tensor_of(NULL, &o->type);
    if (o->type.ndim < 0)
        return t;
    if (o->pad && o->type.ndim > 1) {
        int64_t stride = o->type.dims[o->type.ndim - 1] + o->pad;
        for (int d = o->type.ndim - 2; d >= 0; d--) {
            t.strides[d] = stride;
            stride *= o->type.dims[d];
        }
    }
    if (o->strides)
        memcpy(t.strides, o->strides, sizeof(int64_t) * (size_t)o->type.ndim);
    const size_t bytes = extent(&t) + 2 * GUARD;
    unsigned char *block = aligned_alloc(64, (bytes + 63) / 64 * 64);
    assert_non_null(block);
    memset(block, PAINT, (bytes + 63) / 64 * 64);
    r->blocks[r->n_blocks++] = block;
    t.data = block + GUARD;
    return t;
}

static void check_guards(const ls_tensor *t)
{
    if (t->type.ndim < 0)
        return;
    const unsigned char *data = t->data;
    const size_t bytes = extent(t);
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(data[-1 - (ptrdiff_t)i], PAINT);
        assert_int_equal(data[bytes + i], PAINT);
    }
    const int64_t K = t->type.ndim ? t->type.dims[t->type.ndim - 1] : 1;
    const size_t size = ls_dtype_size(t->type.dtype);
    if (ls_tensor_is_contiguous(t) || t->type.ndim < 2 || t->strides[t->type.ndim - 1] != 1)
        return;
    for (int64_t row = 0; row + 1 < ls_type_rows(&t->type); row++) {
        const unsigned char *end = data + (size_t)(ls_ref_offset(t, t->type.ndim - 1, row) + K) * size;
        const unsigned char *next_row = data + (size_t)ls_ref_offset(t, t->type.ndim - 1, row + 1) * size;
        for (; end < next_row; end++)
            assert_int_equal(*end, PAINT);
    }
}

void math_make(math_run *r, const math_case *c)
{
    uint64_t s = c->seed + 12345;
    memset(r, 0, sizeof *r);
    for (int j = c->n_in; j < CASE_MAX; j++)
        r->in[j].type.ndim = -1; /* kernels may look at all that the op can have */
    for (int j = 0; j < c->n_in; j++) {
        r->in[j] = make(r, &c->in[j]);
        if (c->in[j].type.ndim < 0)
            continue;
        const int64_t n = ls_type_count(&c->in[j].type);
        for (int64_t i = 0; i < n; i++)
            flat_put(&r->in[j], i, number(&c->in[j], i, &s));
    }
    for (int i = 0; i < c->n_out; i++)
        r->out[i] = c->out[i].alias ? r->in[c->out[i].alias - 1] : make(r, &c->out[i]);
}

void math_execute(math_run *r, const math_case *c, const ls_device *d)
{
    ls_kernel_args a = { .n_in = c->n_in,
                         .n_out = c->n_out,
                         .in = r->in,
                         .out = r->out,
                         .attrs = c->attrs,
                         .threads = d->threads,
                         .arch = d->arch };
    const char *why = NULL;
    const ls_kernel *k = ls_device_find(d, c->op, &a, &why);
    if (!k)
        print_error("%s %s: %s\n", d->ops->name, c->op, why);
    assert_non_null(k);
    for (int j = 0; j < c->n_in; j++)
        if (d->ops == &ls_device_cpu && r->in[j].type.ndim >= 0 && !ls_tensor_is_contiguous(&r->in[j]))
            assert_true(c->in[j].strides ? k->any_in >> j & 1 : (k->rows_in | k->any_in) >> j & 1);
    const size_t need = k->workspace ? k->workspace(&a) : 0;
    unsigned char *work = aligned_alloc(64, (need + 127) / 64 * 64);
    memset(work, 0xff, (need + 127) / 64 * 64); /* NaN in every float type */
    a.workspace = work;
    k->run(&a);
    for (size_t i = need; i < (need + 127) / 64 * 64; i++)
        assert_int_equal(work[i], 0xff);
    free(work);
    for (int i = 0; i < c->n_out; i++)
        check_guards(&r->out[i]);
}

void math_free(math_run *r)
{
    for (int i = 0; i < r->n_blocks; i++)
        free(r->blocks[i]);
}

double math_value(const ls_tensor *t, int64_t i) { return flat_get(t, i); }
uint64_t math_bits(const ls_tensor *t, int64_t i)
{
    uint64_t b = 0;
    const size_t size = ls_dtype_size(t->type.dtype);
    memcpy(&b, (const char *)t->data + (size_t)ls_ref_offset(t, t->type.ndim, i) * size, size);
    return b;
}

/* one unit in the last place, relative, and the smallest step */
static double step_of(ls_dtype t, double x)
{
    switch (t) {
    case LS_BF16: return fabs(x) * 0x1p-7 + 1e-40;
    case LS_F16: return fabs(x) * 0x1p-10 + 0x1p-24;
    case LS_F32: return fabs(x) * 0x1p-24 + 3e-45;
    default: return 0;
    }
}

static bool close_enough(double x, double want, double tolerance, ls_dtype t)
{
    if (isnan(x) || isnan(want))
        return isnan(x) && isnan(want);
    if (isinf(x) || isinf(want)) { /* at the edge of the range either side of it will do */
        const double most = t == LS_F16 ? 65504.0 : 3.38e38;
        return x == want || (signbit(x) == signbit(want) && fabs(x) >= most && fabs(want) >= most);
    }
    return fabs(x - want) <= tolerance + step_of(t, want);
}

void math_check(const math_case *c)
{
    math_run truth;
    math_make(&truth, c);
    math_execute(&truth, c, &REF);
    ls_isa levels[LS_ISA_COUNT];
    const int n_levels = math_levels(levels);
    for (int l = 0; l < n_levels; l++) {
        math_run one;
        for (int threads = 1; threads <= 3; threads++) {
            math_run r;
            const ls_device d = math_cpu(levels[l], threads);
            math_make(&r, c);
            math_execute(&r, c, &d);
            for (int o = 0; o < c->n_out; o++) {
                if (r.out[o].type.ndim < 0)
                    continue;
                const int64_t n = ls_type_count(&r.out[o].type);
                const ls_dtype t = r.out[o].type.dtype;
                const bool rounded = c->of_max_bf16 > 0 && t == LS_BF16 && levels[l] >= LS_ISA_AVX512BF16;
                const double of_max = rounded ? c->of_max_bf16 : c->of_max;
                double most = 0;
                for (int64_t i = 0; i < n; i++) {
                    const double w = fabs(math_value(&truth.out[o], i));
                    most = isfinite(w) && w > most ? w : most;
                }
                for (int64_t i = 0; i < n; i++) {
                    const double x = math_value(&r.out[o], i), w = math_value(&truth.out[o], i);
                    const bool near = close_enough(x, w, c->rel * fabs(w) + of_max * most, t);
                    const bool same = threads == 1 || math_bits(&r.out[o], i) == math_bits(&one.out[o], i);
                    if (!near || !same)
                        print_error("%s (seed %llu) at %s, %d threads, output %d of %s, element %lld of "
                                    "%lld: %.9g, ref %.9g%s\n",
                                    c->op, (unsigned long long)c->seed, ls_isa_name(levels[l]), threads, o,
                                    ls_dtype_name(t), (long long)i, (long long)n, x, w,
                                    same ? "" : " (differs from one thread)");
                    assert_true(near && same);
                }
            }
            if (threads == 1)
                one = r;
            else
                math_free(&r);
        }
        math_free(&one);
    }
    math_free(&truth);
}
