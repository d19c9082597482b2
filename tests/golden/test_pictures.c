/* test_pictures.c - ops on pictures beside those of resnet, one by one, against PyTorch: results and
 * gradients. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device/picture_lines.h"
#include "golden/golden.h"
#include "passes/autodiff.h"
#include "support/support.h"
#include "golden/resnet_golden.h"

enum { MAX_OPERANDS = 3 };
typedef struct op_case {
    const char *name;
    ls_value (*build)(ls_graph *g, const ls_value *x); /* operands x, w, b, those that the file has */
} op_case;

static ls_value conv1d(ls_graph *g, const ls_value *x)
{
    const ls_conv_opts o = { LS_CONV_DEFAULTS, .stride = { 2 }, .padding = { 1 }, .dilation = { 2 },
                             .groups = 2 };
    return ls_conv1d_op(g, x[0], x[1], x[2], &o);
}
static ls_value conv3d(ls_graph *g, const ls_value *x)
{
    const ls_conv_opts o = { LS_CONV_DEFAULTS,     .stride = { 1, 2 }, .padding = { 0, 1 },
                             .dilation = { 2, 1 }, .groups = 2,        .depth = { 2, 1, 1, 0 } };
    return ls_conv3d_op(g, x[0], x[1], x[2], &o);
}
static ls_value conv3d_dilated(ls_graph *g, const ls_value *x)
{
    const ls_conv_opts o = { LS_CONV_DEFAULTS, .depth = { 1, 0, 3, 0 } };
    return ls_conv3d_op(g, x[0], x[1], x[2], &o);
}
static ls_value conv3d_skipping(ls_graph *g, const ls_value *x)
{
    const ls_conv_opts o = { LS_CONV_DEFAULTS, .depth = { 3, 0, 1, 0 } };
    return ls_conv3d_op(g, x[0], x[1], x[2], &o);
}
static ls_value conv_transpose1d(ls_graph *g, const ls_value *x)
{
    const ls_conv_opts o = { LS_CONV_DEFAULTS, .stride = { 3 }, .padding = { 1 }, .output_padding = { 2 } };
    return ls_conv_transpose1d_op(g, x[0], x[1], x[2], &o);
}
static ls_value conv_transpose2d(ls_graph *g, const ls_value *x)
{
    const ls_conv_opts o = { LS_CONV_DEFAULTS,     .stride = { 3, 2 }, .padding = { 1, 0 },
                             .dilation = { 1, 2 }, .groups = 2,        .output_padding = { 1, 1 } };
    return ls_conv_transpose2d_op(g, x[0], x[1], x[2], &o);
}
static ls_value conv_transpose3d(ls_graph *g, const ls_value *x)
{
    const ls_conv_opts o = { LS_CONV_DEFAULTS,          .stride = { 2, 1 },      .padding = { 1, 0 },
                             .groups = 2,               .dilation = { 1, 2 },    .output_padding = { 1, 0 },
                             .depth = { 3, 2, 2, 1 } };
    return ls_conv_transpose3d_op(g, x[0], x[1], x[2], &o);
}
static ls_value up3(ls_graph *g, const ls_value *x)
{
    const ls_conv_opts o = { LS_CONV_DEFAULTS, .stride = { 2, 2 }, .depth = { 2, 0, 1, 0 } };
    return ls_conv_transpose3d_op(g, x[0], x[1], x[2], &o);
}
static ls_value up(ls_graph *g, const ls_value *x)
{
    const ls_conv_opts o = { LS_CONV_DEFAULTS, .stride = { 2, 2 } };
    return ls_conv_transpose2d_op(g, x[0], x[1], x[2], &o);
}

static const ls_pool_opts WINDOW = { .kernel = { 3, 2 }, .stride = { 2, 1 }, .padding = { 1, 1 } };
static ls_value avg_counted(ls_graph *g, const ls_value *x) { return ls_avg_pool2d(g, x[0], &WINDOW, true); }
static ls_value avg_inside(ls_graph *g, const ls_value *x) { return ls_avg_pool2d(g, x[0], &WINDOW, false); }
static ls_value nearest(ls_graph *g, const ls_value *x)
{
    return ls_resize2d(g, x[0], 9, 4, LS_RESIZE_NEAREST);
}
static ls_value bilinear(ls_graph *g, const ls_value *x)
{
    return ls_resize2d(g, x[0], 10, 4, LS_RESIZE_BILINEAR);
}
static ls_value bilinear_up(ls_graph *g, const ls_value *x)
{
    return ls_resize2d(g, x[0], 14, 12, LS_RESIZE_BILINEAR);
}
static ls_value corners(ls_graph *g, const ls_value *x)
{
    return ls_resize2d(g, x[0], 9, 11, LS_RESIZE_BILINEAR_CORNERS);
}

static const op_case CASES[] = {
    { "conv1d", conv1d },
    { "conv3d", conv3d },
    { "conv3d_dilated", conv3d_dilated },
    { "conv3d_skipping", conv3d_skipping },
    { "conv_transpose1d", conv_transpose1d },
    { "conv_transpose2d", conv_transpose2d },
    { "up", up },
    { "conv_transpose3d", conv_transpose3d },
    { "up3", up3 },
    { "avg_counted", avg_counted },
    { "avg_inside", avg_inside },
    { "nearest", nearest },
    { "bilinear", bilinear },
    { "bilinear_up", bilinear_up },
    { "corners", corners },
};

static void check_op(const op_case *c, const char *device, int isa, ls_dtype dtype, double tolerance)
{
    static const char *const OPERANDS[] = { "x", "w", "b" };
    ls_graph *g;
    ls_value x[MAX_OPERANDS], dx[MAX_OPERANDS];
    int n = 0;
    char name[64];
    ASSERT_OK(ls_graph_create(&g, c->name));
    for (; n < MAX_OPERANDS && golden_has(resnet_values, "%s.%s", c->name, OPERANDS[n]); n++) {
        ls_type t = golden_get(resnet_values, "%s.%s", c->name, OPERANDS[n])->type;
        t.dtype = dtype;
        x[n] = ls_param(g, OPERANDS[n], t, (ls_init){ 0 });
    }
    ls_value y = c->build(g, x);
    ls_value dy = ls_input(g, "dy", ls_value_type(g, y));
    ls_output(g, "y", y);
    ls_value loss = ls_sum_to(g, ls_mul(g, y, dy), 0, NULL), seed = ls_fill(g, LS_SCALAR(dtype), 1);
    ASSERT_OK(ls_backward(g, loss, seed, n, x, dx));
    for (int k = 0; k < n; k++) {
        snprintf(name, sizeof name, "d%s", OPERANDS[k]);
        (ls_output)(g, ls_arena_strdup(&g->arena, name), dx[k]);
    }
    machine m = start_machine(g, device, isa, 2);
    for (int k = 0; k < n; k++) {
        snprintf(name, sizeof name, "%s.%s", c->name, OPERANDS[k]);
        feed_golden(&m, OPERANDS[k], name);
    }
    snprintf(name, sizeof name, "%s.dy", c->name);
    feed_golden(&m, "dy", name);
    ASSERT_OK(ls_session_run(m.session, 0, false));
    for (int k = -1; k < n; k++) {
        snprintf(name, sizeof name, k < 0 ? "y" : "d%s", k < 0 ? "" : OPERANDS[k]);
        golden_expect_value(m.what, m.session, name, golden_get(resnet_values, "%s.%s", c->name, name),
                            tolerance);
    }
    stop_machine(&m);
}

static void single_ops(void **state)
{
    (void)state;
    resnet_values = golden_open("pictures");
    for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++) {
        check_op(&CASES[k], "ref", -1, LS_F64, 1e-12);
        for (int isa = next_level(-1); isa < LS_ISA_COUNT; isa = next_level(isa))
            check_op(&CASES[k], "cpu", isa, LS_F32, 1e-5);
    }
    ls_weights_close(&resnet_values);
}

/* Nearest takes the elements that PyTorch takes, also where rounding decides. */
static void nearest_elements(void **state)
{
    (void)state;
    static const int SIZES[][2] = { { 49, 2 }, { 2, 98 }, { 7, 61 }, { 61, 7 }, { 100, 41 }, { 3, 200 } };
    ls_weights *w = golden_open("pictures");
    for (size_t k = 0; k < sizeof SIZES / sizeof *SIZES; k++) {
        const int in = SIZES[k][0], out = SIZES[k][1];
        int32_t *wanted = golden_values_as(golden_get(w, "nearest.%d.%d", in, out), LS_I32);
        for (int i = 0; i < out; i++)
            assert_int_equal(ls_resized(i, out, in, LS_RESIZE_NEAREST).first, wanted[i]);
        free(wanted);
    }
    ls_weights_close(&w);
}

/* What cannot be is refused with the numbers. */
static void refusals(void **state)
{
    (void)state;
    static const struct {
        ls_value (*op)(ls_graph *, ls_value, ls_value, ls_value, const ls_conv_opts *);
        int ndim;
        ls_conv_opts o;
        const char *says;
    } BAD[] = {
        { (ls_conv1d_op), 4, { LS_CONV_DEFAULTS }, "conv1d: needs x [N, C, L]" },
        { (ls_conv3d_op), 4, { LS_CONV_DEFAULTS }, "conv3d: needs x [N, C, D, H, W]" },
        { (ls_conv_transpose2d_op), 3, { LS_CONV_DEFAULTS }, "conv_transpose2d: needs x [N, C, H, W]" },
        { (ls_conv_transpose2d_op),
          4,
          { LS_CONV_DEFAULTS, .output_padding = { 1, 0 } },
          "output_padding 1 must be at least 0 and less than the stride 1" },
        { (ls_conv2d_op), 4, { LS_CONV_DEFAULTS, .output_padding = { 1, 0 } }, "option of transposed" },
        { (ls_conv_transpose2d_op), 4, { LS_CONV_DEFAULTS, .padding = { 4, 0 } }, "would be -3 x 5" },
        { (ls_conv3d_op), 5, { LS_CONV_DEFAULTS, .depth = { 1, 0, 5, 0 } }, "does not fit a depth of 4" },
        { (ls_conv3d_op), 5, { LS_CONV_DEFAULTS, .depth = { 0, 0, 1, 0 } }, "stride 0" },
        { (ls_conv3d_op), 5, { LS_CONV_DEFAULTS, .depth = { 2, 0, 1, 1 } }, "option of transposed" },
        { (ls_conv_transpose3d_op), 4, { LS_CONV_DEFAULTS }, "conv_transpose3d: needs x [N, C, D, H, W]" },
        { (ls_conv_transpose3d_op),
          5,
          { LS_CONV_DEFAULTS, .depth = { 2, 0, 1, 2 } },
          "output_padding 2 (less than the stride)" },
        { (ls_conv_transpose3d_op),
          5,
          { LS_CONV_DEFAULTS, .depth = { 1, 3, 1, 0 } },
          "padding 3, dilation 1" },
    };
    for (size_t k = 0; k < sizeof BAD / sizeof *BAD; k++) {
        ls_graph *g;
        ASSERT_OK(ls_graph_create(&g, "bad"));
        ls_type x = { .dtype = LS_F32, .ndim = BAD[k].ndim, .dims = { 4, 4, 4, 4, 4 } }, w = x;
        for (int d = 2; d < w.ndim; d++)
            w.dims[d] = 2;
        ls_output(g, "y", BAD[k].op(g, ls_input(g, "x", x), ls_input(g, "w", w), LS_NONE, &BAD[k].o));
        assert_int_equal(ls_graph_finish(g), LS_E_SHAPE);
        if (!strstr(ls_error_message(), BAD[k].says))
            fail_msg("case %zu says: %s", k, ls_error_message());
        ls_graph_destroy(&g);
    }
}

/* The layers' parameters have PyTorch's shapes and its deviation, 1/sqrt(fan in). */
static void layers(void **state)
{
    (void)state;
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "layers"));
    const ls_value x1 = ls_input(g, "x1", LS_TYPE(LS_F32, 2, 4, 9)),
                   x2 = ls_input(g, "x2", LS_TYPE(LS_F32, 2, 4, 9, 9)),
                   x3 = ls_input(g, "x3", LS_TYPE(LS_F32, 2, 4, 9, 9, 9));
    const ls_value y[] = { ls_conv1d(g, "conv1", x1, 6, 3, .groups = 2),
                           ls_conv_transpose1d(g, "up1", x1, 6, 3, .stride = 2, .output_padding = 1),
                           ls_conv_transpose2d(g, "up2", x2, 6, 2, .stride = 2, .groups = 2),
                           ls_conv3d(g, "conv3", x3, 6, 3, .padding = 1, .stride = 2),
                           ls_conv_transpose3d(g, "up3", x3, 6, 2, .stride = 2, .groups = 2) };
    const ls_type wanted[] = { LS_TYPE(LS_F32, 2, 6, 7), LS_TYPE(LS_F32, 2, 6, 20),
                               LS_TYPE(LS_F32, 2, 6, 18, 18), LS_TYPE(LS_F32, 2, 6, 5, 5, 5),
                               LS_TYPE(LS_F32, 2, 6, 18, 18, 18) };
    for (size_t k = 0; k < sizeof y / sizeof *y; k++) {
        const ls_type t = ls_value_type(g, y[k]);
        assert_true(ls_type_equal(&t, &wanted[k]));
        ls_output(g, ((const char *[]){ "a", "b", "c", "d", "e" })[k], y[k]);
    }
    ASSERT_OK(ls_graph_finish(g));
    static const struct {
        const char *name;
        ls_type type;
        double bound;
    } PARAMETERS[] = {
        { "conv1.weight", { LS_F32, 3, { 6, 2, 3 } }, 1 / 6.0 },
        { "up1.weight", { LS_F32, 3, { 4, 6, 3 } }, 1 / 18.0 },
        { "up2.weight", { LS_F32, 4, { 4, 3, 2, 2 } }, 1 / 12.0 },
        { "up2.bias", { LS_F32, 1, { 6 } }, 1 / 12.0 },
        { "conv3.weight", { LS_F32, 5, { 6, 4, 3, 3, 3 } }, 1 / 108.0 },
        { "up3.weight", { LS_F32, 5, { 4, 3, 2, 2, 2 } }, 1 / 24.0 },
    };
    for (size_t k = 0; k < sizeof PARAMETERS / sizeof *PARAMETERS; k++) {
        bool found = false;
        for (int i = 0; i < g->n_nodes; i++) {
            const ls_source_attrs *a = g->nodes[i]->attrs;
            if (strcmp(g->nodes[i]->op->name, "param") || strcmp(a->name, PARAMETERS[k].name))
                continue;
            found = true;
            assert_true(ls_type_equal(&a->type, &PARAMETERS[k].type));
            assert_int_equal(a->init, LS_INIT_UNIFORM);
            assert_true(fabs(a->init_b * a->init_b - PARAMETERS[k].bound) < 1e-12);
        }
        assert_true(found);
    }
    ls_graph_destroy(&g);
}

static void pool_refusals(void **state)
{
    (void)state;
    static const ls_pool_opts BAD[] = { { { 9, 1 }, { 1, 1 }, { 0, 0 } },
                                        { { 2, 2 }, { 0, 1 }, { 0, 0 } },
                                        { { 2, 2 }, { 1, 1 }, { 0, 2 } },
                                        { { 2, 0 }, { 1, 1 }, { 0, 0 } } };
    for (size_t k = 0; k < sizeof BAD / sizeof *BAD; k++) {
        ls_graph *g;
        ASSERT_OK(ls_graph_create(&g, "bad"));
        ls_output(g, "y", ls_avg_pool2d(g, ls_input(g, "x", LS_TYPE(LS_F32, 1, 1, 8, 8)), &BAD[k], true));
        ASSERT_FAILS(ls_graph_finish(g), LS_E_SHAPE, "avg_pool2d: a window of");
        ls_graph_destroy(&g);
    }
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "bad"));
    ls_output(g, "y",
              ls_resize2d(g, ls_input(g, "x", LS_TYPE(LS_F32, 1, 1, 8, 8)), 0, 4, LS_RESIZE_BILINEAR));
    ASSERT_FAILS(ls_graph_finish(g), LS_E_SHAPE, "the size 0 x 4 must be positive");
    ls_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(single_ops), cmocka_unit_test(nearest_elements), cmocka_unit_test(refusals),
        cmocka_unit_test(layers),     cmocka_unit_test(pool_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
