/* test_models.c - torchvision's names and shapes, initial values (their distribution, and the same with any
 * number of threads), and configurations that are refused. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "lockstep/models.h"
#include "lockstep/nn.h"
#include "nn/init.h"
#include "ops/rules.h"
#include "support/small_vit.h"
#include "support/support.h"

static const ls_vit_config TUTORIAL = { TUTORIAL_VIT };

static ls_graph *vit(const ls_vit_config *c)
{
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "vit"));
    ASSERT_OK(ls_vit_build(g, c, 2));
    return g;
}

static const ls_source_attrs *parameter(const ls_graph *g, int i)
{
    for (int k = 0; k < g->n_nodes; k++)
        if (g->nodes[k]->op == &ls_op_param && i-- == 0)
            return g->nodes[k]->attrs;
    return NULL;
}

static const ls_source_attrs *named(const ls_graph *g, const char *name)
{
    const ls_source_attrs *a;
    for (int i = 0; (a = parameter(g, i)); i++)
        if (!strcmp(a->name, name))
            return a;
    fail_msg("no parameter %s", name);
    return NULL;
}

/* Statistics of two channels, of all, and of each: one mean for each group of a sample. */
static void norms_have_their_groups(void **state)
{
    (void)state;
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "norms"));
    const ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 2, 6, 5));
    const int first = g->n_nodes;
    ls_group_norm(g, "three", x, 3, 1e-5);
    ls_group_norm(g, "one", x, 1, 1e-5);
    ls_instance_norm(g, "six", x, true, 1e-5);
    ASSERT_OK(ls_graph_status(g));
    static const int64_t GROUPS[] = { 3, 1, 6 };
    int n = 0;
    for (int i = first; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_group_norm)
            assert_int_equal(ls_type_of(g, g->nodes[i]->out[1])->dims[1], GROUPS[n++]);
    assert_int_equal(n, 3);
    ls_graph_destroy(&g);
}

/* As torch.nn.Embedding(7, 3): rows of a table "weight", drawn from normal(0, 1). */
static void embedding_is_pytorchs(void **state)
{
    (void)state;
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "embedding"));
    const ls_value y = ls_embedding(g, "kind", ls_input(g, "ids", LS_TYPE(LS_I32, 2, 5)), 7, 3);
    ASSERT_OK(ls_graph_status(g));
    const ls_type t = ls_value_type(g, y);
    assert_true(t.ndim == 3 && t.dims[0] == 2 && t.dims[1] == 5 && t.dims[2] == 3 && t.dtype == LS_F32);
    const ls_source_attrs *a = named(g, "kind.weight");
    assert_true(a->type.ndim == 2 && a->type.dims[0] == 7 && a->type.dims[1] == 3);
    assert_true((ls_init_kind)a->init == LS_INIT_NORMAL && a->init_a == 0 && a->init_b == 1);
    ls_graph_destroy(&g);
}

/* What T5's head takes is scaled if it is the embedding's table, unless the configuration says otherwise. */
static void t5_scales_its_output(void **state)
{
    (void)state;
    int products[2][3]; /* [tied][scale_output + 1] */
    for (int k = 0; k < 6; k++) {
        const ls_t5_config c = { .source_length = 4,
                                 .target_length = 3,
                                 .vocab_size = 11,
                                 .hidden_size = 8,
                                 .mlp_size = 8,
                                 .layers = 1,
                                 .decoder_layers = 1,
                                 .heads = 2,
                                 .head_dim = 4,
                                 .buckets = 8,
                                 .max_distance = 16,
                                 .norm_eps = 1e-6,
                                 .init_factor = 1,
                                 .tied = k / 3,
                                 .scale_output = k % 3 - 1 };
        ls_graph *g;
        ASSERT_OK(ls_graph_create(&g, "t5"));
        ASSERT_OK(ls_t5_build(g, &c, 2));
        products[k / 3][k % 3] = 0;
        for (int i = 0; i < g->n_nodes; i++)
            products[k / 3][k % 3] += g->nodes[i]->op == &ls_op_mul_const;
        ls_graph_destroy(&g);
    }
    for (int tied = 0; tied < 2; tied++) {
        assert_int_equal(products[tied][2], products[tied][0] + 1);
        assert_int_equal(products[tied][1], products[tied][tied ? 2 : 0]);
    }
}

/* torchvision.models.VisionTransformer(...).state_dict(), in its words, H hidden, M mlp. */
static void torchvision_names(void **state)
{
    (void)state;
    static const char expected[] = "class_token [1 1 H]\n"
                                   "conv_proj.weight [H 1 7 7]\n"
                                   "conv_proj.bias [H]\n"
                                   "encoder.pos_embedding [1 17 H]\n"
                                   "encoder.layers.encoder_layer_0.ln_1.weight [H]\n"
                                   "encoder.layers.encoder_layer_0.ln_1.bias [H]\n"
                                   "encoder.layers.encoder_layer_0.self_attention.in_proj_weight [3H H]\n"
                                   "encoder.layers.encoder_layer_0.self_attention.in_proj_bias [3H]\n"
                                   "encoder.layers.encoder_layer_0.self_attention.out_proj.weight [H H]\n"
                                   "encoder.layers.encoder_layer_0.self_attention.out_proj.bias [H]\n"
                                   "encoder.layers.encoder_layer_0.ln_2.weight [H]\n"
                                   "encoder.layers.encoder_layer_0.ln_2.bias [H]\n"
                                   "encoder.layers.encoder_layer_0.mlp.0.weight [M H]\n"
                                   "encoder.layers.encoder_layer_0.mlp.0.bias [M]\n"
                                   "encoder.layers.encoder_layer_0.mlp.3.weight [H M]\n"
                                   "encoder.layers.encoder_layer_0.mlp.3.bias [H]\n"
                                   "encoder.ln.weight [H]\n"
                                   "encoder.ln.bias [H]\n"
                                   "heads.head.weight [10 H]\n"
                                   "heads.head.bias [10]\n";
    ls_vit_config c = TUTORIAL;
    c.layers = 1;
    c.mlp_size = 200;
    ls_graph *g = vit(&c);
    char text[4096] = "";
    const ls_source_attrs *a;
    for (int i = 0; (a = parameter(g, i)); i++) {
        size_t n = strlen(text);
        n += (size_t)sprintf(text + n, "%s [", a->name);
        for (int d = 0; d < a->type.ndim; d++) {
            char number[32];
            snprintf(number, sizeof number, "%d", (int)a->type.dims[d]);
            n += (size_t)sprintf(text + n, "%s%s", d ? " " : "",
                                 a->type.dims[d] == 128   ? "H"
                                 : a->type.dims[d] == 384 ? "3H"
                                 : a->type.dims[d] == 200 ? "M"
                                                          : number);
        }
        sprintf(text + n, "]\n");
    }
    assert_string_equal(text, expected);
    ls_graph_destroy(&g);
}

static void parameter_counts(void **state)
{
    (void)state;
    ls_graph *g = vit(&TUTORIAL);
    const ls_source_attrs *a;
    int64_t total = 0;
    int n = 0;
    for (; (a = parameter(g, n)); n++)
        total += ls_type_count(&a->type);
    assert_int_equal(total, 1006090); /* PyTorch's for the same model */
    assert_int_equal(n, 128);
    ls_graph_destroy(&g);

    ASSERT_OK(ls_graph_create(&g, "mlp"));
    const ls_mlp_config mlp = {
        .image_size = 28, .in_channels = 1, .classes = 10, .n_hidden = 2, .hidden = { 300, 100 }, .std = 1
    };
    ASSERT_OK(ls_mlp_build(g, &mlp, 2));
    for (n = 0, total = 0; (a = parameter(g, n)); n++)
        total += ls_type_count(&a->type);
    assert_int_equal(total, 785 * 300 + 301 * 100 + 101 * 10);
    assert_string_equal(parameter(g, 0)->name, "layers.0.weight");
    assert_string_equal(parameter(g, 5)->name, "head.bias");
    ls_graph_destroy(&g);
}

typedef struct statistics {
    double mean, deviation, least, most;
} statistics;

static statistics draw(const ls_source_attrs *a)
{
    const int64_t n = ls_type_count(&a->type);
    float *x = malloc(sizeof *x * (size_t)n);
    ls_init_values(x, LS_F32, 0, n, (ls_init){ (ls_init_kind)a->init, a->init_a, a->init_b }, 7, a->name, 2);
    statistics s = { .least = INFINITY, .most = -INFINITY };
    for (int64_t i = 0; i < n; i++) {
        s.mean += (double)x[i] / (double)n;
        s.least = fmin(s.least, (double)x[i]);
        s.most = fmax(s.most, (double)x[i]);
    }
    for (int64_t i = 0; i < n; i++)
        s.deviation += ((double)x[i] - s.mean) * ((double)x[i] - s.mean) / (double)n;
    s.deviation = sqrt(s.deviation);
    free(x);
    return s;
}

static void near(double x, double want, double relative)
{
    if (!(fabs(x - want) <= relative * fabs(want)))
        fail_msg("%g is not %g within %g", x, want, relative);
}

/* Uniform in +-bound: the ends are reached and not passed, the deviation is bound/sqrt(3). */
static void expect_uniform(const ls_graph *g, const char *name, double bound)
{
    statistics s = draw(named(g, name));
    assert_true(s.least >= -bound && s.most <= bound);
    near(s.least, -bound, 0.01);
    near(s.most, bound, 0.01);
    near(s.deviation, bound / sqrt(3), 0.03);
    assert_true(fabs(s.mean) < 0.05 * bound);
}

static void initial_values(void **state)
{
    (void)state;
    ls_graph *g = vit(&TUTORIAL);
    static const char layer[] = "encoder.layers.encoder_layer_4.";
    char name[96];
#define LAYER(part) (snprintf(name, sizeof name, "%s%s", layer, part), name)
    expect_uniform(g, LAYER("self_attention.in_proj_weight"), sqrt(6.0 / (128 + 384)));
    expect_uniform(g, LAYER("self_attention.out_proj.weight"), 1 / sqrt(128));
    expect_uniform(g, LAYER("mlp.0.weight"), sqrt(6.0 / 256));
    expect_uniform(g, LAYER("mlp.3.weight"), sqrt(6.0 / 256));
    expect_uniform(g, "conv_proj.weight", 1 / sqrt(49));
    statistics s = draw(named(g, "encoder.pos_embedding"));
    near(s.deviation, 0.02, 0.05);
    assert_true(s.most > 0.05 && s.most < 0.1);
    near(draw(named(g, LAYER("mlp.0.bias"))).deviation, 1e-6, 0.2);
    static const char *const zeros[] = { "class_token", "heads.head.weight", "heads.head.bias",
                                         "encoder.ln.bias" };
    for (int i = 0; i < 4; i++) {
        s = draw(named(g, zeros[i]));
        assert_true(s.least == 0 && s.most == 0);
    }
    for (int i = 0; i < 2; i++) {
        s = draw(named(g, i ? LAYER("self_attention.out_proj.bias") : LAYER("self_attention.in_proj_bias")));
        assert_true(s.least == 0 && s.most == 0);
    }
    s = draw(named(g, LAYER("ln_1.weight")));
    assert_true(s.least == 1 && s.most == 1);
    ls_graph_destroy(&g);

    ls_vit_config colour = TUTORIAL; /* torchvision's own projection: truncated normal */
    colour.in_channels = 3;
    g = vit(&colour);
    near(draw(named(g, "conv_proj.weight")).deviation, sqrt(1.0 / (3 * 49)), 0.03);
    s = draw(named(g, "conv_proj.bias"));
    assert_true(s.least == 0 && s.most == 0);
    ls_graph_destroy(&g);
}

/* An element's value depends on (seed, name, element), not on threads, nor on where a part begins. */
static void drawn_anywhere(void **state)
{
    (void)state;
    enum { N = 20001 };
    static float whole[N], again[N];
    static const ls_init kinds[] = { { LS_INIT_UNIFORM, -1, 1 },
                                     { LS_INIT_NORMAL, 0, 1 },
                                     { LS_INIT_TRUNC_NORMAL, 1, 0.5 } };
    for (int k = 0; k < 3; k++) {
        ls_init_values(whole, LS_F32, 0, N, kinds[k], 3, "w", 1);
        for (int threads = 2; threads <= 5; threads++) {
            ls_init_values(again, LS_F32, 0, N, kinds[k], 3, "w", threads);
            assert_memory_equal(whole, again, sizeof whole);
        }
        ls_init_values(again, LS_F32, 777, 100, kinds[k], 3, "w", 1);
        assert_memory_equal(whole + 777, again, 100 * sizeof *whole);
        ls_init_values(again, LS_F32, 0, N, kinds[k], 4, "w", 1);
        assert_memory_not_equal(whole, again, 64);
        ls_init_values(again, LS_F32, 0, N, kinds[k], 3, "v", 1);
        assert_memory_not_equal(whole, again, 64);
        if (k == 2)
            for (int i = 0; i < N; i++)
                assert_true(fabsf(whole[i]) <= 0.5f);
    }
}

/* bf16 starts from the f32 numbers, to the nearest and of two equally near ones to the even; f64 from the
 * same numbers. */
static void drawn_in_other_types(void **state)
{
    (void)state;
    enum { N = 200000 };
    static float x[N];
    static double d[N];
    static uint16_t h[N];
    const ls_init init = { LS_INIT_UNIFORM, -1, 1 };
    int ties[2] = { 0 };
    ls_init_values(x, LS_F32, 0, N, init, 3, "w", 1);
    ls_init_values(d, LS_F64, 0, N, init, 3, "w", 1);
    ls_init_values(h, LS_BF16, 0, N, init, 3, "w", 1);
    for (int i = 0; i < N; i++) {
        uint32_t bits, below, above;
        float low, high;
        assert_true(d[i] == (double)x[i]);
        memcpy(&bits, &x[i], sizeof bits);
        below = bits & 0xffff0000u;
        above = below + 0x10000u; /* the neighbour away from 0 */
        memcpy(&low, &below, sizeof low);
        memcpy(&high, &above, sizeof high);
        const float to_low = fabsf(x[i] - low), to_high = fabsf(high - x[i]);
        const uint32_t want = to_low < to_high   ? below
                              : to_low > to_high ? above
                              : below >> 16 & 1  ? above
                                                 : below;
        ties[below >> 16 & 1] += to_low == to_high;
        assert_int_equal(h[i], want >> 16);
    }
    assert_true(ties[0] > 0 && ties[1] > 0);
}

static void impossible_models(void **state)
{
    (void)state;
    static const struct {
        int64_t image, patch, heads, hidden, layers, classes;
        const char *a, *b;
    } cases[] = {
        { 28, 5, 2, 128, 2, 10, "28", "5" },        { 28, 7, 3, 128, 2, 10, "128", "3" },
        { 28, 0, 2, 128, 2, 10, "28", "0" },        { 28, 7, 0, 128, 2, 10, "128", "0" },
        { 28, 7, 2, 128, 2, 0, "heads.head", "0" }, { 28, 7, 2, 0, 2, 10, "hidden_size", "0" },
        { 0, 7, 2, 128, 2, 10, "image_size", "0" }, { 28, 7, 2, -128, 2, 10, "hidden_size", "-128" },
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ls_vit_config c = TUTORIAL;
        c.image_size = cases[k].image, c.patch_size = cases[k].patch, c.heads = cases[k].heads;
        c.hidden_size = cases[k].hidden, c.layers = cases[k].layers, c.classes = cases[k].classes;
        ls_graph *g;
        ASSERT_OK(ls_graph_create(&g, "vit"));
        ASSERT_FAILS(ls_vit_build(g, &c, 2), LS_E_SHAPE, cases[k].a, cases[k].b);
        ls_graph_destroy(&g);
    }
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "mlp"));
    ASSERT_FAILS(
        ls_mlp_build(
            g,
            &(ls_mlp_config){
                .image_size = 4, .in_channels = 1, .classes = 3, .n_hidden = 1, .hidden = { 0 }, .std = 1 },
            2),
        LS_E_SHAPE, "layers.0", "0");
    ls_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_have_their_groups), cmocka_unit_test(embedding_is_pytorchs),
        cmocka_unit_test(t5_scales_its_output),    cmocka_unit_test(torchvision_names),
        cmocka_unit_test(parameter_counts),        cmocka_unit_test(initial_values),
        cmocka_unit_test(drawn_anywhere),          cmocka_unit_test(drawn_in_other_types),
        cmocka_unit_test(impossible_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
