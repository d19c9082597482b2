/* test_mixing.c - which models may be padded: those of which no loss depends on other samples of the
 * micro-batch. */
#include <stdio.h>

#include "graph/graph.h"
#include "lockstep/models.h"
#include "lockstep/nn.h"
#include "passes/objective.h"
#include "support/small_vit.h"
#include "support/support.h"

enum { B = 6, T = 4, H = 8 };

static ls_graph *graph;
static ls_value tokens, image, ids; /* x [B, T, H], image [B, 3, 4, 4], ids [B, T] */
static ls_value start(void)
{
    ASSERT_OK(ls_graph_create(&graph, "test"));
    tokens = ls_input(graph, "x", LS_TYPE(LS_F32, B, T, H));
    image = ls_input(graph, "image", LS_TYPE(LS_F32, B, 3, 4, 4));
    ids = ls_input(graph, "ids", LS_TYPE(LS_I32, B, T));
    return ls_mean(graph, tokens, 1, false); /* [B, H] */
}

static ls_status end(ls_value rows, int64_t batch)
{
    ls_loss(graph, "loss", rows, 1, LS_BY_SAMPLE, NULL);
    ASSERT_OK(ls_graph_status(graph));
    return ls_objective_check_padding(graph, batch);
}
#define PASSES(rows)                \
    do {                            \
        const ls_value x = start(); \
        (void)x;                    \
        ls_graph *g = graph;        \
        ASSERT_OK(end((rows), B));  \
        ls_graph_destroy(&graph);   \
        (void)g;                    \
    } while (0)
#define REFUSED(rows, what)                                                                        \
    do {                                                                                           \
        const ls_value x = start();                                                                \
        (void)x;                                                                                   \
        ls_graph *g = graph;                                                                       \
        ASSERT_FAILS(end((rows), B), LS_E_USAGE, "padding: ", "test_mixing.c:", what, "\"loss\""); \
        ls_graph_destroy(&graph);                                                                  \
        (void)g;                                                                                   \
    } while (0)

static ls_value param(ls_graph *g, const char *name, int64_t n, int64_t k)
{
    return ls_param(g, name, LS_TYPE(LS_F32, n, k), (ls_init){ .kind = LS_INIT_ZERO });
}

static ls_value each(ls_graph *g, ls_value x) { return ls_sum(g, x, 1, false); }

/* [B, T, H] -> [B * T, H] -> [T, B, H] and back. */
static ls_value there_and_back(ls_graph *g)
{
    ls_value y = ls_reshape(g, ls_linear(g, "fc", ls_reshape(g, tokens, B * T, H), H), B, T, H);
    y = ls_layer_norm(g, "norm", ls_permute(g, y, 1, 0, 2), 1e-6);
    y = ls_reshape(g, ls_permute(g, y, 1, 0, 2), B, T, 2, H / 2);
    return ls_reshape(g, ls_softmax(g, y), B, T * H);
}

static ls_value picture(ls_graph *g)
{
    ls_value y = ls_relu(g, ls_conv2d(g, "conv", image, 4, 3, .padding = 1));
    y = ls_max_pool2d(g, y, &(ls_pool_opts){ .kernel = { 2, 2 }, .stride = { 2, 2 } });
    return ls_reshape(g, ls_adaptive_avg_pool2d(g, y, 1, 1), B, 4);
}

static ls_value text(ls_graph *g)
{
    ls_value y = ls_embedding_op(g, ids, param(g, "table", 11, H));
    y = ls_self_attention(g, "attention", y, 2, 0);
    return ls_cross_entropy(g, ls_reshape(g, ls_linear(g, "head", y, 11), B * T, 11),
                            ls_reshape(g, ids, B * T));
}

static void samples_by_themselves(void **state)
{
    (void)state;
    PASSES(each(g, x));
    PASSES(each(g, there_and_back(g)));
    PASSES(each(g, picture(g)));
    PASSES(text(g));
    PASSES(ls_variance(g, ls_add(g, x, ls_mean(g, param(g, "p", 5, H), 0, false)), 1, false, 0));
    PASSES(ls_amax(g, ls_slice(g, tokens, 1, 1, 2), 2, false));
    PASSES(each(g, ls_concat(g, 1, 2, (ls_value[]){ x, ls_tanh(g, x) })));
    PASSES(each(g, ls_mul(g, x, param(g, "each_place", B, H)))); /* other rows, but of no sample */
    PASSES(ls_reshape(g, ls_mean(g, tokens, 2, false), B * T));
}

static void samples_together(void **state)
{
    (void)state;
    REFUSED(each(g, ls_sub(g, x, ls_mean(g, x, 0, true))), "sum_to");
    REFUSED(each(g, ls_sub(g, x, ls_amax(g, x, 0, true))), "max_to");
    REFUSED(each(g, ls_permute(g, ls_softmax(g, ls_permute(g, x, 1, 0)), 1, 0)), "softmax");
    REFUSED(each(g, ls_matmul_wt(g, x, x, LS_NONE)), "linear"); /* each sample with each */
    REFUSED(each(g, ls_matmul_wt(g, ls_permute(g, x, 1, 0), param(g, "w", B, B), LS_NONE)), "linear");
    REFUSED(each(g, ls_matmul_wt(g, x, ls_matmul_wt(g, param(g, "w", 3, B), ls_permute(g, x, 1, 0), LS_NONE),
                                 LS_NONE)),
            "linear"); /* [3, H]: sums over samples as weights */
    REFUSED(each(g, ls_self_attention(g, "attention", ls_permute(g, tokens, 1, 0, 2), 2, 0)), "attention");
    REFUSED(ls_reshape(g, ls_reshape(g, ls_sum(g, ls_reshape(g, x, B / 2, 2, H), 1, false), B / 2 * H),
                       B * H / 2),
            "reshape"); /* pairs */
    /* [3, B, 8] -> [4, 2 B, 3]: as many rows for each sample, but they begin elsewhere */
    REFUSED(each(g, ls_reshape(g,
                               ls_permute(g,
                                          ls_reshape(g, ls_permute(g, ls_slice(g, tokens, 1, 0, 3), 1, 0, 2),
                                                     4, 2 * B, 3),
                                          1, 0, 2),
                               2 * B, 12)),
            "reshape");
    REFUSED(each(g, ls_concat(g, 0, 2, (ls_value[]){ x, x })), "pack");
    REFUSED(each(g, ls_slice(g, ls_reshape(g, tokens, B * T, H), 0, T, B)), "slice");
    REFUSED(each(g, ls_reshape(g, ls_batch_norm(g, "bn", image), B, -1)), "batch_norm in bn");
    REFUSED(ls_mean(g, tokens, 2, false).id > 0 ? ls_permute(g, ls_mean(g, tokens, 2, false), 1, 0) : x,
            "not in the order of the samples");
    REFUSED(ls_reshape(g, ls_permute(g, ls_mean(g, tokens, 2, false), 1, 0), B * T),
            "not in the order of the samples"); /* row i is of sample i % B */
    REFUSED(ls_permute(g, ls_slice(g, x, 1, 0, B), 1, 0), "not in the order of the samples"); /* [B, B] */
}

/* A micro-batch of one sample has no other one; statistics over ranks would still have its padding. */
static void one_sample(void **state)
{
    (void)state;
    ASSERT_OK(ls_graph_create(&graph, "one"));
    ls_value x = ls_input(graph, "x", LS_TYPE(LS_F32, 1, H));
    ls_loss(graph, "loss", ls_sub(graph, x, ls_mean(graph, x, 0, true)), 1, LS_BY_SAMPLE, NULL);
    ASSERT_OK(ls_objective_check_padding(graph, 1));
    ls_graph_destroy(&graph);
    ASSERT_OK(ls_graph_create(&graph, "one"));
    x = ls_input(graph, "x", LS_TYPE(LS_F32, 1, 3, 4, 4));
    ls_loss(graph, "loss", ls_reshape(graph, ls_batch_norm(graph, "bn", x), 1, -1), 1, LS_BY_SAMPLE, NULL);
    ASSERT_FAILS(ls_objective_check_padding(graph, 1), LS_E_USAGE, "batch_norm in bn");
    ls_graph_destroy(&graph);
}

/* Metrics count padding too; what no loss needs does not matter. */
static void only_what_counts(void **state)
{
    (void)state;
    ls_value x = start();
    ls_output(graph, "mean", ls_mean(graph, x, 0, false));
    ASSERT_OK(end(each(graph, x), B));
    ls_measure(graph, "spread", each(graph, ls_sub(graph, x, ls_mean(graph, x, 0, true))), LS_MEAN,
               LS_BY_SAMPLE, NULL);
    ASSERT_FAILS(ls_objective_check_padding(graph, B), LS_E_USAGE, "the metric \"spread\"");
    ls_graph_destroy(&graph);
    x = start(); /* targets are compared row by row with what is measured */
    ASSERT_OK(end(each(graph, x), B));
    ls_measure_against(graph, "fit", LS_F1, ls_reshape(graph, tokens, B * T, H),
                       ls_reshape(graph, ls_permute(graph, ids, 1, 0), B * T), LS_BY_SAMPLE, NULL);
    ASSERT_FAILS(ls_objective_check_padding(graph, B), LS_E_USAGE, "the metric \"fit\"", "not in the order");
    ls_graph_destroy(&graph);
}

static void models_of_the_library(void **state)
{
    (void)state;
    const ls_vit_config vit = { SMALL_VIT, .layers = 2 };
    const ls_decoder_config decoder = { .seq_length = 8,
                                        .vocab_size = 32,
                                        .hidden_size = 16,
                                        .mlp_size = 16,
                                        .layers = 2,
                                        .heads = 2,
                                        .kv_heads = 1,
                                        .head_dim = 8,
                                        .norm_eps = 1e-6,
                                        .rope_theta = 1e4,
                                        .init_deviation = 0.02,
                                        .tied = true,
                                        .block = "LlamaDecoderLayer" };
    ASSERT_OK(ls_graph_create(&graph, "vit"));
    ASSERT_OK(ls_vit_build(graph, &vit, 4));
    ASSERT_OK(ls_objective_check_padding(graph, 4));
    ls_graph_destroy(&graph);
    ASSERT_OK(ls_graph_create(&graph, "decoder"));
    ASSERT_OK(ls_decoder_build(graph, &decoder, 4));
    ASSERT_OK(ls_objective_check_padding(graph, 4));
    ls_graph_destroy(&graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(samples_by_themselves),
                                        cmocka_unit_test(samples_together), cmocka_unit_test(one_sample),
                                        cmocka_unit_test(only_what_counts),
                                        cmocka_unit_test(models_of_the_library) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
