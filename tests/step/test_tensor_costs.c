/* test_tensor_costs.c - layers split over axis tp: what a rank stores and sends, with and without
 * parallel.sequence, and which layouts are refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "ckpt/checkpoint.h"
#include "lockstep/models.h"
#include "passes/passes.h"
#include "support/support.h"
#include "step/trainer.h"
#include "step/split_model.h"

static void what_cannot_be(void **state)
{
    (void)state;
    job j = layout(1, 1, 4, LS_DATA_FSDP);
    ls_compiled c;
    ASSERT_FAILS(
        ls_compile(&c, build_decoder, &QWEN, &j.o, NULL), LS_E_USAGE, "mesh: ",
        "model.layers.0.self_attn has 2 key/value heads, which the 4 ranks of axis tp do not divide");
    /* the heads are named although the size of a weight would be refused first */
    j = layout(1, 1, 3, LS_DATA_FSDP);
    ASSERT_FAILS(ls_compile(&c, build_decoder, &QWEN, &j.o, NULL), LS_E_USAGE, "mesh: ",
                 "model.layers.0.self_attn has 4 heads, which the 3 ranks of axis tp do not divide");
    j.o.parallel.tensor = "colwise:gate_proj colwise:up_proj rowwise:down_proj";
    ASSERT_FAILS(ls_compile(&c, build_decoder, &QWEN, &j.o, NULL), LS_E_USAGE,
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
        ASSERT_FAILS(ls_compile(&c, build_decoder, &QWEN, &j.o, NULL), LS_E_USAGE, "tensor: ", WRONG[i][1]);
    }
    ls_decoder_config odd = QWEN;
    odd.vocab_size = 23;
    j.o.parallel.tensor = LAYERS " " EMBEDDING;
    ASSERT_FAILS(ls_compile(&c, build_decoder, &odd, &j.o, NULL), LS_E_USAGE, "mesh: ",
                 "model.embed_tokens.weight has size 23, which the 2 ranks of axis tp do not divide");
    j.o.parallel.tensor = "auto";
    ASSERT_OK(ls_compile(&c, build_decoder, &odd, &j.o, NULL)); /* the layers alone */
    assert_int_equal(c.plans[LS_MICRO]->n_collectives, 4 * QWEN.layers);
    ls_compiled_release(&c);
    job three = layout(1, 1, 3, LS_DATA_FSDP);
    three.o.parallel.sequence = true;
    three.o.parallel.tensor = EMBEDDING;
    ASSERT_FAILS(ls_compile(&c, build_decoder, &QWEN, &three.o, NULL), LS_E_USAGE,
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
        ASSERT_FAILS(ls_compile(&c, build_decoder, &QWEN, &j.o, NULL), LS_E_USAGE,
                     "tensor: ", SEQUENCE[i][1]);
    }
    j.o.parallel.sequence = false;
    /* a word that is wrong on two ranks is wrong on one, whatever axis there is */
    job one = layout(1, 1, 1, LS_DATA_FSDP);
    one.o.parallel.tensor = "colwise:nothing";
    ASSERT_FAILS(ls_compile(&c, build_decoder, &QWEN, &one.o, NULL), LS_E_USAGE,
                 "colwise:nothing: the model has no layer of that name");
    one.o.parallel.mesh = (ls_mesh){ .n = 1, .axes = { { "dp", 1 } } };
    ASSERT_FAILS(ls_compile(&c, build_decoder, &QWEN, &one.o, NULL), LS_E_USAGE,
                 "tensor: has no effect: the mesh has no axis of role tensor");
    one.o.parallel.tensor = "auto";
    one.o.parallel.sequence = true;
    ASSERT_FAILS(ls_compile(&c, build_decoder, &QWEN, &one.o, NULL), LS_E_USAGE,
                 "sequence: has no effect: the mesh has no axis of role tensor");
    /* a part of a name may stand before */
    j.o.parallel.tensor = "colwise:mlp.gate_proj colwise:mlp.up_proj rowwise:mlp.down_proj";
    ASSERT_OK(ls_compile(&c, build_decoder, &QWEN, &j.o, NULL));
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
    run_job(&j);
    ASSERT_OK(ls_file_read(&a, &n, one));
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        j = layout(CASES[i].dp, CASES[i].shard, CASES[i].tp, CASES[i].data);
        j.parameters = other;
        run_job(&j);
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
    ASSERT_OK(ls_compile(&a, build_decoder, &model, &one.o, NULL));
    ASSERT_OK(ls_compile(&b, build_decoder, &model, &two.o, NULL));
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
    ASSERT_OK(ls_compile(&a, build_decoder, &two.model, &two.o, NULL));
    two.o.parallel.sequence = true;
    ASSERT_OK(ls_compile(&b, build_decoder, &two.model, &two.o, NULL));
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
    ASSERT_OK(ls_compile(&d, build_decoder, &two.model, &two.o, NULL));
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
        cmocka_unit_test(what_cannot_be),
        cmocka_unit_test(what_a_step_costs),
        cmocka_unit_test(what_a_sequence_costs),
        cmocka_unit_test(parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
