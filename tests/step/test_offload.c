/* test_offload.c - parallel.offload on a device whose memory is its own (emulated): transfers beside the
 * kernels and `update` on the host give the bits of the CPU, whatever the delays; and what `plan` says of
 * them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "golden/training.h"
#include "plan/describe.h"
#include "step/memory.h"
#include "support/ranks.h"
#include "support/small_vit.h"

enum { STEPS = 4, M = 4, ROWS = 2, PIXELS = 64, SAMPLES = M * ROWS + STEPS, SEEDS = 3 };
static const ls_vit_config VIT = { SMALL_VIT, .layers = 3 };
static uint8_t images[SAMPLES][PIXELS];
static int32_t labels[SAMPLES];

static int make_data(void **state)
{
    (void)state;
    draw_stripes(SAMPLES, images[0], labels);
    return 0;
}

typedef struct outcome {
    double losses[STEPS], norm, scale;
    uint64_t weights, averaged;
    int64_t waits;
} outcome;

typedef struct job {
    ls_trainer_opts o;
    outcome out;
} job;

static ls_status digest(ls_trainer *t, uint64_t *h)
{
    static _Thread_local ls_named_tensor p[128];
    const int n = training_parameters(t, p, 128);
    for (int i = 0; i < n; i++)
        *h = ls_hash64_more(*h, p[i].tensor.data, ls_type_bytes(&p[i].tensor.type));
    training_release(p, n);
    return n < 0 ? LS_E_PEER : LS_OK;
}

static ls_status train(ls_trainer *t, job *j, outcome *out)
{
    uint8_t mine[M][ROWS][PIXELS];
    int32_t mine_labels[M][ROWS];
    const ls_share share = t->compiled.share;
    LS_TRY(ls_trainer_init(t, 5));
    for (int step = 0; step < STEPS; step++) {
        for (int64_t k = 0; k < share.count; k++)
            for (int r = 0; r < ROWS; r++) {
                const int64_t sample = step + share.first + k * share.stride + r * M;
                memcpy(mine[k][r], images[sample], PIXELS);
                mine_labels[k][r] = labels[sample];
            }
        ls_step_result result;
        const int64_t before = ls_session_waits(t->session);
        LS_TRY(ls_trainer_step(t, &mine[0][0][0], &mine_labels[0][0], M * ROWS, 1e-2, &result));
        out->waits = ls_session_waits(t->session) - before;
        out->losses[step] = result.loss;
        out->norm = result.grad_norm;
        out->scale = result.loss_scale;
    }
    LS_TRY(digest(t, &out->weights));
    if (j->o.ema_decay > 0) {
        LS_TRY(ls_trainer_exchange_ema(t));
        LS_TRY(digest(t, &out->averaged));
        LS_TRY(ls_trainer_exchange_ema(t));
    }
    return LS_OK;
}

static ls_status rank(ls_group *g, void *context)
{
    job *j = context;
    ls_trainer_opts o = j->o;
    outcome mine = { 0 };
    ls_trainer *t;
    o.group = g;
    o.parallel.rank = ls_group_rank(g);
    LS_TRY(ls_trainer_create_with(&t, training_build_vit, &VIT, &o));
    const ls_status s = train(t, j, &mine);
    ls_trainer_destroy(&t);
    if (ls_group_rank(g) == 0)
        j->out = mine;
    return s;
}

static outcome run(const ls_trainer_opts *o, const char *device, int seed)
{
    job j = { .o = *o };
    char settings[64];
    j.o.device = device;
    snprintf(settings, sizeof settings, "seed=%d,delay=200us", seed);
    setenv("LOCKSTEP_EMULATED", settings, 1);
    if (run_ranks((int)ls_mesh_ranks(&o->parallel.mesh), rank, &j) != LS_OK)
        fail_msg("device %s, seed %d: %s", device, seed, ls_error_message());
    unsetenv("LOCKSTEP_EMULATED");
    return j.out;
}

static ls_trainer_opts options(int dp, int shard)
{
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = ROWS, .micro_batches = M };
    ls_parallel *p = &o.parallel;
    p->mesh = (ls_mesh){ .n = shard ? 2 : 1, .axes = { { "dp", dp }, { "shard", shard } } };
    p->data = shard ? LS_DATA_HYBRID : LS_DATA_FSDP;
    p->offload = LS_OFFLOAD_CPU;
    p->gather = LS_GATHER_COPY;
    p->units = "class:EncoderBlock";
    return o;
}

/* On the CPU once, on device emulated with several seeds. */
static void compare(const ls_trainer_opts *o, const char *what)
{
    const outcome want = run(o, "cpu", 0);
    for (int seed = 1; seed <= SEEDS; seed++) {
        const outcome got = run(o, "emulated", seed);
        if (memcmp(got.losses, want.losses, sizeof want.losses) || got.norm != want.norm ||
            got.scale != want.scale || got.weights != want.weights || got.averaged != want.averaged)
            fail_msg("%s, %d ranks, seed %d: other numbers than on the CPU", what,
                     (int)ls_mesh_ranks(&o->parallel.mesh), seed);
        assert_int_equal(got.waits, 1);
    }
}

static void the_bits_of_the_cpu(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks *= 2) {
        ls_trainer_opts o = options(ranks, 0);
        compare(&o, "fsdp");
        o.parallel.prefetch_forward = o.parallel.prefetch_backward = 3;
        o.parallel.reshard_after_forward = 0;
        o.clip_norm = 0.5;
        compare(&o, "prefetch 3, kept units, clip");
        o.parallel.prefetch_memory = 20000;
        o.recompute = "class:EncoderBlock";
        o.accumulation = LS_SUM_RUNNING;
        compare(&o, "prefetch by memory, recompute, running sums");
        o.parallel.synchronize = LS_SYNCHRONIZE_ONCE;
        o.ema_decay = 0.9;
        compare(&o, "gradients reduced once, averaged weights");
    }
    ls_trainer_opts o = options(2, 2);
    compare(&o, "hybrid");
}

static void sixteen_bits(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        ls_trainer_opts o = options(ranks, 0);
        o.param = LS_F16;
        o.ema_decay = 0.5;
        compare(&o, "f16");
        o.param = LS_BF16;
        o.parallel.synchronize = LS_SYNCHRONIZE_ONCE;
        compare(&o, "bf16");
    }
}

/* A step moves each parameter to the device once for each micro-batch, and its gradient back; update moves
 * nothing. */
static void what_a_step_moves(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++)
        for (int once = 0; once < 2; once++) {
            ls_trainer_opts o = options(ranks, 0);
            ls_compiled c;
            o.device = "emulated";
            o.parallel.reshard_after_forward = 0;
            o.parallel.synchronize = once ? LS_SYNCHRONIZE_ONCE : LS_SYNCHRONIZE_EACH;
            ASSERT_OK(ls_compile(&c, training_build_vit, &VIT, &o, NULL));
            assert_string_equal(c.updater.ops->name, "cpu");
            assert_true(c.plans[LS_UPDATE]->on_host && !c.plans[LS_MICRO]->on_host);
            ls_transfers t;
            ls_plans_transfers(&t, 2, c.plans, (int64_t[]){ c.share.count, 1 });
            const double slice = (double)c.units.slice * 4, whole = (double)c.units.elements * 4;
            assert_true(t.fetched == (double)c.share.count * slice);
            assert_true(t.rested == (double)c.share.count * (once ? whole : slice));
            double down = 0, up = 0;
            for (int k = 0; k < c.plans[LS_MICRO]->n_transfers; k++)
                *(c.plans[LS_MICRO]->transfers[k].to_host
                      ? &up
                      : &down) += (double)c.plans[LS_MICRO]->transfers[k].bytes;
            assert_true(down * (double)c.share.count == t.fetched && up * (double)c.share.count == t.rested);
            ls_compiled_release(&c);
        }
}

/* All that update names, and its arena, is in host memory. */
static void where_memory_is(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++) {
        ls_trainer_opts o = options(ranks, 0);
        ls_compiled c;
        o.ema_decay = 0.9;
        o.device = "emulated";
        ASSERT_OK(ls_compile(&c, training_build_vit, &VIT, &o, NULL));
        const ls_plan *update = c.plans[LS_UPDATE], *micro = c.plans[LS_MICRO];
        size_t named = 0;
        for (int i = 0; i < update->n_allocs; i++) {
            assert_true(update->allocs[i].host);
            named += ls_is_lasting(&update->allocs[i]);
        }
        assert_true(named > 4);
        for (int i = 0; i < micro->n_allocs; i++)
            if (micro->allocs[i].is.what == LS_IS_LARGEST_LOSS ||
                micro->allocs[i].is.what == LS_IS_GRADIENT || micro->allocs[i].is.what == LS_IS_UNIT)
                assert_true(micro->allocs[i].host);
        const ls_step_memory m = ls_compiled_memory(&c);
        /* parameters, gradients, two moments and the average; levels of the tree; room to exchange averages
         */
        assert_true(m.offloaded >=
                    (size_t)c.units.slice * 4 * 5 + c.spares.level_bytes + c.spares.scratch_bytes);
        o.parallel.offload = LS_OFFLOAD_NONE;
        ls_compiled all;
        ASSERT_OK(ls_compile(&all, training_build_vit, &VIT, &o, NULL));
        assert_true(m.device + (size_t)c.units.slice * 4 * 3 < ls_compiled_memory(&all).device);
        ls_compiled_release(&all);
        ls_compiled_release(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_of_the_cpu),
        cmocka_unit_test(sixteen_bits),
        cmocka_unit_test(what_a_step_moves),
        cmocka_unit_test(where_memory_is),
    };
    return cmocka_run_group_tests(tests, make_data, NULL);
}
