/* test_resnet.c - ResNets: torchvision's names, shapes, counts and initial values; training and evaluation;
 * configurations that are refused. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "lockstep/models.h"
#include "nn/init.h"
#include "ops/rules.h"
#include "support/support.h"

#define RESNET(depth_, size, channels, classes_, mean_, std_)                                      \
    {                                                                                              \
        .depth = (depth_), .image_size = (size), .in_channels = (channels), .classes = (classes_), \
        .mean = (mean_), .std = (std_)                                                             \
    }

static const ls_resnet_config TUTORIAL = {
    .depth = 18, .image_size = 28, .in_channels = 1, .classes = 10, .mean = 0.5, .std = 0.5
};

static ls_graph *build(ls_resnet_config c, bool evaluation)
{
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "resnet"));
    if (evaluation)
        ls_graph_evaluate(g);
    ASSERT_OK(ls_resnet_build(g, &c, 2));
    return g;
}

static const ls_source_attrs *named(const ls_graph *g, const ls_op *op, const char *name)
{
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_source_attrs *a = g->nodes[i]->attrs;
        if (g->nodes[i]->op == op && !strcmp(a->name, name))
            return a;
    }
    return NULL;
}

static int number(const ls_graph *g, const ls_op *op, int64_t *elements)
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == op) {
            n++;
            if (elements)
                *elements += ls_type_count(&((const ls_source_attrs *)g->nodes[i]->attrs)->type);
        }
    return n;
}

static void expect(const ls_graph *g, const ls_op *op, const char *name, ls_type want)
{
    const ls_source_attrs *a = named(g, op, name);
    if (!a)
        fail_msg("there is no %s %s", op->name, name);
    char have[128], wanted[128];
    assert_string_equal(ls_type_text(have, &a->type), ls_type_text(wanted, &want));
}

/* torchvision's state_dict and number of parameters. */
static void names_and_counts(void **state)
{
    (void)state;
    static const struct {
        ls_resnet_config c;
        int tensors;
        int64_t elements;
    } MODELS[] = {
        { RESNET(18, 28, 1, 10, 0.5, 0.5), 62, 11175370 },
        { RESNET(18, 224, 3, 1000, 0, 1), 62, 11689512 },
        { RESNET(34, 224, 3, 1000, 0, 1), 110, 21797672 },
        { RESNET(50, 224, 3, 1000, 0, 1), 161, 25557032 },
    };
    for (size_t k = 0; k < sizeof MODELS / sizeof *MODELS; k++) {
        ls_graph *g = build(MODELS[k].c, k % 2);
        int64_t elements = 0;
        assert_int_equal(number(g, &ls_op_param, &elements), MODELS[k].tensors);
        assert_int_equal(elements, MODELS[k].elements);
        ls_graph_destroy(&g);
    }
    ls_graph *g = build(TUTORIAL, false);
    assert_int_equal(number(g, &ls_op_buffer, NULL), 60);
    expect(g, &ls_op_param, "conv1.weight", LS_TYPE(LS_F32, 64, 1, 7, 7));
    expect(g, &ls_op_param, "bn1.bias", LS_TYPE(LS_F32, 64));
    expect(g, &ls_op_buffer, "bn1.running_mean", LS_TYPE(LS_F32, 64));
    expect(g, &ls_op_buffer, "bn1.num_batches_tracked", LS_SCALAR(LS_I64));
    expect(g, &ls_op_param, "layer1.1.conv2.weight", LS_TYPE(LS_F32, 64, 64, 3, 3));
    expect(g, &ls_op_param, "layer2.0.downsample.0.weight", LS_TYPE(LS_F32, 128, 64, 1, 1));
    expect(g, &ls_op_buffer, "layer2.0.downsample.1.running_var", LS_TYPE(LS_F32, 128));
    expect(g, &ls_op_param, "layer4.1.bn2.weight", LS_TYPE(LS_F32, 512));
    expect(g, &ls_op_param, "fc.weight", LS_TYPE(LS_F32, 10, 512));
    expect(g, &ls_op_param, "fc.bias", LS_TYPE(LS_F32, 10));
    assert_null(named(g, &ls_op_param, "layer1.0.downsample.0.weight"));
    ls_graph_destroy(&g);
    ls_resnet_config deep = TUTORIAL;
    deep.depth = 50;
    g = build(deep, false);
    expect(g, &ls_op_param, "layer1.0.downsample.0.weight", LS_TYPE(LS_F32, 256, 64, 1, 1));
    expect(g, &ls_op_param, "layer3.5.conv3.weight", LS_TYPE(LS_F32, 1024, 256, 1, 1));
    ls_graph_destroy(&g);
}

/* Training updates running statistics once a layer and reads "track"; evaluation only reads them. */
static void two_modes(void **state)
{
    (void)state;
    ls_graph *g = build(TUTORIAL, false);
    assert_int_equal(number(g, &ls_op_batch_norm, NULL), 20);
    assert_int_equal(number(g, &ls_op_batch_norm_update, NULL), 20);
    assert_non_null(named(g, &ls_op_input, "track"));
    ls_graph_destroy(&g);
    g = build(TUTORIAL, true);
    assert_int_equal(number(g, &ls_op_batch_norm_eval, NULL), 20);
    assert_int_equal(number(g, &ls_op_batch_norm, NULL) + number(g, &ls_op_batch_norm_update, NULL), 0);
    assert_null(named(g, &ls_op_input, "track"));
    assert_int_equal(number(g, &ls_op_buffer, NULL), 60);
    ls_graph_destroy(&g);
}

static double deviation(const ls_source_attrs *a)
{
    const int64_t n = ls_type_count(&a->type);
    float *x = malloc(sizeof *x * (size_t)n);
    ls_init_values(x, LS_F32, 0, n, (ls_init){ (ls_init_kind)a->init, a->init_a, a->init_b }, 7, a->name, 2);
    double squares = 0;
    for (int64_t i = 0; i < n; i++)
        squares += (double)x[i] * (double)x[i];
    free(x);
    return sqrt(squares / (double)n);
}

static void near(double x, double want)
{
    if (!(fabs(x - want) <= 0.03 * want))
        fail_msg("%g is not about %g", x, want);
}

static void initial_values(void **state)
{
    (void)state;
    ls_graph *g = build(TUTORIAL, false);
    near(deviation(named(g, &ls_op_param, "layer1.0.conv1.weight")), sqrt(2.0 / (64 * 9)));
    near(deviation(named(g, &ls_op_param, "layer3.0.downsample.0.weight")), sqrt(2.0 / 256));
    near(deviation(named(g, &ls_op_param, "conv1.weight")), 1 / sqrt(3 * 49)); /* a fresh Conv2d */
    near(deviation(named(g, &ls_op_param, "fc.weight")), 1 / sqrt(3 * 512));
    near(deviation(named(g, &ls_op_param, "bn1.weight")), 1);
    near(deviation(named(g, &ls_op_buffer, "bn1.running_var")), 1);
    assert_true(deviation(named(g, &ls_op_param, "bn1.bias")) == 0);
    assert_int_equal(named(g, &ls_op_buffer, "bn1.num_batches_tracked")->init, LS_INIT_ZERO);
    ls_graph_destroy(&g);
    ls_resnet_config colour = TUTORIAL;
    colour.in_channels = 3;
    g = build(colour, false);
    near(deviation(named(g, &ls_op_param, "conv1.weight")), sqrt(2.0 / (64 * 49)));
    ls_graph_destroy(&g);
}

static void impossible_models(void **state)
{
    (void)state;
    static const struct {
        ls_resnet_config c;
        int64_t batch;
        const char *a, *b;
    } CASES[] = {
        { RESNET(19, 28, 1, 10, 0.5, 0.5), 2, "19", "18, 34 or 50" },
        { RESNET(18, 28, 1, 0, 0.5, 0.5), 2, "fc", "0" },
        { RESNET(18, 0, 1, 10, 0.5, 0.5), 2, "images", "0" },
    };
    for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++) {
        ls_graph *g;
        ASSERT_OK(ls_graph_create(&g, "resnet"));
        ASSERT_FAILS(ls_resnet_build(g, &CASES[k].c, CASES[k].batch), LS_E_SHAPE, CASES[k].a, CASES[k].b);
        ls_graph_destroy(&g);
    }
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "conv"));
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 2, 3, 5, 5)),
             w = ls_input(g, "w", LS_TYPE(LS_F32, 4, 2, 3, 3));
    ls_conv2d_op(g, x, w, LS_NONE, (&(ls_conv_opts){ LS_CONV_DEFAULTS }));
    ASSERT_FAILS(ls_graph_finish(g), LS_E_SHAPE, "3 channels", "test_resnet.c");
    ls_graph_destroy(&g);
    ASSERT_OK(ls_graph_create(&g, "conv"));
    x = ls_input(g, "x", LS_TYPE(LS_F32, 2, 2, 2, 5));
    w = ls_input(g, "w", LS_TYPE(LS_F32, 4, 2, 3, 3));
    ls_conv2d_op(g, x, w, LS_NONE, (&(ls_conv_opts){ LS_CONV_DEFAULTS }));
    ASSERT_FAILS(ls_graph_finish(g), LS_E_SHAPE, "does not fit", "2 x 5");
    ls_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_counts),
        cmocka_unit_test(two_modes),
        cmocka_unit_test(initial_values),
        cmocka_unit_test(impossible_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
