/* test_place_equal.c - the walk by rules gives the text of the pass that knew layers, wherever that pass accepts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/models.h"
#include "ops/rules.h"
#include "passes/evaluate.h"
#include "support/support.h"

static const ls_vit_config VIT = { .image_size = 8, .patch_size = 4, .in_channels = 1, .layers = 3, .heads = 4, .hidden_size = 32, .mlp_size = 48, .classes = 8, .mean = 0.5, .std = 0.5 };
static const ls_decoder_config QWEN = { .seq_length = 8, .vocab_size = 24, .hidden_size = 24, .mlp_size = 40, .layers = 2, .heads = 8, .kv_heads = 4, .head_dim = 6,
                                        .norm_eps = 1e-6, .rope_theta = 1e4, .init_deviation = 0.1, .tied = true, .qkv_bias = true, .output_bias = true, .mlp_bias = true, .block = "Block" };
static const ls_t5_config T5 = { .source_length = 8, .target_length = 4, .vocab_size = 24, .hidden_size = 16, .mlp_size = 24, .layers = 2, .decoder_layers = 2, .heads = 4, .head_dim = 4,
                                 .buckets = 8, .max_distance = 16, .init_factor = 1, .norm_eps = 1e-6, .pad_token = 0, .start_token = 0, .tied = true };
static const ls_mlp_config MLP = { .image_size = 6, .in_channels = 1, .classes = 8, .n_hidden = 2, .hidden = { 24, 16 }, .act = LS_MLP_ACT_GELU, .mean = 0.5, .std = 0.5 };
static const ls_resnet_config RESNET = { .depth = 18, .image_size = 8, .in_channels = 1, .classes = 8, .mean = 0.5, .std = 0.5 };

enum { MODELS = 14 };
static ls_graph *model(int m, bool evaluation)
{
    ls_graph *g;
    ls_decoder_config q = QWEN;
    ls_t5_config t = T5;
    ls_vit_config v = VIT;
    ASSERT_OK(ls_graph_create(&g, "m"));
    if (evaluation)
        ls_graph_evaluate(g);
    switch (m) {
    case 0: break;
    case 1: q.tied = false; break;
    case 2: q.qkv_bias = q.mlp_bias = q.output_bias = false; break;
    case 3: q.attention_dropout = 0.25; break;
    case 4: q.vocab_size = 23; break;
    case 5: q.tied = false; q.vocab_size = 25; break;
    case 6: t.dropout = 0; break;
    case 7: t.dropout = 0.1; break;
    case 8: t.tied = false; t.gated = true; break;
    case 9: t.tied = false; t.vocab_size = 23; t.dropout = 0.1; t.gated = true; break;
    case 10: break;
    case 11: v.dropout = 0.1; break;
    }
    if (m < 6)
        ASSERT_OK(ls_decoder_build(g, &q, 2));
    else if (m < 10)
        ASSERT_OK(ls_t5_build(g, &t, 2));
    else if (m < 12)
        ASSERT_OK(ls_vit_build(g, &v, 4));
    else if (m == 12)
        ASSERT_OK(ls_mlp_build(g, &MLP, 4));
    else
        ASSERT_OK(ls_resnet_build(g, &RESNET, 4));
    if (!evaluation)
        g->n_outputs = 1;
    else
        ls_output(g, "predicted", ls_argmax(g, g->outputs[2].value)), g->outputs[2] = g->outputs[3], g->n_outputs = 3;
    ASSERT_OK(ls_pass_slices_up(&g));
    ASSERT_OK(ls_pass_dce(&g));
    ASSERT_OK(ls_pass_narrow(&g));
    return g;
}

static const char *const PLANS[] = {
    "auto", "colwise:q_proj colwise:k_proj colwise:v_proj rowwise:o_proj", "colwise:gate_proj colwise:up_proj rowwise:down_proj", "rowwise:embed_tokens", "rowwise:embed_tokens colwise:lm_head",
    "colwise:lm_head", "colwise:q_proj", "colwise:q_proj colwise:k_proj colwise:v_proj", "rowwise:down_proj", "colwise:down_proj", "colwise:embed_tokens",
    "rowwise:embed_tokens colwise:gate_proj colwise:up_proj rowwise:down_proj", "colwise:mlp.0 rowwise:mlp.3", "rowwise:shared", "rowwise:shared colwise:q colwise:k colwise:v rowwise:o",
    "colwise:wi rowwise:wo", "colwise:wi_0 colwise:wi_1 rowwise:wo", "colwise:fc", "colwise:heads.head", "colwise:self_attention", "colwise:layers.1 rowwise:layers.3", "colwise:conv1",
    "colwise:q colwise:k colwise:v rowwise:o", "colwise:model.layers.0.mlp.gate_proj colwise:model.layers.0.mlp.up_proj rowwise:model.layers.0.mlp.down_proj", "colwise:1 rowwise:4", "colwise:head",
};

static void the_same_text(void **state)
{
    (void)state;
    int same = 0, more = 0, both_refuse = 0;
    for (int m = 0; m < MODELS; m++)
        for (int evaluation = 0; evaluation < 2; evaluation++)
            for (size_t plan = 0; plan < sizeof PLANS / sizeof *PLANS; plan++)
                for (int tp = 1; tp < 5; tp++)
                    for (int sequence = 0; sequence < 2; sequence++)
                        for (int rank = 0; rank < 2 * tp; rank += tp > 2 ? tp - 1 : 1) {
                            ls_parallel p = { LS_PARALLEL_DEFAULTS, .rank = rank, .tensor = PLANS[plan], .sequence = sequence };
                            p.mesh = (ls_mesh){ .n = 2, .axes = { { "dp", 2 }, { "tp", tp } } };
                            ls_graph *a = model(m, evaluation), *b = copy_graph(a);
                            ls_status x = ls_pass_tensor(&a, &p);
                            char why[800] = "";
                            if (x != LS_OK)
                                snprintf(why, sizeof why, "%s", ls_error_message());
                            ls_status y = ls_pass_place(&b, &p);
                            if (x == LS_OK && y != LS_OK)
                                fail_msg("model %d eval %d plan %s tp %d seq %d rank %d: %s", m, evaluation, PLANS[plan], tp, sequence, rank, ls_error_message());
                            if (x != LS_OK && y == LS_OK && rank == 0 && !more++)
                                print_message("more from here\n");
                            if (x != LS_OK && y == LS_OK && rank == 0 && getenv("MORE"))
                                print_message("more: model %d eval %d plan %s tp %d seq %d: %s\n", m, evaluation, PLANS[plan], tp, sequence, why);
                            if (x != LS_OK && y != LS_OK && rank == 0 && getenv("REFUSALS") && strcmp(why, ls_error_message()))
                                print_message("%s\n   %s\n", why, ls_error_message());
                            both_refuse += x != LS_OK && y != LS_OK;
                            if (x == LS_OK) {
                                char *s = ls_graph_print(a, true), *t = ls_graph_print(b, true);
                                if (strcmp(s, t)) {
                                    FILE *f = fopen("/tmp/old.txt", "w"); fputs(s, f); fclose(f);
                                    f = fopen("/tmp/new.txt", "w"); fputs(t, f); fclose(f);
                                    fail_msg("model %d eval %d plan %s tp %d seq %d rank %d: text differs", m, evaluation, PLANS[plan], tp, sequence, rank);
                                }
                                free(s);
                                free(t);
                                same++;
                            }
                            ls_graph_destroy(&a);
                            ls_graph_destroy(&b);
                        }
    print_message("%d graphs of the same text, %d more accepted, %d refused by both\n", same, more, both_refuse);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_same_text) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
