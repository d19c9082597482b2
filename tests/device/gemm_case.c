/* gemm_case.c - see gemm_case.h. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/rng.h"
#include "gemm_case.h"

enum { GUARD = 256 };

/* f16 and bf16 as f64 and back, bit by bit: nothing shared with the kernels. */
static double decode(const void *p, ls_dtype t, int64_t i)
{
    if (t == LS_F32)
        return ((const float *)p)[i];
    const uint16_t h = ((const uint16_t *)p)[i];
    if (t == LS_BF16) {
        const uint32_t bits = (uint32_t)h << 16;
        float f;
        memcpy(&f, &bits, 4);
        return f;
    }
    const int e = h >> 10 & 31, m = h & 1023;
    const double v = e == 31 ? (m ? NAN : INFINITY) : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
    return h & 0x8000 ? -v : v;
}

static void encode(void *p, ls_dtype t, int64_t i, float x)
{ /* x must be exact in t */
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if (t == LS_F32) {
        ((float *)p)[i] = x;
    } else if (t == LS_BF16) {
        assert_int_equal(isnan(x) ? 0 : bits & 0xffff, 0);
        ((uint16_t *)p)[i] = (uint16_t)(bits >> 16);
    } else {
        uint16_t h = (uint16_t)(bits >> 16 & 0x8000);
        if (isinf(x)) {
            h |= 0x7c00;
        } else if (isnan(x)) {
            h |= 0x7e00;
        } else if (x != 0) {
            int e;
            const double m = frexp(fabs((double)x), &e);
            assert_true(e > -14 && e <= 16 && m * 2048 == floor(m * 2048));
            h = (uint16_t)(h | ((e + 14) << 10) | ((int)(m * 2048) & 1023));
        }
        ((uint16_t *)p)[i] = h;
    }
}

typedef struct operand {
    ls_tensor t;
    char *base;
    int64_t rows, cols, ld;
} operand;

static operand make(ls_dtype t, int ndim, int64_t rows, int64_t cols, int pad, unsigned char fill)
{
    operand o = { .rows = rows, .cols = cols, .ld = cols + pad };
    const size_t bytes = (size_t)(rows * o.ld) * ls_dtype_size(t) + 64;
    o.base = malloc(bytes);
    memset(o.base, fill, bytes);
    o.t = ls_tensor_of(o.base,
                       &(ls_type){ .dtype = t, .ndim = ndim, .dims = { ndim == 1 ? cols : rows, cols } });
    if (ndim == 3) {
        /* [rows, 1, cols], as a slice of one token gives: the stride of the dimension of size 1 means nothing
         */
        o.t.type = (ls_type){ .dtype = t, .ndim = 3, .dims = { rows, 1, cols } };
        o.t.strides[1] = 7;
        o.t.strides[2] = 1;
    }
    if (ndim > 1)
        o.t.strides[0] = o.ld;
    return o;
}

static void fill_random(operand *o, uint64_t seed, uint64_t purpose, const float *values)
{
    const ls_rng_key key = ls_rng_key_of(seed, purpose);
    for (int64_t i = 0; i < o->rows; i++)
        for (int64_t j = 0; j < o->cols; j++) {
            const int64_t at = i * o->cols + j;
            /* exact in all types */
            const float x = values ? values[at]
                                   : (float)((int64_t)ls_rng_below(key, (uint64_t)at, 257) - 128) / 64.0f;
            encode(o->base, o->t.type.dtype, i * o->ld + j, x);
        }
}

static double *read_back(const operand *o)
{
    double *v = malloc(sizeof *v * (size_t)(o->rows * o->cols + 1));
    for (int64_t i = 0; i < o->rows; i++)
        for (int64_t j = 0; j < o->cols; j++)
            v[i * o->cols + j] = decode(o->base, o->t.type.dtype, i * o->ld + j);
    return v;
}

void gemm_run(const gemm_case *c, const ls_device *device, int64_t r0, int64_t r1, gemm_result *out)
{
    static const char *const names[] = { "linear", "linear_dx", "linear_dw" };
    const ls_tensor absent = { .type.ndim = -1 };
    const ls_dtype t = c->dtype;
    const int nd = c->pad ? 3 : 2;
    operand in[4] = { 0 }, o[2] = { 0 };
    int n_in = 4, n_out = 1;
    if (c->op == OP_LINEAR) {
        in[0] = make(t, nd, c->m, c->k, c->pad, 0xff);
        in[1] = make(t, 2, c->n, c->k, c->pad, 0xff);
        in[2] = make(t, 1, 1, c->n, 0, 0xff);
        in[3] = make(t, nd, c->m, c->n, c->pad, 0xff);
        n_out = c->act ? 2 : 1;
        for (int i = 0; i < n_out; i++)
            o[i] = make(t, nd, c->m, c->n, c->pad, 0xa5);
    } else if (c->op == OP_DX) {
        in[0] = make(t, nd, c->m, c->n, c->pad, 0xff);
        in[1] = make(t, 2, c->n, c->k, c->pad, 0xff);
        in[2] = make(t, nd, c->m, c->k, c->pad, 0xff);
        in[3] = make(t, nd, c->m, c->k, c->pad, 0xff);
        o[0] = make(t, nd, c->m, c->k, c->pad, 0xa5);
    } else {
        n_in = 2;
        n_out = c->bias ? 2 : 1;
        in[0] = make(t, nd, c->m, c->n, c->pad, 0xff);
        in[1] = make(t, nd, c->m, c->k, c->pad, 0xff);
        o[0] = make(t, 2, c->n, c->k, c->pad, 0xa5);
        if (c->bias)
            o[1] = make(t, 1, 1, c->n, 0, 0xa5);
    }
    const bool here[4] = { true, true, c->op == OP_LINEAR ? c->bias : c->act != LS_ACT_NONE, c->residual };
    ls_tensor tin[4], tout[2];
    for (int i = 0; i < n_in; i++) {
        fill_random(&in[i], c->seed, (uint64_t)i, i == 0 ? c->a_values : i == 1 ? c->b_values : NULL);
        tin[i] = here[i] ? in[i].t : absent;
    }
    for (int i = 0; i < n_out; i++)
        tout[i] = o[i].t;
    if (c->op != OP_DW) { /* only some rows */
        for (int i = 0; i < n_in; i++)
            if (i != 1 && !(c->op == OP_LINEAR && i == 2) && here[i]) {
                tin[i].type.dims[0] = r1 - r0;
                tin[i].data = in[i].base + (size_t)(r0 * in[i].ld) * ls_dtype_size(t);
            }
        for (int i = 0; i < n_out; i++) {
            tout[i].type.dims[0] = r1 - r0;
            tout[i].data = o[i].base + (size_t)(r0 * o[i].ld) * ls_dtype_size(t);
        }
    }
    const ls_linear_attrs act = { c->act };
    const ls_linear_dw_attrs dw = { c->bias };
    ls_kernel_args a = { .n_in = n_in,
                         .n_out = n_out,
                         .in = tin,
                         .out = tout,
                         .attrs = c->op == OP_DW ? (const void *)&dw : &act,
                         .threads = device->threads,
                         .arch = device->arch };
    const char *why = NULL;
    const ls_kernel *kernel = ls_device_find(device, names[c->op], &a, &why);
    if (!kernel)
        fail_msg("%s: %s", names[c->op], why);
    const size_t need = kernel->workspace ? kernel->workspace(&a) : 0;
    unsigned char *workspace = aligned_alloc(64, (need + 63) / 64 * 64 + GUARD);
    memset(workspace, 0xff, need); /* NaN: nothing may be read before it is written */
    memset(workspace + need, 0x5a, GUARD);
    a.workspace = workspace;
    kernel->run(&a);
    for (int i = 0; i < GUARD; i++)
        assert_int_equal(workspace[need + (size_t)i], 0x5a);
    free(workspace);
    memset(out, 0, sizeof *out);
    for (int i = 0; i < n_in; i++) {
        out->in[i] = here[i] ? read_back(&in[i]) : NULL;
        out->in_rows[i] = in[i].rows;
        out->in_cols[i] = in[i].cols;
    }
    for (int i = 0; i < n_out; i++) {
        const size_t size = ls_dtype_size(t);
        out->out[i] = read_back(&o[i]);
        out->out_rows[i] = o[i].rows;
        out->out_cols[i] = o[i].cols;
        out->raw_bytes[i] = (size_t)(o[i].rows * o[i].cols) * size;
        out->raw_out[i] = malloc(out->raw_bytes[i] + 1);
        for (int64_t r = 0; r < o[i].rows; r++) {
            const char *row = o[i].base + (size_t)(r * o[i].ld) * size;
            memcpy((char *)out->raw_out[i] + (size_t)(r * o[i].cols) * size, row, (size_t)o[i].cols * size);
            for (size_t b = (size_t)o[i].cols * size; b < (size_t)o[i].ld * size; b++)
                assert_int_equal((unsigned char)row[b], 0xa5); /* between rows */
        }
        free(o[i].base);
    }
    for (int i = 0; i < n_in; i++)
        free(in[i].base);
}

void gemm_release(gemm_result *r)
{
    for (int i = 0; i < 4; i++)
        free(r->in[i]);
    for (int i = 0; i < 2; i++) {
        free(r->out[i]);
        free(r->raw_out[i]);
    }
}

double gemm_act(ls_act act, double x)
{
    switch (act) {
    case LS_ACT_RELU: return x > 0 || isnan(x) ? x : 0;
    case LS_ACT_GELU: return 0.5 * x * erfc(-x / sqrt(2));
    case LS_ACT_GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    default: return x;
    }
}

double gemm_act_slope(ls_act act, double x)
{
    const double u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x), t = tanh(u);
    switch (act) {
    case LS_ACT_RELU: return x > 0;
    case LS_ACT_GELU: return 0.5 * erfc(-x / sqrt(2)) + x * exp(-x * x / 2) / sqrt(2 * M_PI);
    case LS_ACT_GELU_TANH:
        return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
    default: return 1;
    }
}

double gemm_unit(ls_dtype t) { return t == LS_F32 ? 0x1p-24 : t == LS_F16 ? 0x1p-11 : 0x1p-8; }
