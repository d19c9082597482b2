/* test_ranks.c - one step laid over ranks in every way: losses and final weights have the bits of one
 * process. Ranks are threads, so that the sanitizers see all of them; tests/cli/ranks.sh does the same with
 * processes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "comm/comm.h"
#include "comm/fault.h"
#include "golden/training.h"
#include "support/mapping.h"
#include "support/ranks.h"
#include "support/small_vit.h"
#include "step/memory.h"
#include "step/state.h"

enum { STEPS = 30, M = 8, ROWS = 2, PIXELS = 64, SAMPLES = M * ROWS + STEPS };
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
    double losses[STEPS], norm;
    uint64_t weights;
    int computed[M]; /* how often each micro-batch of the first step was computed, over all ranks */
} outcome;

typedef struct job {
    ls_trainer_opts o;
    int steps;
    const ls_fault *fault;
    outcome out;
} job;

static uint64_t digest(ls_trainer *t, ls_status *s)
{
    static _Thread_local ls_named_tensor p[128];
    const int n = training_parameters(t, p, 128);
    uint64_t h = 0;
    *s = n < 0 ? LS_E_PEER : LS_OK;
    for (int i = 0; i < n; i++)
        h = ls_hash64_more(ls_hash64_more(h, p[i].name, strlen(p[i].name)), p[i].tensor.data,
                           ls_type_bytes(&p[i].tensor.type));
    training_release(p, n);
    return h;
}

static ls_status train(ls_group *g, job *j, ls_trainer *t)
{
    uint8_t mine[M][ROWS][PIXELS];
    int32_t mine_labels[M][ROWS];
    const ls_share share = t->compiled.share;
    LS_TRY(ls_trainer_init(t, 5));
    if (j->fault)
        ls_group_inject(g, j->fault);
    for (int step = 0; step < j->steps; step++) {
        for (int64_t k = 0; k < share.count; k++)
            for (int r = 0; r < ROWS; r++) {
                /* rows m, m + M, ... of the step's batch */
                const int64_t m = share.first + k * share.stride, sample = step + m + r * M;
                memcpy(mine[k][r], images[sample], PIXELS);
                mine_labels[k][r] = labels[sample];
                if (step == 0 && r == 0)
                    __atomic_add_fetch(&j->out.computed[m], 1, __ATOMIC_RELAXED);
            }
        ls_step_result result;
        LS_TRY(
            ls_trainer_step(t, &mine[0][0][0], &mine_labels[0][0], j->o.micro_batches * ROWS, 1e-2, &result));
        if (ls_group_rank(g) == 0) {
            j->out.losses[step] = result.loss;
            j->out.norm = result.grad_norm;
        } else if (step == 0) {
            LS_TRY(isfinite(result.loss) ? LS_OK
                                         : ls_fail(LS_E_INTERNAL, "no loss on rank %d", ls_group_rank(g)));
        }
    }
    ls_status s;
    const uint64_t h = digest(t, &s);
    if (ls_group_rank(g) == 0)
        j->out.weights = h;
    return s;
}

static ls_status rank(ls_group *g, void *context)
{
    job *j = context;
    ls_trainer_opts o = j->o;
    ls_trainer *t;
    o.group = g;
    o.parallel.rank = ls_group_rank(g);
    LS_TRY(ls_trainer_create_with(&t, training_build_vit, &VIT, &o));
    const ls_status s = train(g, j, t);
    ls_trainer_destroy(&t);
    return s;
}

static ls_trainer_opts options(int dp, int shard)
{
    ls_trainer_opts o = { LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = ROWS, .micro_batches = M };
    o.parallel.mesh = (ls_mesh){ .n = shard ? 2 : 1, .axes = { { "dp", dp }, { "shard", shard } } };
    return o;
}

static const char *text(const ls_trainer_opts *o)
{
    static char s[300];
    const ls_parallel *p = &o->parallel;
    char mesh[128];
    snprintf(
        s, sizeof s,
        "%s, data %d, units %s, reshard %lld, gather %d, prefetch %lld %lld, offload %d, synchronize %d, "
        "recompute %s, %s",
        ls_mesh_text(mesh, &p->mesh), p->data, p->units, (long long)p->reshard_after_forward, p->gather,
        (long long)p->prefetch_forward, (long long)p->prefetch_backward, p->offload, p->synchronize,
        o->recompute ? o->recompute : "none", ls_dtype_name(o->param));
    return s;
}

static outcome run(const ls_trainer_opts *o, int steps, const ls_fault *fault)
{
    job j = { .o = *o, .steps = steps, .fault = fault };
    const int ranks = (int)ls_mesh_ranks(&o->parallel.mesh);
    if (run_ranks(ranks, rank, &j) != LS_OK)
        fail_msg("%s: %s", text(o), ls_error_message());
    for (int m = 0; m < o->micro_batches; m++)
        if (j.out.computed[m] != 1)
            fail_msg("%s: micro-batch %d was computed %d times", text(o), m, j.out.computed[m]);
    return j.out;
}

static void expect_same(const ls_trainer_opts *o, const outcome *want, int steps, const ls_fault *fault)
{
    const outcome got = run(o, steps, fault);
    for (int k = 0; k < steps; k++)
        if (got.losses[k] != want->losses[k])
            fail_msg("%s: loss of step %d is %.17g, with one rank %.17g", text(o), k, got.losses[k],
                     want->losses[k]);
    if (got.norm != want->norm)
        fail_msg("%s: norm %.17g, with one rank %.17g", text(o), got.norm, want->norm);
    if (got.weights != want->weights)
        fail_msg("%s: other weights after %d steps", text(o), steps);
}

static const char *const UNITS[] = { "none", "class:EncoderBlock", "size:1000",
                                     "class:MLPBlock pattern:encoder.layers.* class:Conv2d" };

/* ls_parallel number `i` of the whole product, or false where the combination is refused (map with offload; N
 * that is not a block of the axis). */
static bool combination(int i, ls_trainer_opts *o)
{
    static const struct {
        int dp, shard;
        ls_data_parallel data;
    } MESHES[] = {
        { 2, 0, LS_DATA_DDP },    { 4, 0, LS_DATA_DDP },  { 2, 0, LS_DATA_FSDP },   { 4, 0, LS_DATA_FSDP },
        { 2, 2, LS_DATA_HYBRID }, { 2, 2, LS_DATA_FSDP }, { 1, 4, LS_DATA_HYBRID }, { 2, 2, LS_DATA_DDP },
    };
    static const int64_t RESHARD[] = { -1, 0, 2 };
    const int mesh = i % 8, reshard = i / 8 % 3, gather = i / 24 % 2, each = i / 48 % 2, units = i / 96 % 4,
              prefetch = i / 384 % 4, recompute = i / 1536 % 2, offload = i / 3072 % 2;
    *o = options(MESHES[mesh].dp, MESHES[mesh].shard);
    ls_parallel *p = &o->parallel;
    p->data = MESHES[mesh].data;
    p->reshard_after_forward = RESHARD[reshard];
    p->gather = mapping_or_auto(gather ? LS_GATHER_COPY : LS_GATHER_MAP);
    p->synchronize = each ? LS_SYNCHRONIZE_EACH : LS_SYNCHRONIZE_ONCE;
    p->units = UNITS[units];
    p->prefetch_forward = prefetch;
    p->prefetch_backward = prefetch == 3 ? LS_BACKWARD_POST : prefetch;
    p->prefetch_memory = prefetch == 2 ? 25000 : 0; /* some blocks */
    p->offload = offload ? LS_OFFLOAD_CPU : LS_OFFLOAD_NONE;
    p->bucket_bytes = 4000;
    o->recompute = recompute ? "class:EncoderBlock" : NULL;
    o->clip_norm = 0.5;
    return ls_parallel_check(p) == LS_OK;
}
enum { COMBINATIONS = 6144 };

static int stride(void)
{
#if defined(LS_ASAN) || defined(LS_TSAN) || defined(LS_DEV)
    return 61; /* coprime to every factor: each value of each setting comes up */
#else
    return 7;
#endif
}

static void every_layout(void **state)
{
    (void)state;
    ls_trainer_opts o = options(1, 0);
    o.clip_norm = 0.5;
    const outcome one = run(&o, 2, NULL);
    int tried = 0;
    for (int i = 0; i < COMBINATIONS; i += stride())
        if (combination(i, &o)) {
            expect_same(&o, &one, 2, NULL);
            tried++;
        }
    assert_true(tried > 30);
}

/* The long way, for one layout of each kind. */
static void thirty_steps(void **state)
{
    (void)state;
    ls_trainer_opts o = options(1, 0);
    const outcome one = run(&o, STEPS, NULL);
    assert_true(one.losses[STEPS - 1] < 0.9 * one.losses[0]);
    for (int ranks = 2; ranks <= 4; ranks *= 2)
        for (int data = 0; data < 2; data++)
            for (int gather = 0; gather < 2; gather++) {
                o = options(ranks, 0);
                o.parallel.data = data ? LS_DATA_DDP : LS_DATA_FSDP;
                o.parallel.units = UNITS[1];
                o.parallel.gather = mapping_or_auto(gather ? LS_GATHER_COPY : LS_GATHER_MAP);
                expect_same(&o, &one, STEPS, NULL);
            }
    o = options(2, 2);
    o.parallel.data = LS_DATA_HYBRID;
    expect_same(&o, &one, STEPS, NULL);
}

/* Ranks that come late at random points must find nothing overwritten: the memory rule, broken on purpose by
 * shortening a lifetime in plan/storage.c, fails here. */
static void delays(void **state)
{
    (void)state;
    ls_trainer_opts o = options(1, 0);
    const outcome one = run(&o, 4, NULL);
    for (int gather = 0; gather < 2; gather++)
        for (int reshard = 0; reshard < 3; reshard++)
            for (uint64_t seed = 1; seed <= 2; seed++) {
                o = options(4, 0);
                o.parallel.units = UNITS[1];
                o.parallel.gather = mapping_or_auto(gather ? LS_GATHER_COPY : LS_GATHER_MAP);
                o.parallel.reshard_after_forward = reshard == 2 ? 2 : -reshard;
                const ls_fault fault = { .kind = LS_FAULT_DELAY, .at = -1, .seconds = 5e-4, .seed = seed };
                expect_same(&o, &one, 4, &fault);
            }
}

/* Products in bf16 or f16, sums in f32: still the same bits; sums rounded to bf16, or three ranks: close. */
static void mixed_precision(void **state)
{
    (void)state;
    for (int half = 0; half < 2; half++) {
        ls_trainer_opts o = options(1, 0);
        o.param = half ? LS_F16 : LS_BF16;
        const outcome one = run(&o, 6, NULL);
        for (int gather = 0; gather < 2; gather++)
            for (int data = 0; data < 2; data++) {
                o.parallel = options(4, 0).parallel;
                o.parallel.data = data ? LS_DATA_DDP : LS_DATA_FSDP;
                o.parallel.units = UNITS[1];
                o.parallel.gather = mapping_or_auto(gather ? LS_GATHER_COPY : LS_GATHER_MAP);
                expect_same(&o, &one, 6, NULL);
            }
        o.modules = "class:LayerNorm=f32 class:MLPBlock=f16,output=f32";
        o.parallel.mesh.axes[0].size = 1;
        const outcome mixed = run(&o, 6, NULL);
        o.parallel.mesh.axes[0].size = 4;
        expect_same(&o, &mixed, 6, NULL);
        o.parallel.reduce = LS_BF16;
        const outcome rounded = run(&o, 6, NULL);
        assert_true(rounded.weights != one.weights);
        for (int k = 0; k < 6; k++)
            assert_true(fabs(rounded.losses[k] - one.losses[k]) < 0.03 * one.losses[k]);
    }
}

/* Three ranks add in another order; every layout of them in the same. */
static void three_ranks(void **state)
{
    (void)state;
    ls_trainer_opts o = options(1, 0);
    o.micro_batches = 6;
    const outcome one = run(&o, 10, NULL);
    outcome first = { 0 };
    double worst = 0;
    for (int how = 0; how < 3; how++) {
        o = options(3, 0);
        o.micro_batches = 6;
        o.parallel.data = how == 2 ? LS_DATA_DDP : LS_DATA_FSDP;
        o.parallel.synchronize = LS_SYNCHRONIZE_EACH;
        o.parallel.gather = mapping_or_auto(how == 1 ? LS_GATHER_COPY : LS_GATHER_MAP);
        o.parallel.units = UNITS[1];
        const outcome three = run(&o, 10, NULL);
        for (int k = 0; k < 10; k++)
            worst = fmax(worst, fabs(three.losses[k] / one.losses[k] - 1));
        assert_true(worst < 1e-5);
        first = how ? first : three;
        assert_true(three.weights == first.weights);
    }
    print_message("losses of three ranks and of one: relative difference up to %.1e in 10 steps\n", worst);
}

static void reference_device(void **state)
{
    (void)state;
    ls_trainer_opts o = options(1, 0);
    o.param = o.output = LS_F64;
    o.device = "ref";
    job one = { .o = o, .steps = 2 }, four = { .o = options(4, 0), .steps = 2 };
    four.o.param = four.o.output = LS_F64;
    four.o.device = "ref";
    four.o.parallel.units = UNITS[1];
    ASSERT_OK(run_ranks(1, rank, &one));
    ASSERT_OK(run_ranks(4, rank, &four));
    assert_true(one.out.losses[1] == four.out.losses[1]);
    assert_true(one.out.weights == four.out.weights);
}

/* Some parameters stay as they are: units without gradients, gathered like the others. */
static void frozen_parameters(void **state)
{
    (void)state;
    static const char FREEZE[] =
        "conv_proj encoder.layers.encoder_layer_1 encoder.layers.encoder_layer_2.ln_1";
    ls_trainer_opts o = options(1, 0);
    o.clip_norm = 0.5;
    o.freeze = FREEZE;
    const outcome one = run(&o, 3, NULL);
    o.freeze = NULL;
    assert_true(run(&o, 3, NULL).weights != one.weights);
    for (int i = 0; i < COMBINATIONS; i += 5 * stride())
        if (combination(i, &o)) {
            o.freeze = FREEZE;
            expect_same(&o, &one, 3, NULL);
        }
}

static ls_status device_bytes(ls_trainer_opts o, size_t *bytes)
{
    ls_compiled c;
    o.elsewhere = true;
    LS_TRY(ls_compile(&c, training_build_vit, &VIT, &o, NULL));
    const ls_step_memory m = ls_compiled_memory(&c);
    *bytes = m.device + m.plans.node;
    ls_compiled_release(&c);
    return LS_OK;
}

/* Device memory between what a step needs with and without its parameters, gradients and moments: refused
 * without offload, trained with it. */
static void offload_fits(void **state)
{
    (void)state;
    const outcome one = run(
        &(ls_trainer_opts){ LS_TRAINER_DEFAULTS, .threads = 1, .micro_batch = ROWS, .micro_batches = M }, 3,
        NULL);
    for (int ranks = 1; ranks <= 2; ranks++) {
        ls_trainer_opts o = options(ranks, 0);
        size_t all = 0, rest = 0;
        o.parallel.units = UNITS[1];
        o.parallel.gather = LS_GATHER_COPY;
        ASSERT_OK(device_bytes(o, &all));
        o.parallel.offload = LS_OFFLOAD_CPU;
        ASSERT_OK(device_bytes(o, &rest));
        assert_true(rest + 4096 < all);
        o.parallel.device_memory = (int64_t)(all + rest) / 2;
        expect_same(&o, &one, 3, NULL);
        o.parallel.offload = LS_OFFLOAD_NONE;
        ASSERT_FAILS(device_bytes(o, &all), LS_E_UNSUPPORTED, "device_memory", "offload: cpu");
    }
}

/* BACKWARD_POST needs the memory of a gather that nothing hides, less than BACKWARD_PRE. */
static void post_needs_less_memory_than_pre(void **state)
{
    (void)state;
    static const int64_t BACKWARD[] = { 0, LS_BACKWARD_POST, 1 };
    size_t bytes[3];
    for (int i = 0; i < 3; i++) {
        ls_trainer_opts o = options(2, 0);
        o.parallel.units = UNITS[1];
        o.parallel.gather = LS_GATHER_COPY;
        o.parallel.prefetch_backward = BACKWARD[i];
        ASSERT_OK(device_bytes(o, &bytes[i]));
    }
    assert_true(bytes[1] == bytes[0] && bytes[1] < bytes[2]);
}

static ls_status other_programs(ls_group *g, void *context)
{
    (void)context;
    ls_trainer_opts o = options(2, 0);
    o.recompute = ls_group_rank(g) == 1 ? "class:EncoderBlock" : NULL;
    ls_trainer *t;
    o.group = g;
    o.parallel.rank = ls_group_rank(g);
    const ls_status s = ls_trainer_create_with(&t, training_build_vit, &VIT, &o);
    if (s == LS_OK)
        ls_trainer_destroy(&t);
    return s;
}

static void different_programs(void **state)
{
    (void)state;
    assert_true(run_ranks(2, other_programs, NULL) != LS_OK);
    assert_non_null(strstr(ls_error_message(), "rank 1 would run another program than rank 0"));
}

/* ---- what one rank alone cannot do */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout),
        cmocka_unit_test(thirty_steps),
        cmocka_unit_test(delays),
        cmocka_unit_test(mixed_precision),
        cmocka_unit_test(three_ranks),
        cmocka_unit_test(reference_device),
        cmocka_unit_test(frozen_parameters),
        cmocka_unit_test(offload_fits),
        cmocka_unit_test(post_needs_less_memory_than_pre),
        cmocka_unit_test(different_programs),
    };
    return cmocka_run_group_tests(tests, make_data, NULL);
}
