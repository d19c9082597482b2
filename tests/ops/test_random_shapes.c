/* test_random_shapes.c - cpu kernels of ops with many shapes against ref, at shapes and constants drawn at
 * random: sizes of 1, padding beyond the kernel, strides that skip, dilation with groups, absent operands.
 * `ops_test_random_shapes SEED COUNT` draws others. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kernels.h"
#include "prepare.h"
#include "device/cpu/isa.h"
#include "graph/tensor_attrs.h"
#include "support/support.h"

static uint64_t seed = 1, count = 40; /* count: of cases of each kind */

/* ---- what is drawn */

static ls_rng_key key;
static uint64_t drawn;

/* first .. last */
static int64_t within(int64_t first, int64_t last)
{
    return first + (int64_t)ls_rng_below(key, drawn++, (uint64_t)(last - first + 1));
}
static bool one_in(int64_t n) { return within(1, n) == 1; }

/* A size: 1, some, about a vector, or up to `most`. */
static int64_t size(int64_t most)
{
    const int64_t n = one_in(5)   ? 1
                      : one_in(2) ? within(2, 9)
                      : one_in(2) ? within(1, 4) * 8 + within(-1, 1)
                                  : within(1, most);
    return n > most ? most : n;
}

/* A case that is being made, and its constants. */
typedef struct drawing {
    op_case c;
    union {
        ls_conv_attrs conv;
        ls_max_pool_attrs max_pool;
        ls_avg_pool_attrs avg_pool;
        ls_resize_attrs resize;
        ls_group_norm_attrs group_norm;
        ls_cumsum_attrs cumsum;
        ls_index_attrs index;
        ls_matmul_attrs matmul;
        ls_recurrent_attrs recurrent;
    } attrs;
    char what[200];
} drawing;

static case_operand *operand(drawing *d, int dtype, case_fill fill, int ndim, const int64_t *dims)
{
    case_operand *o = &d->c.in[d->c.n_in++];
    *o = (case_operand){ .dtype = dtype, .fill = fill, .ndim = ndim };
    memcpy(o->dims, dims, (size_t)ndim * sizeof *dims);
    return o;
}
#define DIMS(...) \
    (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
#define GIVEN(d, ...) operand(d, DATA, FILL_NORMAL, DIMS(__VA_ARGS__))
#define MADE(d, t, ...) operand(d, t, FILL_RESULT, DIMS(__VA_ARGS__)) /* by the case's `prepare` */
static void absent(drawing *d) { d->c.in[d->c.n_in++] = (case_operand){ .ndim = -1 }; }

/* ---- kinds of cases; `way` counts the ops of a kind */

static void draw_conv(drawing *d, int way)
{
    ls_conv_attrs *a = &d->attrs.conv;
    const bool depthwise = one_in(3);
    const int64_t groups = one_in(2) ? 1 : within(2, depthwise ? 20 : 4), n = size(9);
    const int64_t c = groups * (depthwise ? 1 : size(20)),
                  o = groups * (depthwise && one_in(2) ? 1 : size(20));
    const int64_t k = one_in(3) ? 1 : within(1, 5), l = one_in(2) ? k : within(1, 7);
    *a = (ls_conv_attrs){ .stride_h = within(1, 3),
                          .stride_w = within(1, 3),
                          .pad_h = one_in(5) ? within(0, 8) : within(0, k / 2),
                          .pad_w = one_in(5) ? within(0, 8) : within(0, l / 2),
                          .dilation_h = one_in(3) ? within(1, 4) : 1,
                          .dilation_w = one_in(3) ? within(1, 4) : 1,
                          .groups = groups };
    if (one_in(2))
        a->stride_h = a->stride_w = one_in(2) ? 1 : 2;
    const int64_t reach_h = a->dilation_h * (k - 1) + 1, reach_w = a->dilation_w * (l - 1) + 1;
    int64_t h = size(20), w = size(40);
    h = h + 2 * a->pad_h < reach_h ? reach_h - 2 * a->pad_h : h;
    w = w + 2 * a->pad_w < reach_w ? reach_w - 2 * a->pad_w : w;
    const int64_t oh = (h + 2 * a->pad_h - reach_h) / a->stride_h + 1;
    const int64_t ow = (w + 2 * a->pad_w - reach_w) / a->stride_w + 1;
    d->c.compare = COMPARE_SUM;
    d->c.extreme = EXTREME_WIDE;
    if (way == 0) {
        d->c.op = "conv2d";
        GIVEN(d, n, c, h, w);
        GIVEN(d, o, c / groups, k, l);
        if (one_in(2))
            GIVEN(d, o);
        d->c.reduce = c / groups * k * l;
        d->c.batch_in = 1;
    } else if (way == 1) {
        d->c.op = "conv2d_dx";
        GIVEN(d, n, o, oh, ow);
        GIVEN(d, o, c / groups, k, l);
        a->height = h;
        a->width = w;
        d->c.reduce = o / groups * k * l;
        d->c.batch_in = 1;
    } else {
        d->c.op = "conv2d_dw";
        GIVEN(d, n, o, oh, ow);
        GIVEN(d, n, c, h, w);
        a->height = k;
        a->width = l;
        a->bias = within(0, 1);
        d->c.reduce = n * oh * ow;
    }
}

static void draw_max_pool(drawing *d, int way)
{
    ls_max_pool_attrs *a = &d->attrs.max_pool;
    const int64_t n = size(5), c = size(9), h = size(20), w = size(70);
    a->kernel_h = within(1, h < 6 ? h : 6);
    a->kernel_w = within(1, w < 6 ? w : 6);
    a->stride_h = within(1, 4);
    a->stride_w = within(1, 4);
    a->pad_h = within(0, a->kernel_h / 2);
    a->pad_w = within(0, a->kernel_w / 2);
    d->c.op = way ? "max_pool2d_grad" : "max_pool2d";
    if (way == 0) {
        GIVEN(d, n, c, h, w);
        d->c.compare = COMPARE_EXACT;
        d->c.extreme = EXTREME_SPECIAL;
        d->c.batch_in = 1;
        return;
    }
    const int64_t oh = (h + 2 * a->pad_h - a->kernel_h) / a->stride_h + 1;
    const int64_t ow = (w + 2 * a->pad_w - a->kernel_w) / a->stride_w + 1;
    GIVEN(d, n, c, oh, ow);
    MADE(d, LS_I32, n, c, oh, ow);
    a->height = h;
    a->width = w;
    d->c.prepare = prepare_max_pool;
    d->c.compare = COMPARE_SUM;
    d->c.reduce = a->kernel_h * a->kernel_w;
    d->c.batch_in = 3;
}

/* Its gradient takes the sizes the other way round. */
static void put_sizes(drawing *d, int way, int64_t *height, int64_t *width, int64_t h, int64_t w, int64_t oh,
                      int64_t ow)
{
    const int64_t n = size(5), c = size(9);
    *height = way ? h : oh;
    *width = way ? w : ow;
    if (way)
        GIVEN(d, n, c, oh, ow);
    else
        GIVEN(d, n, c, h, w);
    d->c.compare = COMPARE_SUM;
    d->c.extreme = EXTREME_WIDE;
    d->c.batch_in = 1;
}

static void draw_avg_pool(drawing *d, int way)
{
    ls_avg_pool_attrs *a = &d->attrs.avg_pool;
    const int64_t h = size(20), w = size(70);
    int64_t oh = size(20), ow = size(20);
    if (!one_in(3)) { /* windows of one size */
        a->kernel_h = within(1, h < 6 ? h : 6);
        a->kernel_w = within(1, w < 37 ? w : 37);
        a->stride_h = within(1, 4);
        a->stride_w = within(1, 4);
        a->pad_h = within(0, a->kernel_h / 2);
        a->pad_w = within(0, a->kernel_w / 2);
        a->whole = within(0, 1);
        oh = (h + 2 * a->pad_h - a->kernel_h) / a->stride_h + 1;
        ow = (w + 2 * a->pad_w - a->kernel_w) / a->stride_w + 1;
    }
    d->c.op = way ? "avg_pool2d_grad" : "avg_pool2d";
    put_sizes(d, way, &a->height, &a->width, h, w, oh, ow);
    d->c.reduce = way ? oh * ow : h * w;
}

static void draw_resize(drawing *d, int way)
{
    ls_resize_attrs *a = &d->attrs.resize;
    const int64_t h = size(20), w = size(70), oh = size(40), ow = size(70);
    a->mode = within(0, 2);
    d->c.op = way ? "resize2d_grad" : "resize2d";
    put_sizes(d, way, &a->height, &a->width, h, w, oh, ow);
    d->c.reduce = way ? oh * ow : 4;
}

static void draw_group_norm(drawing *d, int way)
{
    const int64_t n = size(9), groups = size(9), each = size(9), c = groups * each;
    /* at least 8 numbers: the deviation of fewer may be next to nothing, which magnifies roundings */
    const int64_t h = within(1, 5), w = each * h < 8 ? 8 : size(40);
    d->attrs.group_norm = (ls_group_norm_attrs){ each, 1e-3 };
    d->c.op = way ? "group_norm_grad" : "group_norm";
    d->c.compare = COMPARE_SUM;
    d->c.reduce = each * h * w * (way ? n : 1);
    if (way)
        GIVEN(d, n, c, h, w);
    else
        d->c.batch_in = 1;
    GIVEN(d, n, c, h, w);
    GIVEN(d, c);
    if (!way)
        GIVEN(d, c);
    if (way) {
        MADE(d, STAT, n, groups);
        MADE(d, STAT, n, groups);
        d->c.prepare = prepare_group_norm;
    }
}

/* up to four dimensions */
static int draw_dims(int64_t dims[4], int least)
{
    const int n = (int)within(least, 4);
    for (int k = 0; k < n; k++)
        dims[k] = size(n > 2 ? 12 : 60);
    return n;
}

static void draw_cumsum(drawing *d, int way)
{
    int64_t dims[4];
    const int n = draw_dims(dims, 1);
    (void)way;
    d->attrs.cumsum = (ls_cumsum_attrs){ within(0, n - 1), within(0, 1) };
    d->c.op = "cumsum";
    operand(d, DATA, FILL_NORMAL, n, dims);
    d->c.compare = COMPARE_SUM;
    d->c.extreme = EXTREME_WIDE;
    d->c.reduce = dims[d->attrs.cumsum.dim];
}

static void draw_index(drawing *d, int way)
{
    int64_t dims[4], taken[4];
    const int n = draw_dims(dims, 1), dim = (int)within(0, n - 1);
    memcpy(taken, dims, sizeof dims);
    taken[dim] = size(70);
    const bool slices = one_in(2);
    const case_fill numbers = one_in(3) ? FILL_INDEX : FILL_ID; /* FILL_INDEX: some are outside */
    d->attrs.index = (ls_index_attrs){ dim, way ? dims[dim] : 0 };
    d->c.op = way ? "scatter_add" : "gather";
    operand(d, DATA, FILL_NORMAL, n, way ? taken : dims);
    operand(d, LS_I32, numbers, slices ? 1 : n, slices ? &taken[dim] : taken)->value = (double)dims[dim];
    d->c.compare = way ? COMPARE_SUM : COMPARE_EXACT;
    d->c.extreme = way ? EXTREME_WIDE : EXTREME_SPECIAL;
    d->c.reduce = taken[dim];
}

static void draw_matmul(drawing *d, int way)
{
    const int64_t b = size(9), m = size(70), k = size(140), n = size(70);
    (void)way;
    d->attrs.matmul.transpose_a = one_in(3);
    d->attrs.matmul.transpose_b = !d->attrs.matmul.transpose_a && one_in(2);
    d->c.op = "batch_matmul";
    if (d->attrs.matmul.transpose_a)
        GIVEN(d, b, k, m);
    else
        GIVEN(d, b, m, k);
    if (d->attrs.matmul.transpose_b)
        GIVEN(d, b, n, k);
    else
        GIVEN(d, b, k, n);
    d->c.compare = COMPARE_SUM;
    d->c.extreme = EXTREME_WIDE;
    d->c.reduce = k;
    d->c.batch_in = 3;
}

static void draw_log_softmax(drawing *d, int way)
{
    int64_t dims[4];
    const int n = draw_dims(dims, 1);
    d->c.op = way ? "log_softmax_grad" : "log_softmax";
    operand(d, DATA, FILL_NORMAL, n, dims);
    if (way) {
        operand(d, DATA, FILL_RESULT, n, dims);
        d->c.prepare = prepare_log_softmax;
    } else
        d->c.extreme = EXTREME_LARGE;
    d->c.compare = COMPARE_SUM;
    d->c.reduce = dims[n - 1];
}

/* lstm, its gradient, gru, its gradient */
static void draw_recurrent(drawing *d, int way)
{
    static const char *const OPS[] = { "lstm", "lstm_grad", "gru", "gru_grad" };
    const int64_t b = size(9), t = within(1, 6), h = size(40);
    const bool first = one_in(2), bias = one_in(2);
    d->attrs.recurrent.reverse = within(0, 1);
    d->c.f32_only = t > 1; /* 16-bit states may be rounded either way, and weights this large magnify that */
    d->c.op = OPS[way];
    d->c.compare = COMPARE_SUM;
    d->c.ulps = way % 2 ? 8 : 4;
    d->c.reduce = h * t;
    if (way == 0 || way == 2) {
        GIVEN(d, b, t, (way ? 3 : 4) * h);
        GIVEN(d, (way ? 3 : 4) * h, h);
        if (way && bias)
            GIVEN(d, 3 * h);
        else if (way)
            absent(d);
        if (first)
            GIVEN(d, b, h);
        if (first && !way)
            GIVEN(d, b, h);
        d->c.batch_in = !first ? 1 : way ? 9 : 13;
    } else if (way == 1) {
        if (bias) {
            GIVEN(d, b, t, h);
            absent(d);
        } else {
            if (first)
                GIVEN(d, b, t, h);
            else
                absent(d);
            operand(d, STAT, FILL_NORMAL, DIMS(b, t, h));
        }
        GIVEN(d, 4 * h, h);
        MADE(d, STAT, b, t, h);
        MADE(d, DATA, b, t, 4 * h);
        if (first)
            GIVEN(d, b, h);
        d->c.prepare = prepare_lstm;
    } else {
        GIVEN(d, b, t, h);
        GIVEN(d, 3 * h, h);
        MADE(d, DATA, b, t, h);
        MADE(d, DATA, b, t, 4 * h);
        if (first)
            GIVEN(d, b, h);
        d->c.prepare = prepare_gru;
    }
}

static const struct {
    void (*draw)(drawing *d, int way);
    int ways;
} KINDS[] = { { draw_conv, 3 },       { draw_max_pool, 2 }, { draw_avg_pool, 2 }, { draw_resize, 2 },
              { draw_cumsum, 1 },     { draw_index, 2 },    { draw_matmul, 1 },   { draw_log_softmax, 2 },
              { draw_group_norm, 2 }, { draw_recurrent, 4 } };

/* Its operands and constants, for messages. */
static void describe(drawing *d)
{
    int n = 0;
    for (int k = 0; k < d->c.n_in; k++) {
        n += snprintf(d->what + n, sizeof d->what - (size_t)n, k ? ", " : "");
        for (int j = 0; j < d->c.in[k].ndim; j++)
            n += snprintf(d->what + n, sizeof d->what - (size_t)n, j ? "x%lld" : "%lld",
                          (long long)d->c.in[k].dims[j]);
    }
    const ls_op *op = ls_op_find(d->c.op);
    for (const ls_attr_field *f = op->fields; f && f->name; f++)
        if (f->kind == LS_FIELD_I64)
            n += snprintf(d->what + n, sizeof d->what - (size_t)n, " %s %lld", f->name,
                          (long long)*(const int64_t *)(const void *)((const char *)d->c.attrs + f->offset));
    d->c.what = d->what;
}

static void random_shapes(const ls_device *device)
{
    static const ls_dtype TYPES[] = { LS_F32, LS_BF16, LS_F16 };
    key = ls_rng_key_of(seed, 7);
    drawn = 0;
    kernel_failures = 0;
    int runs = 0;
    for (size_t k = 0; k < sizeof KINDS / sizeof *KINDS; k++)
        for (int way = 0; way < KINDS[k].ways; way++)
            for (uint64_t i = 0; i < count; i++) {
                drawing d = { .c.n_in = 0 };
                KINDS[k].draw(&d, way);
                d.c.attrs = &d.attrs;
                describe(&d);
                const case_extreme extreme = i % 2 ? d.c.extreme : EXTREME_NONE;
                if (extreme == EXTREME_WIDE)
                    d.c.ulps = 64; /* few results, which may be small beside their terms */
                runs += kernel_check(device, &d.c, d.c.f32_only ? LS_F32 : TYPES[i % 3], extreme);
            }
    print_message("%s: %d runs\n", device->arch->name, runs);
    assert_int_equal(kernel_failures, 0);
}

static void on_cpu(void **state)
{
    const ls_isa isa = *(const ls_isa *)*state;
    ls_device cpu;
    if (isa > ls_isa_best() || !ls_cpu_tables(isa)) {
        print_message("%s: %s\n", ls_isa_name(isa),
                      isa > ls_isa_best() ? "this machine does not have it" : "not built");
        skip();
    }
    ASSERT_OK(ls_device_open(&cpu, "cpu",
                             &(ls_device_opts){ LS_DEVICE_DEFAULTS, .isa = ls_isa_name(isa), .threads = 1 }));
    random_shapes(&cpu);
}

/* LOCKSTEP_DEVICE=cuda */
static void on_another_device(void **state)
{
    ls_device d;
    (void)state;
    ASSERT_OK(ls_device_open(&d, NULL, &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    random_shapes(&d);
}

int main(int argc, char **argv)
{
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : seed;
    count = argc > 2 ? strtoull(argv[2], NULL, 10) : count;
    static ls_isa levels[] = { LS_ISA_GENERIC, LS_ISA_AVX2, LS_ISA_AVX512, LS_ISA_AVX512BF16, LS_ISA_AMX };
    const struct CMUnitTest tests[] = {
        { "generic", on_cpu, NULL, NULL, &levels[0] }, { "avx2", on_cpu, NULL, NULL, &levels[1] },
        { "avx512", on_cpu, NULL, NULL, &levels[2] },  { "avx512bf16", on_cpu, NULL, NULL, &levels[3] },
        { "amx", on_cpu, NULL, NULL, &levels[4] },
    };
    const struct CMUnitTest another[] = { cmocka_unit_test(on_another_device) };
    const char *device = getenv("LOCKSTEP_DEVICE");
    if (device && strcmp(device, "cpu"))
        return cmocka_run_group_tests(another, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
