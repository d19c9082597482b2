/* test_tensor.c - layers split over axis tp: the losses, gradient norms and checkpoints of one process to the
 * rounding of sums, whatever data layout it is combined with, and the same bits with any number of data ranks
 * beside it. Ranks are threads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "ckpt/checkpoint.h"
#include "comm/comm.h"
#include "lockstep/models.h"
#include "passes/passes.h"
#include "support/ranks.h"
#include "support/support.h"
#include "step/state.h"
#include "step/trainer.h"

enum { STEPS = 6, M = 4, ROWS = 2, TOKENS = 8, VOCABULARY = 24 };
static const ls_decoder_config QWEN = { .seq_length = TOKENS,
                                        .vocab_size = VOCABULARY,
                                        .hidden_size = 24,
                                        .mlp_size = 40,
                                        .layers = 2,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .head_dim = 6,
                                        .norm_eps = 1e-6,
                                        .rope_theta = 1e4,
                                        .init_deviation = 0.1,
                                        .tied = true,
                                        .qkv_bias = true,
                                        .output_bias = true,
                                        .mlp_bias = true,
                                        .block = "Block" };

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    return ls_decoder_build(g, config, batch);
}

#define LAYERS                                                                                       \
    "colwise:q_proj colwise:k_proj colwise:v_proj colwise:gate_proj colwise:up_proj rowwise:o_proj " \
    "rowwise:down_proj"
#define EMBEDDING "rowwise:embed_tokens"
#define HEAD "colwise:lm_head"
#define MLP "colwise:gate_proj colwise:up_proj rowwise:down_proj"

typedef struct job {
    ls_trainer_opts o;
    ls_decoder_config model;
    const char *save, *load; /* checkpoint folders */
    int first;               /* step to begin with */
    const char *parameters;  /* only saves them in this file */
    double losses[STEPS], norms[STEPS];
    int32_t predicted[ROWS * TOKENS]; /* by the initial weights */
    float rows[ROWS * TOKENS];
} job;

static ls_status load(ls_trainer *t, const char *dir, ls_group *g)
{
    ls_checkpoint c;
    LS_TRY(ls_checkpoint_open(&c, dir, LS_VERIFY_LOADED, g));
    const ls_status s = ls_trainer_load_state(t, &c, NULL);
    ls_checkpoint_release(&c);
    return s;
}

static ls_status evaluate(ls_group *g, job *j, ls_trainer *t)
{
    int32_t ids[ROWS * TOKENS], targets[ROWS * TOKENS], predicted[ROWS * TOKENS];
    float rows[ROWS * TOKENS];
    for (int i = 0; i < ROWS * TOKENS; i++) {
        ids[i] = 5 * i % VOCABULARY;
        targets[i] = i % 5 ? 7 * i % VOCABULARY : -100;
    }
    LS_TRY(ls_trainer_eval(t, ids, targets, rows, predicted, NULL));
    for (int i = 0; i < ROWS * TOKENS; i++)
        RANK_CHECK(i % 5 ? rows[i] > 0 : rows[i] == 0);
    if (ls_group_rank(g) == 0) {
        memcpy(j->rows, rows, sizeof rows);
        memcpy(j->predicted, predicted, sizeof predicted);
    }
    return LS_OK;
}

static ls_status train(ls_group *g, job *j, ls_trainer *t)
{
    const ls_share share = t->compiled.share;
    int32_t ids[M][ROWS * TOKENS], targets[M][ROWS * TOKENS];
    LS_TRY(j->load ? load(t, j->load, g) : ls_trainer_init(t, 3));
    LS_TRY(evaluate(g, j, t));
    for (int step = j->first; step < STEPS; step++) {
        for (int64_t k = 0; k < share.count; k++)
            for (int i = 0; i < ROWS * TOKENS; i++) {
                const int64_t at = (share.first + k * share.stride) * ROWS * TOKENS + i + 31 * step;
                ids[k][i] = (int32_t)(at * at % VOCABULARY);
                targets[k][i] = i % 5 ? (int32_t)((at + 1) * (at + 1) % VOCABULARY) : -100;
            }
        ls_step_result r;
        LS_TRY(ls_trainer_step(t, ids, &targets[0][0], M * (ROWS * TOKENS - 3), 1e-2, &r));
        double all[64];
        LS_TRY(ls_group_all_gather(g, &r.loss, sizeof r.loss, all));
        for (int k = 0; k < ls_group_size(g); k++)
            RANK_CHECK(all[k] == r.loss);
        if (ls_group_rank(g) == 0) {
            j->losses[step] = r.loss;
            j->norms[step] = r.grad_norm;
        }
        if (j->save && step == STEPS / 2 - 1)
            LS_TRY(ls_trainer_save_state(t, j->save,
                                         &(ls_checkpoint_contents){ .config = "{}", .trainer = "{}" }, NULL));
    }
    return LS_OK;
}

static ls_status save_parameters(ls_trainer *t, const char *path)
{
    LS_TRY(ls_trainer_init(t, 3));
    return ls_trainer_save(t, path);
}

static ls_status rank(ls_group *g, void *context)
{
    job *j = context;
    ls_trainer_opts o = j->o;
    ls_trainer *t;
    o.group = g;
    o.parallel.rank = ls_group_rank(g);
    LS_TRY(ls_trainer_create_with(&t, build, &j->model, &o));
    const ls_status s = j->parameters ? save_parameters(t, j->parameters) : train(g, j, t);
    ls_trainer_destroy(&t);
    return s;
}

static job layout(int dp, int shard, int tp, ls_data_parallel data)
{
    job j = { .o = { LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = ROWS, .micro_batches = M,
                     .clip_norm = 0.5 },
              .model = QWEN };
    j.o.parallel.mesh = (ls_mesh){ .n = 3, .axes = { { "dp", dp }, { "shard", shard }, { "tp", tp } } };
    j.o.parallel.data = data;
    j.o.parallel.units = "class:Block";
    return j;
}

static void run(job *j) { ASSERT_OK(run_ranks((int)ls_mesh_ranks(&j->o.parallel.mesh), rank, j)); }

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
    run(&one);
    run(&two);
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
        { 2, 1, LS_DATA_FSDP, "Block", LS_GATHER_COPY, LS_OFFLOAD_NONE },
        { 2, 1, LS_DATA_DDP, NULL, LS_GATHER_AUTO, LS_OFFLOAD_NONE },
        { 2, 2, LS_DATA_HYBRID, NULL, LS_GATHER_AUTO, LS_OFFLOAD_NONE },
        { 1, 4, LS_DATA_FSDP, NULL, LS_GATHER_AUTO, LS_OFFLOAD_CPU },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) { /* data ranks change no bit */
        job j = layout(CASES[i].dp, CASES[i].shard, 2, CASES[i].data);
        j.o.recompute = CASES[i].recompute;
        j.o.parallel.gather = CASES[i].gather;
        j.o.parallel.offload = CASES[i].offload;
        run(&j);
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
    run(&two);
    run(&named);
    expect(&named, &two, 0, 0);
    assert_memory_equal(named.rows, two.rows, sizeof two.rows);
}

static void in_f64(void **state)
{
    (void)state;
    job one = layout(1, 1, 1, LS_DATA_FSDP), four = layout(2, 1, 2, LS_DATA_FSDP);
    one.o.device = four.o.device = "ref";
    one.o.param = one.o.output = four.o.param = four.o.output = LS_F64;
    one.o.parallel.reduce = four.o.parallel.reduce = LS_F64;
    run(&one);
    for (int k = 0; k < 2; k++) {
        four.o.parallel.sequence = k;
        run(&four);
        expect(&four, &one, 0, 1e-12);
    }
}

/* Rows of a table and zeros add up to the same bits; logits are the same, but the sum of their exponentials
 * is rounded elsewhere. */
static void vocabulary(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        job one = layout(1, 1, 1, LS_DATA_FSDP), layers = layout(1, 1, 2, LS_DATA_FSDP), j = layers;
        one.model.tied = layers.model.tied = j.model.tied = tied;
        run(&one);
        layers.o.parallel.tensor = LAYERS;
        run(&layers);
        if (!tied) {
            j.o.parallel.tensor = LAYERS " " EMBEDDING;
            run(&j);
            expect(&j, &layers, 0, 0);
            assert_memory_equal(j.rows, layers.rows, sizeof j.rows);
        }
        j.o.parallel.tensor = tied ? EMBEDDING : EMBEDDING " " HEAD;
        run(&j);
        assert_memory_equal(j.predicted, one.predicted, sizeof j.predicted); /* logits of the same bits */
        expect(&j, &one, 0, 1e-6);
        j = layout(2, 1, 2, LS_DATA_DDP);
        j.model.tied = tied;
        run(&j);
        expect(&j, &one, 0, 2e-6);
        j = layout(1, 1, 4, LS_DATA_FSDP);
        j.model.tied = tied;
        j.o.parallel.tensor = tied ? EMBEDDING " " MLP : EMBEDDING " " HEAD " " MLP;
        run(&j);
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
        run(&plain);
        run(&one);
        assert_true(one.losses[0] != plain.losses[0] && fabs(one.losses[0] - plain.losses[0]) < 0.01);
        split.o.parallel.tensor = EMBEDDING;
        run(&split);
        assert_memory_equal(split.predicted, one.predicted, sizeof split.predicted);
        assert_true(split.losses[0] == one.losses[0] ||
                    fabs(split.losses[0] - one.losses[0]) < 1e-6 * one.losses[0]);
        whole.o.parallel.tensor = LAYERS;
        run(&whole);
        expect(&whole, &one, 0, 2e-3); /* a sum in another order may round to the neighbour */
        four.o.parallel.tensor = LAYERS;
        run(&four);
        expect(&four, &whole, 0, 0);
    }
}

/* The forward pass is that of split layers, bit for bit: the same sums, and norms of the same rows. Gradients
 * of gains are summed in another order. */
static void sequence(void **state)
{
    (void)state;
    job one = layout(1, 1, 1, LS_DATA_FSDP), layers = layout(1, 1, 2, LS_DATA_FSDP), two = layers;
    run(&one);
    run(&layers);
    two.o.parallel.sequence = true;
    run(&two);
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
        { 2, 1, LS_DATA_FSDP, "Block", LS_GATHER_COPY, 0, LS_SYNCHRONIZE_AUTO },
        { 4, 1, LS_DATA_FSDP, NULL, LS_GATHER_COPY, 2, LS_SYNCHRONIZE_AUTO },
        { 2, 1, LS_DATA_DDP, NULL, LS_GATHER_AUTO, 0, LS_SYNCHRONIZE_EACH },
        { 2, 1, LS_DATA_FSDP, NULL, LS_GATHER_AUTO, -1, LS_SYNCHRONIZE_ONCE },
        { 2, 2, LS_DATA_HYBRID, "Block", LS_GATHER_COPY, -1, LS_SYNCHRONIZE_AUTO },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        job j = layout(CASES[i].dp, CASES[i].shard, 2, CASES[i].data);
        j.o.parallel.sequence = true;
        j.o.recompute = CASES[i].recompute;
        j.o.parallel.gather = CASES[i].gather;
        j.o.parallel.reshard_after_forward = CASES[i].reshard;
        j.o.parallel.synchronize = CASES[i].when;
        run(&j);
        expect(&j, &two, 0, 0);
    }
    job four = layout(1, 1, 4, LS_DATA_FSDP);
    one.model.kv_heads = four.model.kv_heads = 4;
    one.model.tied = four.model.tied = false;
    four.o.parallel.sequence = true;
    four.o.parallel.offload = LS_OFFLOAD_CPU;
    run(&one);
    run(&four);
    expect(&four, &one, 0, 2e-6);
}

static void in_bf16(void **state)
{
    (void)state;
    job one = layout(1, 1, 1, LS_DATA_FSDP), j = one;
    one.o.param = LS_BF16;
    run(&one);
    for (int k = 0; k < 3; k++) {
        const int tp = k ? 2 : 1;
        j = layout(2, 1, tp, LS_DATA_FSDP);
        j.o.parallel.sequence = k == 2;
        j.o.param = LS_BF16;
        j.o.recompute = "Block";
        j.o.parallel.synchronize = LS_SYNCHRONIZE_ONCE;
        run(&j);
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
    run(&four);
    run(&one);
    for (int k = 0; k < 4; k++) {
        job j = k < 2 ? layout(1, 2, 2, LS_DATA_FSDP) : layout(1, 1, 1, LS_DATA_FSDP);
        j.o.parallel.sequence = k == 1;
        j.load = dir[k % 2];
        j.first = STEPS / 2;
        run(&j);
        if (k == 0 || k == 3)
            expect(&j, k == 0 ? &four : &one, STEPS / 2,
                   0); /* the layout, but for data ranks, that wrote it: the same bits */
        else
            expect(&j, &one, STEPS / 2, 4e-6);
    }
}

static void what_cannot_be(void **state)
{
    (void)state;
    job j = layout(1, 1, 4, LS_DATA_FSDP);
    ls_compiled c;
    ASSERT_FAILS(ls_compile(&c, build, &QWEN, &j.o, NULL), LS_E_USAGE, "mesh: ",
                 "model.layers.0.self_attn has 2 heads, which the 4 ranks of axis tp do not divide");
    j = layout(1, 1, 3, LS_DATA_FSDP);
    j.o.parallel.tensor = "colwise:gate_proj colwise:up_proj rowwise:down_proj";
    ASSERT_FAILS(ls_compile(&c, build, &QWEN, &j.o, NULL), LS_E_USAGE,
                 "dimension 0 of parameter model.layers.0.mlp.gate_proj.weight has size 40",
                 "3 ranks of axis tp do not divide");
    j = layout(1, 1, 2, LS_DATA_FSDP);
    static const char *const WRONG[][2] = {
        { "colwise:nothing", "colwise:nothing: the model has no layer of that name" },
        { LAYERS " rowwise:embed_token",
          "rowwise:embed_token: the model has no layer of that name; did you mean rowwise:embed_tokens?" },
        { "colwise:mpl.gate_proj colwise:mlp.up_proj rowwise:mlp.down_proj",
          "did you mean colwise:mlp.gate_proj?" },
        /* its head is tied */
        { LAYERS " colwise:lm_head", "colwise:lm_head: the model has no layer of that name" },
        { LAYERS " colwise:self_attn.q_proj",
          "colwise:self_attn.q_proj: the words before it name every layer that it does" },
        { "colwise:embed_tokens",
          "rms_norm in model.layers.0.input_layernorm cannot take operand 0, which is Shard(2) because "
          "colwise:embed_tokens splits model.embed_tokens.weight" },
        { "colwise:q_proj",
          "attention in model.layers.0.self_attn takes operand 0, which is Shard(2) because colwise:q_proj "
          "splits model.layers.0.self_attn.q_proj.weight, and operand 1, which is whole on every rank: the "
          "layer that makes operand 1 must be split by columns" },
        { "colwise:q_proj colwise:k_proj colwise:v_proj",
          "operand 1, which is whole on every rank: rowwise:o_proj would split both alike" },
        { "rowwise:down_proj", "because rowwise:down_proj splits model.layers.0.mlp.down_proj.weight, and "
                               "operand 0, which is whole on every rank" },
        { "colwise:down_proj",
          "add in model.layers.0 takes operand 1, which is Shard(2) because colwise:down_proj" },
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        j.o.parallel.tensor = WRONG[i][0];
        ASSERT_FAILS(ls_compile(&c, build, &QWEN, &j.o, NULL), LS_E_USAGE, "tensor: ", WRONG[i][1]);
    }
    ls_decoder_config odd = QWEN;
    odd.vocab_size = 23;
    j.o.parallel.tensor = LAYERS " " EMBEDDING;
    ASSERT_FAILS(ls_compile(&c, build, &odd, &j.o, NULL), LS_E_USAGE, "mesh: ",
                 "model.embed_tokens.weight has size 23, which the 2 ranks of axis tp do not divide");
    j.o.parallel.tensor = "auto";
    ASSERT_OK(ls_compile(&c, build, &odd, &j.o, NULL)); /* the layers alone */
    assert_int_equal(c.plans[LS_MICRO]->n_collectives, 4 * QWEN.layers);
    ls_compiled_release(&c);
    job three = layout(1, 1, 3, LS_DATA_FSDP);
    three.o.parallel.sequence = true;
    three.o.parallel.tensor = EMBEDDING;
    ASSERT_FAILS(ls_compile(&c, build, &QWEN, &three.o, NULL), LS_E_USAGE,
                 "sequence: a micro-batch has 16 tokens, which the 3 ranks of axis tp do not divide");
    static const char *const SEQUENCE[][2] = {
        { EMBEDDING, "rope in model.layers.0.self_attn cannot take operand 0, which is Shard(0..1) "
                     "because sequence is on: it needs all tokens" },
        { LAYERS, "and operand 0, which is whole on every rank: with sequence on, what makes operand 0 "
                  "must be split by rows, too, as the table of an embedding" },
    };
    j.o.parallel.sequence = true;
    for (size_t i = 0; i < sizeof SEQUENCE / sizeof SEQUENCE[0]; i++) {
        j.o.parallel.tensor = SEQUENCE[i][0];
        ASSERT_FAILS(ls_compile(&c, build, &QWEN, &j.o, NULL), LS_E_USAGE, "tensor: ", SEQUENCE[i][1]);
    }
    j.o.parallel.sequence = false;
    /* a word that is wrong on two ranks is wrong on one, whatever axis there is */
    job one = layout(1, 1, 1, LS_DATA_FSDP);
    one.o.parallel.tensor = "colwise:nothing";
    ASSERT_FAILS(ls_compile(&c, build, &QWEN, &one.o, NULL), LS_E_USAGE,
                 "colwise:nothing: the model has no layer of that name");
    one.o.parallel.mesh = (ls_mesh){ .n = 1, .axes = { { "dp", 1 } } };
    ASSERT_FAILS(ls_compile(&c, build, &QWEN, &one.o, NULL), LS_E_USAGE,
                 "tensor: has no effect: the mesh has no axis of role tensor");
    one.o.parallel.tensor = "auto";
    one.o.parallel.sequence = true;
    ASSERT_FAILS(ls_compile(&c, build, &QWEN, &one.o, NULL), LS_E_USAGE,
                 "sequence: has no effect: the mesh has no axis of role tensor");
    /* a part of a name may stand before */
    j.o.parallel.tensor = "colwise:mlp.gate_proj colwise:mlp.up_proj rowwise:mlp.down_proj";
    ASSERT_OK(ls_compile(&c, build, &QWEN, &j.o, NULL));
    ls_compiled_release(&c);
}

/* A file of parameters is that of one process, whatever part of them each rank has. */
static void parameters(void **state)
{
    (void)state;
    static const struct {
        int dp, shard, tp;
        ls_data_parallel data;
    } CASES[] = { { 1, 1, 2, LS_DATA_NONE },
                  { 2, 1, 2, LS_DATA_FSDP },
                  { 2, 2, 2, LS_DATA_HYBRID },
                  { 2, 1, 2, LS_DATA_DDP } };
    char one[512], other[512], *a, *b;
    size_t n, m;
    snprintf(one, sizeof one, "%s", ls_test_path("one.safetensors"));
    snprintf(other, sizeof other, "%s", ls_test_path("other.safetensors"));
    job j = layout(1, 1, 1, LS_DATA_FSDP);
    j.parameters = one;
    run(&j);
    ASSERT_OK(ls_file_read(&a, &n, one));
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        j = layout(CASES[i].dp, CASES[i].shard, CASES[i].tp, CASES[i].data);
        j.parameters = other;
        run(&j);
        ASSERT_OK(ls_file_read(&b, &m, other));
        assert_int_equal(n, m);
        assert_memory_equal(a, b, n);
        free(b);
    }
    free(a);
}

/* No value of the program has a column, or a row, for every word. */
static bool has_vocabulary(const ls_plan *p)
{
    for (int v = 1; v < p->graph->n_vals; v++)
        for (int d = 0; d < p->graph->vals[v].type.ndim; d++)
            if (p->graph->vals[v].type.dims[d] == VOCABULARY + 2)
                return true;
    return false;
}

/* Two all_reduce a block and direction, as PyTorch's ColwiseParallel and RowwiseParallel have; one for the
 * embedding, one for the gradient of what enters the head, one gather for the loss; and nothing is whole that
 * need not be. */
static void what_a_step_costs(void **state)
{
    (void)state;
    job one = layout(1, 1, 1, LS_DATA_FSDP), two = layout(1, 1, 2, LS_DATA_FSDP);
    ls_compiled a, b;
    ls_decoder_config model = QWEN;
    model.vocab_size = VOCABULARY + 2; /* a number that nothing else has */
    ASSERT_OK(ls_compile(&a, build, &model, &one.o, NULL));
    ASSERT_OK(ls_compile(&b, build, &model, &two.o, NULL));
    assert_int_equal(b.plans[LS_MICRO]->n_collectives, 4 * QWEN.layers + 3);
    assert_int_equal(b.plans[LS_EVAL]->n_collectives, 2 * QWEN.layers + 3); /* the third: what is predicted */
    assert_true(has_vocabulary(a.plans[LS_MICRO]) && has_vocabulary(a.plans[LS_EVAL]));
    assert_false(has_vocabulary(b.plans[LS_MICRO]) || has_vocabulary(b.plans[LS_EVAL]));
    assert_int_equal(a.units.parameters, b.units.parameters);
    /* of a layer; norms, and biases of o and down, are whole */
    const int64_t split = 24 * 24 * 2 + 24 * 12 * 2 + 3 * 24 * 40 + 24 + 12 + 12 + 80;
    int64_t whole = 0, mine = 0;
    for (int i = 0; i < a.units.n; i++)
        whole += a.units.units[i].parameters;
    for (int i = 0; i < b.units.n; i++)
        mine += b.units.units[i].parameters;
    assert_int_equal(whole - mine, (QWEN.layers * split + model.vocab_size * 24) / 2);
    ls_compiled_release(&a);
    ls_compiled_release(&b);
}

static int count(const ls_plan *p, ls_collective_kind kind)
{
    int n = 0;
    for (int i = 0; i < p->n_collectives; i++)
        n += p->collectives[i].kind == kind && !strcmp(p->collectives[i].group, "tp");
    return n;
}

/* A block: each all_reduce is a reduce_scatter and a gather, each gather is made again in the backward pass,
 * and gains and biases of features, here four, have sums of their own. What lives between the passes is half
 * as large. */
static void what_a_sequence_costs(void **state)
{
    (void)state;
    job two = layout(1, 1, 2, LS_DATA_FSDP);
    ls_compiled a, b;
    two.model.layers = two.model.mlp_size = 8;
    ASSERT_OK(ls_compile(&a, build, &two.model, &two.o, NULL));
    two.o.parallel.sequence = true;
    ASSERT_OK(ls_compile(&b, build, &two.model, &two.o, NULL));
    const ls_plan *p = b.plans[LS_MICRO];
    const int layers = (int)two.model.layers;
    /* + the embedding, and backward what enters the head */
    assert_int_equal(count(p, LS_REDUCE_SCATTER), 4 * layers + 2);
    /* + what enters the head, twice, the loss, and backward the embedding */
    assert_int_equal(count(p, LS_ALL_GATHER), 4 * layers + 2 * layers + 4);
    assert_int_equal(count(p, LS_ALL_REDUCE), 4 * layers + 1); /* + the last norm */
    const size_t whole = (size_t)(ROWS * TOKENS * two.model.hidden_size) * sizeof(float);
    ls_compiled d;
    two.o.parallel.mesh = (ls_mesh){ .n = 2, .axes = { { "dp", 2 }, { "tp", 2 } } };
    two.o.parallel.gather = LS_GATHER_COPY;
    ASSERT_OK(ls_compile(&d, build, &two.model, &two.o, NULL));
    /* a unit's gather starts when the unit's before it is there, whatever activations are gathered between
     * them */
    const ls_plan_collective *before = NULL;
    for (int i = 0, forward = 0; i < d.plans[LS_EVAL]->n_collectives && forward < 3; i++) {
        const ls_plan_collective *c = &d.plans[LS_EVAL]->collectives[i];
        if (c->kind != LS_ALL_GATHER || strcmp(c->group, "dp"))
            continue;
        assert_true(!before || c->start <= before->wait + 2);
        before = c;
        forward++;
    }
    assert_non_null(before);
    ls_compiled_release(&d);
    assert_true(p->live_peak_bytes + 3 * (size_t)layers * whole / 2 < a.plans[LS_MICRO]->live_peak_bytes);
    ls_compiled_release(&a);
    ls_compiled_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_one_process),
        cmocka_unit_test(names_are_free),
        cmocka_unit_test(in_f64),
        cmocka_unit_test(in_bf16),
        cmocka_unit_test(vocabulary),
        cmocka_unit_test(rounded_outputs),
        cmocka_unit_test(checkpoints),
        cmocka_unit_test(what_cannot_be),
        cmocka_unit_test(what_a_step_costs),
        cmocka_unit_test(sequence),
        cmocka_unit_test(what_a_sequence_costs),
        cmocka_unit_test(parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
