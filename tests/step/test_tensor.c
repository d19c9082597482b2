/* test_tensor.c - layers split over axis tp: losses, gradient norms and checkpoints are those of one process,
 * up to the rounding of split sums. */
#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "ckpt/checkpoint.h"
#include "lockstep/models.h"
#include "passes/passes.h"
#include "support/support.h"
#include "step/trainer.h"
#include "step/split_model.h"
#include "support/mapping.h"

static void expect(const job *is, const job *want, int first, double tolerance)
{
    for (int i = first; i < STEPS; i++)
        if (!(fabs(is->losses[i] - want->losses[i]) <= tolerance * fabs(want->losses[i])) ||
            !(fabs(is->norms[i] - want->norms[i]) <= 20 * tolerance * want->norms[i]))
            fail_msg("step %d: loss %.12g, norm %.12g; of one process %.12g, %.12g", i, is->losses[i],
                     is->norms[i], want->losses[i], want->norms[i]);
}

static void as_one_process(void **state)
{
    (void)state;
    job one = layout(1, 1, 1, LS_DATA_FSDP), two = layout(1, 1, 2, LS_DATA_FSDP);
    run_job(&one);
    run_job(&two);
    assert_true(one.losses[STEPS - 1] < one.losses[0] - 0.1);
    expect(&two, &one, 0, 2e-6);
    static const struct {
        int dp, shard;
        ls_data_parallel data;
        const char *recompute;
        ls_gather_choice gather;
        ls_offload_choice offload;
    } CASES[] = {
        { 2, 1, LS_DATA_FSDP, NULL, LS_GATHER_MAP, LS_OFFLOAD_NONE },
        { 2, 1, LS_DATA_FSDP, "class:Block", LS_GATHER_COPY, LS_OFFLOAD_NONE },
        { 2, 1, LS_DATA_DDP, NULL, LS_GATHER_AUTO, LS_OFFLOAD_NONE },
        { 2, 2, LS_DATA_HYBRID, NULL, LS_GATHER_AUTO, LS_OFFLOAD_NONE },
        { 1, 4, LS_DATA_FSDP, NULL, LS_GATHER_AUTO, LS_OFFLOAD_CPU },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) { /* data ranks change no bit */
        job j = layout(CASES[i].dp, CASES[i].shard, 2, CASES[i].data);
        j.o.recompute = CASES[i].recompute;
        j.o.parallel.gather = mapping_or_auto(CASES[i].gather);
        j.o.parallel.offload = CASES[i].offload;
        run_job(&j);
        expect(&j, &two, 0, 0);
    }
}

/* What an axis does is its role: names change no bit. */
static void names_are_free(void **state)
{
    (void)state;
    job two = layout(2, 1, 2, LS_DATA_FSDP), named = two;
    named.o.parallel.mesh = (ls_mesh){ .n = 2,
                                       .axes = { { "data_parallel", 2 }, { "columns", 2 } },
                                       .roles = { LS_ROLE_OF_NAME, LS_ROLE_TENSOR } };
    two.o.parallel.mesh = (ls_mesh){ .n = 2, .axes = { { "dp", 2 }, { "tp", 2 } } };
    run_job(&two);
    run_job(&named);
    expect(&named, &two, 0, 0);
    assert_memory_equal(named.rows, two.rows, sizeof two.rows);
}

static ls_status build_gpt2(ls_graph *g, const void *config, int64_t batch)
{
    static const ls_gpt2_config GPT2 = { .seq_length = TOKENS,
                                         .positions = TOKENS,
                                         .vocab_size = VOCABULARY,
                                         .hidden_size = 24,
                                         .mlp_size = 40,
                                         .layers = 2,
                                         .heads = 4,
                                         .norm_eps = 1e-5,
                                         .init_deviation = 0.1,
                                         .tied = true };
    (void)config;
    return ls_gpt2_build(g, &GPT2, batch);
}

/* Data ranks, layers and sequences that are split, in f64: equal but for the order of sums. */
static void in_f64(ls_decoder_config model, ls_build_fn build)
{
    job one = layout(1, 1, 1, LS_DATA_FSDP), four = layout(2, 1, 2, LS_DATA_FSDP);
    one.model = four.model = model;
    one.build = four.build = build;
    one.o.parallel.units = four.o.parallel.units = build ? "class:GPT2Block" : "class:Block";
    one.o.device = four.o.device = "ref";
    one.o.param = one.o.output = four.o.param = four.o.output = LS_F64;
    one.o.parallel.reduce = four.o.parallel.reduce = LS_F64;
    run_job(&one);
    for (int k = 0; k < (build ? 1 : 2); k++) { /* GPT-2's positions are not split */
        four.o.parallel.sequence = k;
        run_job(&four);
        expect(&four, &one, 0, 1e-12);
    }
}

static void families_in_f64(void **state)
{
    (void)state;
    ls_decoder_config qwen3 = QWEN, gemma = QWEN;
    qwen3.head_norms = gemma.head_norms = gemma.gemma = true;
    qwen3.rope_scaling = (ls_rope_scaling){ 8, .low = 1, .high = 4, .original = 16 };
    gemma.window = 3;
    gemma.global_every = 2;
    gemma.local_theta = 100;
    in_f64(QWEN, NULL);
    in_f64(qwen3, NULL);
    in_f64(gemma, NULL);
    in_f64(QWEN, build_gpt2);
}

/* Rows of a table and zeros add up to the same bits; logits are the same, but the sum of their exponentials
 * is rounded elsewhere. */
static void vocabulary(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        job one = layout(1, 1, 1, LS_DATA_FSDP), layers = layout(1, 1, 2, LS_DATA_FSDP), j = layers;
        one.model.tied = layers.model.tied = j.model.tied = tied;
        run_job(&one);
        layers.o.parallel.tensor = LAYERS;
        run_job(&layers);
        if (!tied) {
            j.o.parallel.tensor = LAYERS " " EMBEDDING;
            run_job(&j);
            expect(&j, &layers, 0, 0);
            assert_memory_equal(j.rows, layers.rows, sizeof j.rows);
        }
        j.o.parallel.tensor = tied ? EMBEDDING : EMBEDDING " " HEAD;
        run_job(&j);
        assert_memory_equal(j.predicted, one.predicted, sizeof j.predicted); /* logits of the same bits */
        expect(&j, &one, 0, 1e-6);
        j = layout(2, 1, 2, LS_DATA_DDP);
        j.model.tied = tied;
        run_job(&j);
        expect(&j, &one, 0, 2e-6);
        j = layout(1, 1, 4, LS_DATA_FSDP);
        j.model.tied = tied;
        j.o.parallel.tensor = tied ? EMBEDDING " " MLP : EMBEDDING " " HEAD " " MLP;
        run_job(&j);
        expect(&j, &one, 0, 2e-6);
    }
}

/* Logits that are rounded for the loss: each rank rounds its columns. */
static void rounded_outputs(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        job plain = layout(1, 1, 1, LS_DATA_FSDP), one = plain, whole = layout(1, 1, 2, LS_DATA_FSDP),
            split = whole, four = layout(2, 1, 2, LS_DATA_FSDP);
        one.o.output = whole.o.output = split.o.output = four.o.output = k ? LS_F16 : LS_BF16;
        run_job(&plain);
        run_job(&one);
        assert_true(one.losses[0] != plain.losses[0] && fabs(one.losses[0] - plain.losses[0]) < 0.01);
        split.o.parallel.tensor = EMBEDDING;
        run_job(&split);
        assert_memory_equal(split.predicted, one.predicted, sizeof split.predicted);
        assert_true(split.losses[0] == one.losses[0] ||
                    fabs(split.losses[0] - one.losses[0]) < 1e-6 * one.losses[0]);
        whole.o.parallel.tensor = LAYERS;
        run_job(&whole);
        expect(&whole, &one, 0, 2e-3); /* a sum in another order may round to the neighbour */
        four.o.parallel.tensor = LAYERS;
        run_job(&four);
        expect(&four, &whole, 0, 0);
    }
}

/* The forward pass is that of split layers, bit for bit: the same sums, and norms of the same rows. Gradients
 * of gains are summed in another order. */
static void sequence(void **state)
{
    (void)state;
    job one = layout(1, 1, 1, LS_DATA_FSDP), layers = layout(1, 1, 2, LS_DATA_FSDP), two = layers;
    run_job(&one);
    run_job(&layers);
    two.o.parallel.sequence = true;
    run_job(&two);
    assert_true(two.losses[0] == layers.losses[0]);
    assert_memory_equal(two.rows, layers.rows, sizeof two.rows);
    assert_memory_equal(two.predicted, layers.predicted, sizeof two.predicted);
    expect(&two, &one, 0, 2e-6);
    static const struct {
        int dp, shard;
        ls_data_parallel data;
        const char *recompute;
        ls_gather_choice gather;
        int64_t reshard;
        ls_synchronize_choice when;
    } CASES[] = {
        { 2, 1, LS_DATA_FSDP, NULL, LS_GATHER_MAP, -1, LS_SYNCHRONIZE_AUTO },
        { 2, 1, LS_DATA_FSDP, "class:Block", LS_GATHER_COPY, 0, LS_SYNCHRONIZE_AUTO },
        { 4, 1, LS_DATA_FSDP, NULL, LS_GATHER_COPY, 2, LS_SYNCHRONIZE_AUTO },
        { 2, 1, LS_DATA_DDP, NULL, LS_GATHER_AUTO, 0, LS_SYNCHRONIZE_EACH },
        { 2, 1, LS_DATA_FSDP, NULL, LS_GATHER_AUTO, -1, LS_SYNCHRONIZE_ONCE },
        { 2, 2, LS_DATA_HYBRID, "class:Block", LS_GATHER_COPY, -1, LS_SYNCHRONIZE_AUTO },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        job j = layout(CASES[i].dp, CASES[i].shard, 2, CASES[i].data);
        j.o.parallel.sequence = true;
        j.o.recompute = CASES[i].recompute;
        j.o.parallel.gather = mapping_or_auto(CASES[i].gather);
        j.o.parallel.reshard_after_forward = CASES[i].reshard;
        j.o.parallel.synchronize = CASES[i].when;
        run_job(&j);
        expect(&j, &two, 0, 0);
    }
    job four = layout(1, 1, 4, LS_DATA_FSDP);
    one.model.kv_heads = four.model.kv_heads = 4;
    one.model.tied = four.model.tied = false;
    four.o.parallel.sequence = true;
    four.o.parallel.offload = LS_OFFLOAD_CPU;
    run_job(&one);
    run_job(&four);
    expect(&four, &one, 0, 2e-6);
}

static void in_bf16(void **state)
{
    (void)state;
    job one = layout(1, 1, 1, LS_DATA_FSDP), j = one;
    one.o.param = LS_BF16;
    run_job(&one);
    for (int k = 0; k < 3; k++) {
        const int tp = k ? 2 : 1;
        j = layout(2, 1, tp, LS_DATA_FSDP);
        j.o.parallel.sequence = k == 2;
        j.o.param = LS_BF16;
        j.o.recompute = "class:Block";
        j.o.parallel.synchronize = LS_SYNCHRONIZE_ONCE;
        run_job(&j);
        expect(&j, &one, 0, tp == 1 ? 0 : 2e-3);
    }
}

/* Files have whole tensors: what one layout wrote, every other continues. */
static void checkpoints(void **state)
{
    (void)state;
    char dir[2][512];
    snprintf(dir[0], sizeof dir[0], "%s", ls_test_path("split/step-3"));
    snprintf(dir[1], sizeof dir[1], "%s", ls_test_path("whole/step-3"));
    job one = layout(1, 1, 1, LS_DATA_FSDP), four = layout(2, 1, 2, LS_DATA_FSDP);
    four.save = dir[0];
    one.save = dir[1];
    run_job(&four);
    run_job(&one);
    for (int k = 0; k < 4; k++) {
        job j = k < 2 ? layout(1, 2, 2, LS_DATA_FSDP) : layout(1, 1, 1, LS_DATA_FSDP);
        j.o.parallel.sequence = k == 1;
        j.load = dir[k % 2];
        j.first = STEPS / 2;
        run_job(&j);
        if (k == 0 || k == 3)
            expect(&j, k == 0 ? &four : &one, STEPS / 2,
                   0); /* the layout, but for data ranks, that wrote it: the same bits */
        else
            expect(&j, &one, STEPS / 2, 4e-6);
    }
}

/* Tokens split over axis cp, alone and with the other axes: one process's losses and norms but for the order
 * of sums, in f64. */
static void context(void **state)
{
    (void)state;
    static const struct {
        const char *axes;
        ls_data_parallel data;
        bool sequence;
        ls_synchronize_choice when;
    } CASES[] = {
        { "cp2", LS_DATA_FSDP, false, LS_SYNCHRONIZE_AUTO },
        { "cp4", LS_DATA_DDP, false, LS_SYNCHRONIZE_ONCE },
        { "dp2 cp2", LS_DATA_FSDP, false, LS_SYNCHRONIZE_ONCE },
        { "dp2 cp2", LS_DATA_DDP, false, LS_SYNCHRONIZE_EACH },
        { "dp2 shard2 cp2", LS_DATA_HYBRID, false, LS_SYNCHRONIZE_AUTO },
        { "cp2 tp2", LS_DATA_FSDP, false, LS_SYNCHRONIZE_AUTO },
        { "cp2 tp2", LS_DATA_DDP, true, LS_SYNCHRONIZE_AUTO },
    };
    ls_decoder_config qwen3 = QWEN;
    qwen3.head_norms = true;
    qwen3.window = 3;
    qwen3.global_every = 2;
    qwen3.local_theta = 100;
    ls_decoder_config experts = QWEN;
    experts.experts = 4;
    experts.experts_per_token = 2;
    experts.expert_size = 12;
    experts.experts_every = 1;
    for (int k = 0; k < 5; k++) {
        job one = layout(1, 1, 1, LS_DATA_FSDP);
        one.model = k == 4 ? experts : k == 1 ? qwen3 : QWEN;
        one.build = k == 2 ? build_gpt2 : k == 3 ? build_t5 : NULL;
        one.o.parallel.units = k == 2 ? "class:GPT2Block" : k == 3 ? "class:T5Block" : "class:Block";
        one.o.device = "ref";
        one.o.param = one.o.output = one.o.parallel.reduce = LS_F64;
        run_job(&one);
        for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
            job j = one;
            if (k && i % 5 && !(k == 1 && CASES[i].sequence)) /* some for the others */
                continue;
            j.o.parallel.mesh = mesh_of(CASES[i].axes);
            j.o.parallel.data = CASES[i].data;
            j.o.parallel.sequence = CASES[i].sequence;
            j.o.parallel.synchronize = CASES[i].when;
            run_job(&j);
            expect(&j, &one, 0, 1e-12);
            assert_memory_equal(j.predicted, one.predicted, sizeof j.predicted);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_one_process), cmocka_unit_test(names_are_free), cmocka_unit_test(families_in_f64),
        cmocka_unit_test(in_bf16),        cmocka_unit_test(vocabulary),     cmocka_unit_test(rounded_outputs),
        cmocka_unit_test(checkpoints),    cmocka_unit_test(sequence),       cmocka_unit_test(context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
