/* test_t5.c - T5 in the trainer, on ranks in every layout: losses and gradient norms have the bits of one
 * process, also with recomputed blocks and with dropout. All blocks use the relative positions of the first
 * one, so its gradient comes from all of them. Ranks are threads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"
#include "lockstep/models.h"
#include "support/ranks.h"
#include "support/support.h"
#include "step/trainer.h"

enum { STEPS = 5, M = 4, ROWS = 2, SOURCE = 9, TARGET = 6, VOCABULARY = 23 };
static const ls_t5_config RELU = { .source_length = SOURCE,
                                   .target_length = TARGET,
                                   .vocab_size = VOCABULARY,
                                   .hidden_size = 16,
                                   .mlp_size = 24,
                                   .layers = 2,
                                   .decoder_layers = 2,
                                   .heads = 4,
                                   .head_dim = 6,
                                   .buckets = 8,
                                   .max_distance = 6,
                                   .norm_eps = 1e-6,
                                   .init_factor = 1,
                                   .tied = true };

static ls_status build(ls_graph *g, const void *config, int64_t batch)
{
    return ls_t5_build(g, config, batch);
}

typedef struct job {
    const ls_t5_config *model;
    ls_trainer_opts o;
    double losses[STEPS], norms[STEPS];
} job;

/* Row `at` of the step's batch; lengths differ from row to row. */
static int64_t fill_row(int64_t at, int32_t *ids, int32_t *targets)
{
    const int64_t source = 2 + at % (SOURCE - 1), target = 1 + at % TARGET;
    for (int64_t i = 0; i < SOURCE; i++)
        ids[i] = i < source ? (int32_t)(1 + (at + i * i) % (VOCABULARY - 1)) : 0;
    for (int64_t i = 0; i < TARGET; i++)
        targets[i] = i < target ? ids[i % source] : -100; /* the model learns to copy */
    return target;
}

static ls_status train(ls_group *g, job *j, ls_trainer *t)
{
    const ls_share share = t->compiled.share;
    int32_t ids[M][ROWS][SOURCE], targets[M][ROWS][TARGET], other[SOURCE], others[TARGET];
    LS_TRY(ls_trainer_init(t, 3));
    for (int step = 0; step < STEPS; step++) {
        int64_t count = 0;
        for (int64_t at = 0; at < M * ROWS; at++)
            count += fill_row(at + 5 * step, other, others);
        for (int64_t k = 0; k < share.count; k++)
            for (int64_t r = 0; r < ROWS; r++)
                fill_row((share.first + k * share.stride) * ROWS + r + 5 * step, ids[k][r], targets[k][r]);
        ls_step_result r;
        LS_TRY(ls_trainer_step(t, ids, &targets[0][0][0], count, 1e-2, &r));
        if (ls_group_rank(g) == 0) {
            j->losses[step] = r.loss;
            j->norms[step] = r.grad_norm;
        } else {
            RANK_CHECK(isfinite(r.loss));
        }
    }
    return LS_OK;
}

static ls_status rank(ls_group *g, void *context)
{
    job *j = context;
    ls_trainer_opts o = j->o;
    ls_trainer *t;
    o.group = g;
    o.parallel.rank = ls_group_rank(g);
    LS_TRY(ls_trainer_create_with(&t, build, j->model, &o));
    const ls_status s = train(g, j, t);
    ls_trainer_destroy(&t);
    return s;
}

static job layout(const ls_t5_config *model, int dp, int shard, int tp, ls_data_parallel data)
{
    job j = { .model = model,
              .o = { LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = ROWS, .micro_batches = M,
                     .clip_norm = 0.5 } };
    j.o.parallel.mesh = (ls_mesh){ .n = 3, .axes = { { "dp", dp }, { "shard", shard }, { "tp", tp } } };
    j.o.parallel.data = data;
    j.o.parallel.units = "class:T5Block";
    return j;
}

static void run(job *j) { ASSERT_OK(run_ranks((int)ls_mesh_ranks(&j->o.parallel.mesh), rank, j)); }

static void expect(const job *is, const job *want, double tolerance)
{
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(is->losses[i] - want->losses[i]) <= tolerance * fabs(want->losses[i])) ||
            !(fabs(is->norms[i] - want->norms[i]) <= 20 * tolerance * want->norms[i]))
            fail_msg("step %d: loss %.12g, norm %.12g; of one process %.12g, %.12g", i, is->losses[i],
                     is->norms[i], want->losses[i], want->norms[i]);
}

static void the_same_bits(void **state)
{
    (void)state;
    ls_t5_config gated = RELU;
    gated.gated = true;
    gated.tied = false;
    gated.dropout = 0.1;
    static const struct {
        int dp, shard;
        ls_data_parallel data;
        const char *recompute;
        ls_dtype param;
        int threads;
        bool gated;
    } CASES[] = {
        { 1, 1, LS_DATA_FSDP, "class:T5Block", LS_F32, 2, false },
        { 2, 1, LS_DATA_FSDP, NULL, LS_F32, 1, false },
        { 4, 1, LS_DATA_FSDP, "class:T5Block", LS_F32, 1, false },
        { 2, 1, LS_DATA_DDP, NULL, LS_F32, 2, false },
        { 4, 1, LS_DATA_DDP, NULL, LS_F32, 1, true },
        { 2, 2, LS_DATA_HYBRID, "class:T5Block", LS_F32, 1, true },
        { 4, 1, LS_DATA_FSDP, NULL, LS_BF16, 1, false },
        { 2, 1, LS_DATA_FSDP, "class:T5Block", LS_BF16, 2, true },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        job one = layout(CASES[i].gated ? &gated : &RELU, 1, 1, 1, LS_DATA_FSDP),
            j = layout(one.model, CASES[i].dp, CASES[i].shard, 1, CASES[i].data);
        one.o.param = j.o.param = CASES[i].param;
        j.o.recompute = CASES[i].recompute;
        j.o.parallel.units = i % 2 ? "class:T5Block class:Embedding" : "class:T5Block";
        j.o.threads = CASES[i].threads;
        run(&one);
        run(&j);
        assert_true(one.losses[STEPS - 1] < one.losses[0] - 0.1); /* and it learns */
        expect(&j, &one, 0);
    }
}

/* Heads over axis tp take their part of the relative positions; data ranks beside it change no bit. */
static void over_axis_tp(void **state)
{
    (void)state;
    ls_t5_config gated = RELU;
    gated.gated = true;
    for (int k = 0; k < 2; k++) {
        const ls_t5_config *model = k ? &gated : &RELU;
        job one = layout(model, 1, 1, 1, LS_DATA_FSDP), two = layout(model, 1, 1, 2, LS_DATA_FSDP),
            four = layout(model, 2, 1, 2, LS_DATA_FSDP);
        four.o.recompute = "class:T5Block";
        run(&one);
        run(&two);
        run(&four);
        expect(&two, &one, 4e-6);
        expect(&four, &two, 0);
    }
    job three = layout(&RELU, 1, 1, 3, LS_DATA_FSDP);
    ls_compiled c;
    ASSERT_FAILS(ls_compile(&c, build, &RELU, &three.o, NULL), LS_E_USAGE,
                 "which the 3 ranks of axis tp do not divide");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_same_bits), cmocka_unit_test(over_axis_tp) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
