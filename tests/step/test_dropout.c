/* test_dropout.c - dropout depends only on seed, layer, step, sample and element. So the bits are the same
 * with any number of ranks and threads, in any layout, with recomputation and after a resume, and the masks
 * are the same with any size of micro-batches. Evaluation drops nothing. Ranks are threads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "golden/training.h"
#include "lockstep/nn.h"
#include "support/ranks.h"
#include "support/small_vit.h"
#include "step/state.h"
#include "models/classifier.h"

enum { STEPS = 8, BATCH = 16, PIXELS = 64, SAMPLES = BATCH + STEPS };
static const ls_vit_config VIT = { SMALL_VIT, .dropout = 0.2, .attention_dropout = 0.2 };
static uint8_t images[SAMPLES][PIXELS];
static int32_t labels[SAMPLES];

static int make_data(void **state)
{
    (void)state;
    draw_stripes(SAMPLES, images[0], labels);
    return 0;
}

/* Steps first .. last-1: from a checkpoint or from the start, ending in a checkpoint if one is asked for. */
typedef struct leg {
    ls_trainer_opts o;
    const ls_vit_config *vit;
    uint64_t seed;
    int first, last;
    const char *from, *to;
    double losses[STEPS];
    bool skipped[STEPS];
} leg;

static ls_status train(ls_group *g, leg *l, ls_trainer *t)
{
    uint8_t mine[BATCH][PIXELS];
    int32_t mine_labels[BATCH];
    const ls_share share = t->compiled.share;
    const int64_t rows = l->o.micro_batch, M = l->o.micro_batches;
    LS_TRY(l->from ? ls_trainer_load_checkpoint(t, l->from) : ls_trainer_init(t, l->seed));
    for (int step = l->first; step < l->last; step++) {
        for (int64_t k = 0; k < share.count; k++)
            for (int64_t r = 0; r < rows; r++) { /* as data/order.c has them */
                const int64_t sample = step + share.first + k * share.stride + r * M;
                memcpy(mine[k * rows + r], images[sample], PIXELS);
                mine_labels[k * rows + r] = labels[sample];
            }
        ls_step_result result;
        LS_TRY(ls_trainer_step(t, mine, mine_labels, BATCH, 1e-2 / (1 + step), &result));
        if (ls_group_rank(g) == 0) {
            l->losses[step] = result.loss;
            l->skipped[step] = result.skipped;
        }
    }
    return l->to ? ls_trainer_save_state(t, l->to,
                                         &(ls_checkpoint_contents){ .config = "{}", .trainer = "{}" }, NULL)
                 : LS_OK;
}

static ls_status rank(ls_group *g, void *context)
{
    leg *l = context;
    ls_trainer_opts o = l->o;
    ls_trainer *t;
    o.group = g;
    o.parallel.rank = ls_group_rank(g);
    LS_TRY(ls_trainer_create_with(&t, training_build_vit, l->vit, &o));
    const ls_status s = train(g, l, t);
    ls_trainer_destroy(&t);
    return s;
}

static leg leg_on(int dp, int shard, ls_data_parallel data)
{
    leg l = { .o = { LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = 2, .micro_batches = BATCH / 2 },
              .vit = &VIT,
              .seed = 5,
              .last = STEPS };
    l.o.parallel.mesh = (ls_mesh){ .n = 2, .axes = { { "dp", dp }, { "shard", shard } } };
    l.o.parallel.data = data;
    l.o.parallel.units = "class:EncoderBlock";
    return l;
}

static void run(leg *l) { ASSERT_OK(run_ranks((int)ls_mesh_ranks(&l->o.parallel.mesh), rank, l)); }

static void expect_same(const char *what, const leg *is, const leg *want)
{
    for (int i = is->first; i < is->last; i++)
        if (is->losses[i] != want->losses[i])
            fail_msg("%s: loss of step %d is %.17g, not %.17g", what, i, is->losses[i], want->losses[i]);
}

static void same_bits_in_any_layout(void **state)
{
    (void)state;
    leg one = leg_on(1, 1, LS_DATA_FSDP), none = one, other_seed = one, again;
    static const ls_vit_config without = { SMALL_VIT };
    run(&one);
    none.vit = &without;
    run(&none);
    other_seed.seed = 6;
    run(&other_seed);
    /* the head begins with zeros: nothing shows in the first step */
    assert_true(none.losses[1] != one.losses[1] && other_seed.losses[1] != one.losses[1]);
    again = one;
    again.o.threads = 3;
    run(&again);
    expect_same("3 threads", &again, &one);
    again = one;
    again.o.recompute = "class:EncoderBlock";
    run(&again);
    expect_same("recomputed", &again, &one);
    leg two = leg_on(2, 1, LS_DATA_DDP), four = leg_on(4, 1, LS_DATA_FSDP),
        hybrid = leg_on(2, 2, LS_DATA_HYBRID);
    two.o.parallel.synchronize = LS_SYNCHRONIZE_EACH;
    four.o.recompute = "class:EncoderBlock";
    run(&two);
    expect_same("2 ranks, ddp", &two, &one);
    run(&four);
    expect_same("4 ranks, fsdp, recomputed", &four, &one);
    run(&hybrid);
    expect_same("2 x 2 ranks, hybrid", &hybrid, &one);
}

/* Sums are rounded otherwise, and Adam's first steps make much of it; other masks change the loss far more.
 */
static void same_masks_in_any_micro_batch(void **state)
{
    (void)state;
    leg small = leg_on(1, 1, LS_DATA_FSDP), other = small;
    run(&small);
    other.seed = 6;
    run(&other);
    double apart = 0;
    for (int i = 0; i < STEPS; i++)
        apart = fmax(apart, fabs(other.losses[i] - small.losses[i]));
    assert_true(apart > 1e-2);
    static const int rows[] = { 1, 4, 16 };
    for (int k = 0; k < 3; k++) {
        leg l = leg_on(1, 1, LS_DATA_FSDP);
        l.o.micro_batch = rows[k];
        l.o.micro_batches = BATCH / rows[k];
        run(&l);
        for (int i = 0; i < STEPS; i++)
            if (!(fabs(l.losses[i] - small.losses[i]) < 1e-5))
                fail_msg("micro-batches of %d, step %d: loss %.9g, with those of 2 %.9g", rows[k], i,
                         l.losses[i], small.losses[i]);
    }
}

/* f16 too, whose first steps overflow: a step that is skipped advances nothing, and so the next one draws its
 * masks. */
static void resumes_on_other_ranks(void **state)
{
    (void)state;
    char dir[512];
    for (int f16 = 0; f16 < 2; f16++) {
        leg whole = leg_on(1, 1, LS_DATA_FSDP), begun = leg_on(4, 1, LS_DATA_FSDP),
            rest = leg_on(2, 1, LS_DATA_DDP);
        snprintf(dir, sizeof dir, "%s", ls_test_path(f16 ? "f16/step-3" : "f32/step-3"));
        whole.o.param = begun.o.param = rest.o.param = f16 ? LS_F16 : LS_F32;
        begun.last = rest.first = 3;
        begun.to = rest.from = dir;
        rest.seed = 99; /* that of the checkpoint counts */
        run(&whole);
        run(&begun);
        run(&rest);
        expect_same("before", &begun, &whole);
        expect_same("resumed", &rest, &whole);
    }
}

/* The same data and, but for the first step, the same weights: losses differ by what is dropped. */
static void each_step_drops_others(void **state)
{
    (void)state;
    leg l = leg_on(1, 1, LS_DATA_FSDP);
    ls_trainer *t;
    ls_step_result r[6];
    ASSERT_OK(ls_trainer_create_with(&t, training_build_vit, &VIT, &l.o));
    ASSERT_OK(ls_trainer_init(t, 5));
    for (int i = 0; i < 6; i++) {
        if (i == 4)
            ASSERT_OK(ls_trainer_init(t, 5));
        ASSERT_OK(ls_trainer_step(t, images, labels, BATCH, i % 4 ? 0 : 1e-2, &r[i]));
    }
    assert_true(r[2].loss != r[1].loss && r[3].loss != r[1].loss && r[3].loss != r[2].loss);
    assert_true(r[5].loss == r[1].loss);
    ls_trainer_destroy(&t);
}

static int nodes(const ls_plan *p, const char *op)
{
    int n = 0;
    for (int i = 0; i < p->graph->n_nodes; i++)
        n += !strcmp(p->graph->nodes[i]->op->name, op);
    return n;
}

static void only_training_drops(void **state)
{
    (void)state;
    leg l = leg_on(1, 1, LS_DATA_FSDP);
    ls_vit_config without = VIT;
    ls_compiled c;
    ASSERT_OK(ls_compile(&c, training_build_vit, &VIT, &l.o, NULL));
    /* and once more for the gradient */
    assert_int_equal(nodes(c.plans[LS_MICRO], "dropout"), 2 * (1 + 3 * 2));
    assert_int_equal(nodes(c.plans[LS_MICRO], "random_key"), 1);
    assert_int_equal(nodes(c.plans[LS_EVAL], "dropout") + nodes(c.plans[LS_EVAL], "random_key"), 0);
    const int inputs = nodes(c.plans[LS_MICRO], "input"), states = nodes(c.plans[LS_MICRO], "state");
    ls_compiled_release(&c);
    without.dropout = without.attention_dropout = 0;
    ASSERT_OK(ls_compile(&c, training_build_vit, &without, &l.o, NULL));
    assert_int_equal(nodes(c.plans[LS_MICRO], "dropout") + nodes(c.plans[LS_MICRO], "random_key"), 0);
    assert_int_equal(nodes(c.plans[LS_MICRO], "input"), inputs - 1);
    assert_int_equal(nodes(c.plans[LS_MICRO], "state"), states - 2);
    ls_compiled_release(&c);
}

/* Layers that axis tp splits, with dropout inside; the model's inputs are those of a text. */
enum { TOKENS = 3, WIDTH = 8, WIDE = 12 };
static ls_status build_split(ls_graph *g, const void *config, int64_t batch)
{
    (void)config;
    ls_tensor_plan(
        g, "colwise:q_proj colwise:k_proj colwise:v_proj rowwise:o_proj colwise:up_proj rowwise:down_proj");
    const ls_type ids = LS_TYPE(LS_I32, batch, TOKENS);
    ls_value x = ls_embedding_op(
        g, ls_input(g, "ids", ids),
        ls_param(g, "table", LS_TYPE(LS_F32, 11, WIDTH), ((ls_init){ LS_INIT_NORMAL, 0, 1 })));
    x = ls_dropout(g, "before", x, 0.3);
    ls_value q = ls_linear(g, "q_proj", x, WIDE), k = ls_linear(g, "k_proj", x, WIDE),
             v = ls_linear(g, "v_proj", x, WIDE);
    ls_value y = ls_attention_dropout(g, "attention", ls_attention(g, q, k, v, LS_NONE, 3, 0.5, true), 0.3);
    x = ls_add(g, x, ls_linear(g, "o_proj", y, WIDTH));
    ls_value h = ls_dropout(g, "inside", ls_gelu(g, ls_linear(g, "up_proj", x, WIDE)), 0.3);
    x = ls_add(g, x, ls_dropout(g, "behind", ls_linear(g, "down_proj", h, WIDTH), 0.3));
    ls_value logits = ls_linear(g, "head", ls_reshape(g, x, -1, WIDTH), 11);
    ls_language_outputs(g, logits, ls_input(g, "targets", ids), LS_NONE, 0);
    return ls_graph_finish(g);
}

static ls_status split_rank(ls_group *g, void *context)
{
    leg *l = context;
    ls_trainer_opts o = l->o;
    ls_trainer *t;
    o.group = g;
    o.parallel.rank = ls_group_rank(g);
    LS_TRY(ls_trainer_create_with(&t, build_split, NULL, &o));
    ls_status s = ls_trainer_init(t, 3);
    for (int step = 0; step < STEPS && s == LS_OK; step++) {
        int32_t ids[BATCH * TOKENS], targets[BATCH * TOKENS];
        ls_step_result r;
        for (int i = 0; i < BATCH * TOKENS; i++) {
            ids[i] = (i * i + step) % 11;
            targets[i] = (3 * i + step) % 11;
        }
        s = ls_trainer_step(t, ids, targets, BATCH * TOKENS, 1e-2, &r);
        if (ls_group_rank(g) == 0)
            l->losses[step] = r.loss;
    }
    ls_trainer_destroy(&t);
    return s;
}

static void tensor_parallel_drops_the_same(void **state)
{
    (void)state;
    leg l[2];
    for (int k = 0; k < 2; k++) {
        l[k] = (leg){ .o = { LS_TRAINER_DEFAULTS, .device = "ref", .threads = 1, .param = LS_F64,
                             .output = LS_F64, .micro_batch = BATCH, .micro_batches = 1 } };
        l[k].o.parallel.mesh = (ls_mesh){ .n = 2, .axes = { { "dp", 1 }, { "tp", 1 + k } } };
        l[k].o.parallel.reduce = LS_F64;
        ASSERT_OK(run_ranks(1 + k, split_rank, &l[k]));
    }
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(l[0].losses[i] - l[1].losses[i]) < 1e-12))
            fail_msg("step %d: %.17g on one rank, %.17g over axis tp", i, l[0].losses[i], l[1].losses[i]);
}

static void a_name_serves_once(void **state)
{
    (void)state;
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "twice"));
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 4, 8));
    x = ls_dropout(g, "a", ls_dropout(g, "b", x, 0.5), 0.5);
    ASSERT_OK(ls_graph_status(g));
    ls_dropout(g, "a", x, 0.5);
    assert_int_equal(ls_graph_status(g), LS_E_ARG);
    assert_non_null(strstr(ls_error_message(), "\"a\""));
    ls_graph_destroy(&g);
    ASSERT_OK(ls_graph_create(&g, "no attention"));
    ls_attention_dropout(g, "a", ls_input(g, "x", LS_TYPE(LS_F32, 4, 8)), 0.5);
    assert_int_equal(ls_graph_status(g), LS_E_ARG);
    ls_graph_destroy(&g);
    ASSERT_OK(ls_graph_create(&g, "attention twice"));
    ls_value q = ls_input(g, "q", LS_TYPE(LS_F32, 2, 3, 8));
    ls_value y = ls_attention_dropout(g, "a", ls_attention(g, q, q, q, LS_NONE, 4, 0.5, false), 0.5);
    ASSERT_OK(ls_graph_status(g));
    ls_attention_dropout(g, "a", ls_attention(g, y, q, q, LS_NONE, 4, 0.5, false), 0.5);
    ASSERT_FAILS(ls_graph_status(g), LS_E_ARG, "\"a\"");
    ls_graph_destroy(&g);
    ASSERT_OK(ls_graph_create(&g, "too much"));
    ls_dropout(g, "a", ls_input(g, "x", LS_TYPE(LS_F32, 4, 8)), 1.0);
    assert_int_equal(ls_graph_status(g), LS_E_SHAPE);
    ls_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_in_any_layout), cmocka_unit_test(same_masks_in_any_micro_batch),
        cmocka_unit_test(resumes_on_other_ranks),  cmocka_unit_test(each_step_drops_others),
        cmocka_unit_test(only_training_drops),     cmocka_unit_test(tensor_parallel_drops_the_same),
        cmocka_unit_test(a_name_serves_once),
    };
    return cmocka_run_group_tests(tests, make_data, NULL);
}
