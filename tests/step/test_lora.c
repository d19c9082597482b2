/* test_lora.c - adapters of linear layers: only they are trained, on any mesh, and merged weights compute the
 * same. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/nn.h"
#include "step/split_model.h"
#include "support/ranks.h"
#include "support/support.h"

static ls_lora_opts lora = { LS_LORA_DEFAULTS };

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    LS_TRY(ls_add_lora_with(g, &lora));
    return ls_decoder_build(g, config, batch);
}

static job adapted(int dp, int shard, int tp, ls_data_parallel data)
{
    job j = layout(dp, shard, tp, data);
    j.build = build;
    j.o.freeze = LS_LORA_FREEZE;
    lora = (ls_lora_opts){ LS_LORA_DEFAULTS, .rank = 3, .alpha = 12 };
    return j;
}

static void over_ranks(void **state)
{
    (void)state;
    job plain = layout(1, 1, 1, LS_DATA_FSDP), one = adapted(1, 1, 1, LS_DATA_FSDP);
    run_job(&plain);
    run_job(&one);
    assert_memory_equal(plain.rows, one.rows, sizeof one.rows); /* B is zero at first */
    assert_true(one.losses[STEPS - 1] < one.losses[0]);
    assert_true(one.losses[0] == plain.losses[0] && one.losses[1] != plain.losses[1]);
    for (int k = 0; k < 5; k++) {
        job j = k == 0   ? adapted(2, 1, 1, LS_DATA_FSDP)
                : k == 1 ? adapted(4, 1, 1, LS_DATA_FSDP)
                : k == 2 ? adapted(2, 1, 1, LS_DATA_DDP)
                : k == 3 ? adapted(2, 2, 1, LS_DATA_HYBRID)
                         : adapted(1, 1, 1, LS_DATA_FSDP);
        if (k == 4)
            j.o.recompute = "class:Block";
        run_job(&j);
        assert_memory_equal(j.losses, one.losses, sizeof one.losses);
    }
    for (int k = 0; k < 2; k++) {
        job j = adapted(k + 1, 1, 2, LS_DATA_FSDP);
        run_job(&j);
        for (int i = 0; i < STEPS; i++)
            assert_true(fabs(j.losses[i] - one.losses[i]) < 2e-6 * one.losses[i]);
    }
}

/* With dropout too: which elements are dropped does not depend on the ranks. */
static void continues_on_other_ranks(void **state)
{
    (void)state;
    char dir[512];
    for (int dropout = 0; dropout < 2; dropout++) {
        snprintf(dir, sizeof dir, "%s", ls_test_path(dropout ? "lora/dropout" : "lora/plain"));
        job whole = adapted(2, 1, 1, LS_DATA_FSDP);
        lora.dropout = dropout ? 0.25 : 0;
        whole.save = dir;
        run_job(&whole);
        job rest = adapted(1, 1, 1, LS_DATA_FSDP);
        lora.dropout = dropout ? 0.25 : 0;
        rest.load = dir;
        rest.first = STEPS / 2;
        run_job(&rest);
        assert_memory_equal(rest.losses + STEPS / 2, whole.losses + STEPS / 2,
                            sizeof(double) * (STEPS - STEPS / 2));
    }
}

static void only_targets(void **state)
{
    (void)state;
    static const struct {
        const char *targets;
        int adapters;
    } cases[] = { { "all-linear", 14 },
                  { "q_proj v_proj", 4 },
                  { "mlp.up_proj", 2 },
                  { "1.mlp.up_proj", 1 },
                  { "q_proj q_proj", 2 },
                  { "all-linear !up_proj", 12 },
                  { "all-linear !model.layers.1", 7 },
                  { "all-linear !model.layer", 14 } }; /* whole names here, too */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ls_compiled c;
        job j = adapted(1, 1, 1, LS_DATA_FSDP);
        lora.targets = cases[i].targets;
        ASSERT_OK(ls_compile(&c, build, &j.model, &j.o, NULL));
        int trained = 0;
        for (int k = 0; k < c.units.n_slots; k++)
            trained += !c.units.slots[k].frozen;
        assert_int_equal(trained, 2 * cases[i].adapters);
        ls_compiled_release(&c);
    }
    ls_compiled c;
    job j = adapted(1, 1, 1, LS_DATA_FSDP);
    lora.targets = "v_proj p_proj q_proj proj"; /* whole names */
    ASSERT_FAILS(ls_compile(&c, build, &j.model, &j.o, NULL), LS_E_USAGE,
                 "targets: p_proj proj: the model has no linear layer");
    lora.targets = "all-linear";
    lora.rank = 0;
    ASSERT_FAILS(ls_compile(&c, build, &j.model, &j.o, NULL), LS_E_ARG, "rank 0");
    lora.rank = 13; /* k_proj has 12 outputs */
    ASSERT_FAILS(ls_compile(&c, build, &j.model, &j.o, NULL), LS_E_USAGE, "rank 13",
                 "24 inputs and 12 outputs", "k_proj");
}

/* The nodes of the forward pass with this op, in scopes whose path ends so. */
static int count(const ls_graph *g, const char *op, const char *end)
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *node = g->nodes[i];
        const size_t path = strlen(node->scope->path), m = strlen(end);
        n += node->phase == LS_PHASE_FORWARD && !strcmp(node->op->name, op) && path >= m &&
             !strcmp(node->scope->path + path - m, end);
    }
    return n;
}

/* q, k and v read their input for their adapters once, and so do gate and up. Both additions of a block are
 * part of products. With dropout each adapter has an input of its own. */
static void shared_products(void **state)
{
    (void)state;
    for (int dropout = 0; dropout < 2; dropout++) {
        ls_compiled c;
        job j = adapted(1, 1, 1, LS_DATA_FSDP);
        lora.dropout = dropout ? 0.25 : 0;
        ASSERT_OK(ls_compile(&c, build, &j.model, &j.o, NULL));
        for (int which = 0; which < 2; which++) {
            const ls_graph *p = c.plans[which ? LS_EVAL : LS_MICRO]->graph;
            assert_int_equal(count(p, "linear", "lora_A"), QWEN.layers * (dropout && !which ? 7 : 4));
            assert_int_equal(count(p, "linear", "lora_B"), QWEN.layers * 7);
            assert_int_equal(count(p, "add", ""), 0);
        }
        ls_compiled_release(&c);
    }
}

/* The layers of a decoder all read what the encoder gives. Each has its own product. */
static void shared_in_a_module(void **state)
{
    (void)state;
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "modules"));
    ASSERT_OK(ls_add_lora(g, .rank = 2));
    const ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 4, 8));
    for (int i = 0; i < 2; i++) {
        LS_SCOPE(g, i ? "1.cross" : "0.cross", "Attention");
        ls_output(g, i ? "1" : "0", ls_mul(g, ls_linear(g, "k", x, 8), ls_linear(g, "v", x, 8)));
    }
    assert_int_equal(count(g, "linear", "lora_A"), 4);
    ASSERT_OK(ls_pass_low_rank(&g));
    assert_int_equal(count(g, "linear", "lora_A"), 2);
    ASSERT_OK(ls_graph_verify(g));
    ls_graph_destroy(&g);
}

/* data += factor B A */
static void merge(float *data, double factor, const ls_weight *a, const ls_weight *b)
{
    const int64_t rank = a->type.dims[0], columns = a->type.dims[1], rows = b->type.dims[0];
    for (int64_t i = 0; i < rows * columns; i++)
        for (int64_t k = 0; k < rank; k++)
            data[i] += (float)(factor * (double)((const float *)b->data)[i / columns * rank + k] *
                               (double)((const float *)a->data)[k * columns + i % columns]);
}

/* W + s B A in the plain model computes what the adapted model does. */
static void merges(void **state)
{
    (void)state;
    char dir[512], merged[512], name[256];
    snprintf(dir, sizeof dir, "%s", ls_test_path("lora/merge"));
    snprintf(merged, sizeof merged, "%s", ls_test_path("lora/merged.safetensors"));
    job j = adapted(1, 1, 1, LS_DATA_FSDP), there = j, plain = layout(1, 1, 1, LS_DATA_FSDP);
    lora.rslora = true;
    j.save = dir;
    run_job(&j);
    there.load = dir;
    there.first = plain.first = STEPS; /* they only evaluate */
    run_job(&there);
    ls_weights *w;
    ls_named_tensor out[64];
    int n = 0, changed = 0;
    ASSERT_OK(ls_weights_open(&w, dir));
    for (int64_t i = 0; i < ls_weights_count(w); i++) {
        const ls_weight *base = ls_weights_at(w, i);
        const size_t bytes = ls_type_bytes(&base->type);
        if (strstr(base->name, ".lora_"))
            continue;
        float *data = malloc(bytes);
        memcpy(data, base->data, bytes);
        const char *end = strstr(base->name, ".weight");
        const int stem = end ? (int)(end - base->name) : 0;
        snprintf(name, sizeof name, "%.*s.lora_A.weight", stem, base->name);
        const ls_weight *a = ls_weights_find(w, name);
        snprintf(name, sizeof name, "%.*s.lora_B.weight", stem, base->name);
        if (a)
            merge(data, 12 / sqrt(3), a, ls_weights_find(w, name));
        changed += a != NULL;
        out[n++] = (ls_named_tensor){ base->name, ls_tensor_of(data, &base->type) };
    }
    assert_int_equal(changed, 14);
    ASSERT_OK(ls_weights_save(merged, n, out));
    for (int i = 0; i < n; i++)
        free(out[i].tensor.data);
    ls_weights_close(&w);
    plain.weights = merged;
    run_job(&plain);
    for (int i = 0; i < ROWS * TOKENS; i++)
        assert_true(fabsf(plain.rows[i] - there.rows[i]) < 1e-5F);
    assert_true(fabsf(there.rows[1] - j.rows[1]) > 1e-3F); /* which is not what it was at first */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(over_ranks),         cmocka_unit_test(continues_on_other_ranks),
        cmocka_unit_test(only_targets),       cmocka_unit_test(shared_products),
        cmocka_unit_test(shared_in_a_module), cmocka_unit_test(merges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
