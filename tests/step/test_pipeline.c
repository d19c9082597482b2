/* test_pipeline.c - a model in stages: losses, norms, parameters and evaluations have the bits of one
 * process, with every schedule and beside every other axis. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/models.h"
#include "passes/pipeline_order.h"
#include "passes/stages.h"
#include "step/memory.h"
#include "step/split_model.h"
#include "step/trainer.h"
#include "support/support.h"

static job staged(int dp, int tp, int pp, ls_pipeline_schedule schedule)
{
    job j = layout(dp, 1, tp, LS_DATA_FSDP);
    j.model.layers = 4;
    j.o.parallel.mesh = (ls_mesh){ .n = 3, .axes = { { "dp", dp }, { "pp", pp }, { "tp", tp } } };
    j.o.parallel.schedule = schedule;
    return j;
}

static void equal(const job *is, const job *want)
{
    for (int i = 0; i < STEPS; i++)
        if (is->losses[i] != want->losses[i] || is->norms[i] != want->norms[i])
            fail_msg("step %d: loss %.17g, norm %.17g; of one process %.17g, %.17g", i, is->losses[i],
                     is->norms[i], want->losses[i], want->norms[i]);
    assert_memory_equal(is->rows, want->rows, sizeof want->rows);
    assert_memory_equal(is->predicted, want->predicted, sizeof want->predicted);
}

/* The tied table is read by the first stage and the last. */
static void bits_of_one_process(void **state)
{
    (void)state;
    static const struct {
        int dp, pp;
        ls_pipeline_schedule schedule;
        ls_data_parallel data;
        ls_gather_choice gather;
        const char *recompute, *stages;
        bool untied;
    } CASES[] = {
        { 1, 2, LS_SCHEDULE_1F1B, LS_DATA_FSDP, LS_GATHER_AUTO, NULL, "auto", false },
        { 1, 4, LS_SCHEDULE_GPIPE, LS_DATA_NONE, LS_GATHER_AUTO, NULL, "auto", false },
        { 1, 2, LS_SCHEDULE_GPIPE, LS_DATA_FSDP, LS_GATHER_AUTO, "class:Block", "1 3", true },
        { 2, 2, LS_SCHEDULE_1F1B, LS_DATA_FSDP, LS_GATHER_AUTO, NULL, "auto", true },
        { 2, 2, LS_SCHEDULE_1F1B, LS_DATA_FSDP, LS_GATHER_COPY, "class:Block", "auto", false },
        { 2, 2, LS_SCHEDULE_GPIPE, LS_DATA_DDP, LS_GATHER_AUTO, NULL, "3 1", false },
        { 1, 2, LS_SCHEDULE_ZERO_BUBBLE, LS_DATA_FSDP, LS_GATHER_AUTO, NULL, "auto", false },
        { 1, 4, LS_SCHEDULE_ZERO_BUBBLE, LS_DATA_FSDP, LS_GATHER_AUTO, "class:Block", "auto", true },
        { 2, 2, LS_SCHEDULE_ZERO_BUBBLE, LS_DATA_FSDP, LS_GATHER_COPY, NULL, "auto", false },
        { 1, 2, LS_SCHEDULE_INTERLEAVED, LS_DATA_NONE, LS_GATHER_AUTO, NULL, "auto", false },
        { 1, 4, LS_SCHEDULE_INTERLEAVED, LS_DATA_FSDP, LS_GATHER_AUTO, NULL, "auto", true },
        { 2, 2, LS_SCHEDULE_INTERLEAVED, LS_DATA_FSDP, LS_GATHER_COPY, "class:Block", "auto", false },
        { 2, 2, LS_SCHEDULE_INTERLEAVED, LS_DATA_DDP, LS_GATHER_AUTO, NULL, "1 2 2 3", true },
    };
    for (int which = 0; which < 4; which++) {
        const bool untied = which % 2, many = which / 2; /* stages on each rank */
        job one = staged(1, 1, 1, LS_SCHEDULE_1F1B);
        one.model.tied = !untied;
        one.model.layers = many ? 8 : 4;
        run_job(&one);
        assert_true(one.losses[STEPS - 1] < one.losses[0]);
        for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
            job j = staged(CASES[i].dp, 1, CASES[i].pp, CASES[i].schedule);
            j.model.tied = !untied;
            j.model.layers = one.model.layers;
            j.o.parallel.data = CASES[i].data;
            j.o.parallel.gather = CASES[i].gather;
            j.o.parallel.stages = CASES[i].stages;
            j.o.recompute = CASES[i].recompute;
            if (CASES[i].untied != untied || (CASES[i].schedule == LS_SCHEDULE_INTERLEAVED) != many)
                continue;
            run_job(&j);
            equal(&j, &one);
        }
    }
}

static void beside_split_layers(void **state)
{
    (void)state;
    job two = staged(1, 2, 1, LS_SCHEDULE_1F1B), four = staged(1, 2, 2, LS_SCHEDULE_1F1B);
    run_job(&two);
    run_job(&four);
    equal(&four, &two);
}

/* Tokens split over an axis that has the place of tp: sums over tokens have another order than in one
 * process, and the number of stages changes no bit. */
static void beside_split_tokens(void **state)
{
    (void)state;
    static const struct {
        int dp, pp;
        ls_pipeline_schedule schedule;
        const char *recompute;
    } CASES[] = {
        { 1, 1, LS_SCHEDULE_1F1B, NULL },
        { 1, 2, LS_SCHEDULE_INTERLEAVED, NULL },
        { 2, 2, LS_SCHEDULE_ZERO_BUBBLE, "class:Block" },
    };
    job one = staged(1, 1, 1, LS_SCHEDULE_1F1B), split[sizeof CASES / sizeof *CASES];
    one.o.device = "ref";
    one.o.param = one.o.output = one.o.parallel.reduce = LS_F64;
    run_job(&one);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        job *j = &split[i];
        *j = staged(CASES[i].dp, 2, CASES[i].pp, CASES[i].schedule);
        j->o.parallel.mesh.roles[2] = LS_ROLE_CONTEXT;
        j->o.device = "ref";
        j->o.param = j->o.output = j->o.parallel.reduce = LS_F64;
        j->o.recompute = CASES[i].recompute;
        run_job(j);
        for (int k = 0; k < STEPS; k++)
            if (!(fabs(j->losses[k] - one.losses[k]) < 1e-12) || !(fabs(j->norms[k] - one.norms[k]) < 1e-12))
                fail_msg("case %zu, step %d: loss %.17g, norm %.17g; of one process %.17g, %.17g", i, k,
                         j->losses[k], j->norms[k], one.losses[k], one.norms[k]);
        assert_memory_equal(j->predicted, one.predicted, sizeof one.predicted);
        equal(j, &split[0]);
    }
}

static void in_f64(void **state)
{
    (void)state;
    job one;
    for (int k = 0; k < 4; k++) {
        job j = k ? staged(1, 1, 2,
                           (ls_pipeline_schedule[]){ 0, LS_SCHEDULE_1F1B, LS_SCHEDULE_ZERO_BUBBLE,
                                                     LS_SCHEDULE_INTERLEAVED }[k])
                  : staged(1, 1, 1, LS_SCHEDULE_1F1B);
        j.o.device = "ref";
        j.o.param = j.o.output = j.o.parallel.reduce = LS_F64;
        run_job(&j);
        if (k)
            equal(&j, &one);
        else
            one = j;
    }
}

/* Stages whose devices have memory and queues of their own: messages pass through the hosts, whatever the
 * queues' delays, also beside collectives that go over links. */
static void on_devices_with_memory_of_their_own(void **state)
{
    (void)state;
    static const struct {
        int dp, tp, pp;
        ls_pipeline_schedule schedule;
        const char *settings, *recompute;
    } CASES[] = {
        { 1, 1, 2, LS_SCHEDULE_1F1B, "seed=1,delay=20us", NULL },
        { 1, 1, 4, LS_SCHEDULE_ZERO_BUBBLE, "seed=2,delay=50us", NULL },
        { 2, 1, 2, LS_SCHEDULE_INTERLEAVED, "seed=3,delay=20us", "class:Block" },
        { 2, 1, 2, LS_SCHEDULE_1F1B, "seed=4,delay=20us,links=1", "class:Block save:linear" },
        { 1, 2, 2, LS_SCHEDULE_1F1B, "seed=5,delay=20us,links=1", NULL },
        { 1, 2, 2, LS_SCHEDULE_INTERLEAVED, "seed=6,delay=20us", NULL },
    };
    job want[2] = { staged(1, 1, 1, LS_SCHEDULE_1F1B), staged(1, 2, 1, LS_SCHEDULE_1F1B) };
    run_job(&want[0]);
    run_job(&want[1]);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        job j = staged(CASES[i].dp, CASES[i].tp, CASES[i].pp, CASES[i].schedule);
        j.o.device = "emulated";
        j.o.recompute = CASES[i].recompute;
        setenv("LOCKSTEP_EMULATED", CASES[i].settings, 1);
        run_job(&j);
        unsetenv("LOCKSTEP_EMULATED");
        equal(&j, &want[CASES[i].tp - 1]);
    }
}

/* A checkpoint does not know the stages of the run that wrote it. */
static void checkpoints_go_anywhere(void **state)
{
    (void)state;
    const char *path[2] = { ls_test_path("of-one"), ls_test_path("of-two") };
    job one = staged(1, 1, 1, LS_SCHEDULE_1F1B), two = staged(1, 1, 2, LS_SCHEDULE_1F1B);
    one.save = path[0];
    two.save = path[1];
    run_job(&one);
    run_job(&two);
    static const struct {
        int dp, pp, from;
        ls_pipeline_schedule schedule;
    } CASES[] = { { 1, 1, 1, LS_SCHEDULE_1F1B },
                  { 1, 4, 1, LS_SCHEDULE_ZERO_BUBBLE },
                  { 2, 2, 0, LS_SCHEDULE_INTERLEAVED } };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        job j = staged(CASES[i].dp, 1, CASES[i].pp, CASES[i].schedule);
        j.load = path[CASES[i].from];
        j.first = STEPS / 2;
        run_job(&j);
        for (int k = j.first; k < STEPS; k++)
            assert_true(j.losses[k] == one.losses[k] && j.norms[k] == one.norms[k]);
    }
}

/* ---- orders */

/* "F0.1" is the forward pass of stage 0 over micro-batch 1. */
static void orders(void **state)
{
    (void)state;
    static const struct {
        ls_pipeline_shape shape;
        int rank;
        const char *passes;
    } CASES[] = {
        { { LS_SCHEDULE_GPIPE, 2, 1, 2 }, 1, "F1.0 F1.1 B1.0 B1.1" },
        { { LS_SCHEDULE_1F1B, 2, 1, 3 }, 0, "F0.0 F0.1 B0.0 F0.2 B0.1 B0.2" },
        { { LS_SCHEDULE_ZERO_BUBBLE, 2, 1, 3 }, 0, "F0.0 F0.1 I0.0 W0.0 F0.2 I0.1 W0.1 I0.2 W0.2" },
        { { LS_SCHEDULE_ZERO_BUBBLE, 2, 1, 3 }, 1, "F1.0 I1.0 F1.1 I1.1 W1.0 F1.2 I1.2 W1.1 W1.2" },
        /* as Megatron's: rank 0 of 2 runs four forward passes ahead, rank 1 two */
        { { LS_SCHEDULE_INTERLEAVED, 2, 2, 4 },
          0,
          "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 B0.1 B2.2 B2.3 B0.2 B0.3" },
        { { LS_SCHEDULE_INTERLEAVED, 2, 2, 4 },
          1,
          "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 B3.2 F3.3 B3.3 B1.2 B1.3" },
        { { LS_SCHEDULE_INTERLEAVED, 2, 2, 1 }, 1, "F1.0 F3.0 B3.0 B1.0" }, /* an evaluation */
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        ls_stage_pass passes[32];
        char text[512] = "";
        ls_pipeline_order(passes, &CASES[i].shape, CASES[i].rank);
        for (int64_t k = 0; k < ls_pipeline_passes(&CASES[i].shape); k++)
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%c%d.%d", k ? " " : "",
                     "FBIW"[passes[k].work], passes[k].stage, (int)passes[k].micro);
        assert_string_equal(text, CASES[i].passes);
    }
}

/* Of one forward pass' time f: a backward pass takes 2 f, so m micro-batches take 3 m f, and all schedules
 * but zero_bubble wait for one pass each way of each other rank; that of a chunk is shorter. */
static void idle_shares(void **state)
{
    (void)state;
    static const ls_pipeline_schedule ALL[] = { LS_SCHEDULE_GPIPE, LS_SCHEDULE_1F1B, LS_SCHEDULE_ZERO_BUBBLE,
                                                LS_SCHEDULE_INTERLEAVED };
    for (int p = 2; p <= 9; p++)
        for (int64_t m = 1; m <= 3 * p; m++)
            for (int chunks = 1; chunks <= 5; chunks++)
                for (int k = 0; k < 4; k++) {
                    const ls_pipeline_shape s = { ALL[k], p, chunks, m };
                    double idle;
                    const bool many = ALL[k] == LS_SCHEDULE_INTERLEAVED;
                    if (many != (chunks > 1) || (many && m % p && m > 1))
                        continue;
                    ASSERT_OK(ls_pipeline_idle(&idle, &s)); /* no rank waits for ever */
                    assert_true(idle > 0 && idle < 1);
                    const double waits = ALL[k] == LS_SCHEDULE_ZERO_BUBBLE ? 1.0 / 3 : 1.0 / chunks;
                    if (m % p == 0)
                        assert_true(fabs(idle - (p - 1) * waits / ((double)m + (p - 1) * waits)) < 1e-12);
                }
}

/* ---- what a stage keeps */

static ls_compiled compiled(int pp, int rank, ls_pipeline_schedule schedule, int64_t micro_batches)
{
    ls_compiled c;
    job j = staged(1, 1, pp, schedule);
    j.o.parallel.rank = rank;
    j.o.micro_batches = micro_batches;
    j.model.tied = pp != 2;
    ASSERT_OK(ls_compile(&c, build_decoder, &j.model, &j.o, NULL));
    return c;
}

static size_t arena_of(int rank, ls_pipeline_schedule schedule, int64_t micro_batches)
{
    ls_compiled c = compiled(2, rank, schedule, micro_batches);
    const size_t bytes = c.plans[LS_MICRO]->arena_bytes;
    ls_compiled_release(&c);
    return bytes;
}

/* gpipe keeps the activations of all micro-batches, 1f1b of at most as many as there are stages. */
static void schedules_differ_in_memory(void **state)
{
    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        const size_t all = arena_of(rank, LS_SCHEDULE_GPIPE, 16), few = arena_of(rank, LS_SCHEDULE_GPIPE, 4);
        assert_true(all > few);
        assert_true(arena_of(rank, LS_SCHEDULE_1F1B, 16) < all - (all - few) / 2);
        assert_true(arena_of(rank, LS_SCHEDULE_ZERO_BUBBLE, 16) < all);
    }
    /* no stage waits for the gradients of the first one, so its order is that of 1f1b */
    assert_int_equal(arena_of(0, LS_SCHEDULE_ZERO_BUBBLE, 16), arena_of(0, LS_SCHEDULE_1F1B, 16));
    assert_true(arena_of(1, LS_SCHEDULE_ZERO_BUBBLE, 16) > arena_of(1, LS_SCHEDULE_1F1B, 16));
}

/* How often rank 0 of two data ranks gathers each of its units in a step, and the longest time, in steps,
 * that such a result lives: of those that are gathered more than once. */
static void count_gathers(int *times, int *longest, bool tied, int64_t reshard)
{
    ls_compiled c;
    job j = staged(2, 1, 2, LS_SCHEDULE_1F1B);
    j.o.parallel.gather = LS_GATHER_COPY;
    j.o.parallel.units = "class:Embedding class:Block";
    j.o.parallel.reshard_after_forward = reshard;
    j.o.micro_batches = 16; /* 8 of a data rank */
    j.model.tied = tied;
    ASSERT_OK(ls_compile(&c, build_decoder, &j.model, &j.o, NULL));
    const ls_plan *p = c.plans[LS_MICRO];
    memset(times, 0, sizeof *times * 64);
    for (int pass = *longest = 0; pass < 2; pass++)
        for (int i = 0; i < p->n_collectives; i++) {
            const ls_plan_collective *x = &p->collectives[i];
            if (x->kind != LS_ALL_GATHER || x->is.what != LS_IS_UNIT)
                continue;
            assert_in_range(x->is.unit, 0, 63);
            const ls_location *at = &p->locations[p->graph->nodes[x->node]->out[0].id];
            const ls_alloc *a = &p->allocs[at->alloc];
            times[x->is.unit] += pass == 0;
            if (times[x->is.unit] > 1 && 100 * (a->last - a->first) / p->n_steps > *longest)
                *longest = 100 * (a->last - a->first) / p->n_steps;
        }
    ls_compiled_release(&c);
}

/* reshard_after_forward: a unit is gathered for each micro-batch, forward and backward, and freed in between.
 * A table that two stages use is kept. */
static void resharded_units(void **state)
{
    (void)state;
    int kept[64], freed[64], longest, n = 0;
    count_gathers(kept, &longest, false, 0);
    count_gathers(freed, &longest, false, -1);
    for (int u = 0; u < 64; u++) {
        assert_in_range(kept[u], 0, 1);
        assert_true(freed[u] == kept[u] || freed[u] == 16 * kept[u]);
        n += freed[u] == 16;
    }
    assert_true(n > 0 && longest < 25);
    const int untied = n;
    count_gathers(freed, &longest, true, -1);
    for (int u = n = 0; u < 64; u++)
        n += freed[u] == 16;
    assert_int_equal(n, untied);
}

/* Steps of the last stage before it sends its first gradient. */
static int until_gradient(ls_pipeline_schedule schedule)
{
    ls_compiled c = compiled(2, 1, schedule, 8);
    const ls_plan *p = c.plans[LS_MICRO];
    int at = -1;
    for (int i = p->n_collectives - 1; i >= 0; i--)
        at = p->collectives[i].kind == LS_SEND ? p->collectives[i].wait : at;
    assert_true(at > 0);
    ls_compiled_release(&c);
    return at;
}

static void gradients_of_weights_wait(void **state)
{
    (void)state;
    assert_true(until_gradient(LS_SCHEDULE_ZERO_BUBBLE) < until_gradient(LS_SCHEDULE_1F1B));
}

/* Many ranks and chunks: the pass plays the messages of all ranks, and refuses an order in which they wait
 * for each other. */
static void mailboxes_are_enough(void **state)
{
    (void)state;
    static const struct {
        int pp, chunks, micro_batches;
        ls_pipeline_schedule schedule;
    } CASES[] = { { 8, 2, 8, LS_SCHEDULE_INTERLEAVED },  { 4, 4, 12, LS_SCHEDULE_INTERLEAVED },
                  { 2, 8, 6, LS_SCHEDULE_INTERLEAVED },  { 8, 2, 9, LS_SCHEDULE_ZERO_BUBBLE },
                  { 16, 2, 5, LS_SCHEDULE_ZERO_BUBBLE }, { 8, 2, 20, LS_SCHEDULE_GPIPE } };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        ls_compiled c;
        job j = staged(1, 1, CASES[i].pp, CASES[i].schedule);
        j.model.layers = 16;
        j.o.parallel.chunks = CASES[i].chunks;
        j.o.micro_batches = CASES[i].micro_batches;
        j.o.parallel.rank = CASES[i].pp - 1;
        ASSERT_OK(ls_compile(&c, build_decoder, &j.model, &j.o, NULL));
        ls_compiled_release(&c);
    }
}

static int64_t parameters_of(int rank)
{
    ls_compiled c = compiled(4, rank, LS_SCHEDULE_1F1B, M);
    int64_t n = 0, messages = 0;
    for (int i = 0; i < c.units.n; i++)
        n += ls_unit_is_here(&c.units, i) ? c.units.units[i].parameters : 0;
    for (int i = 0; i < c.plans[LS_MICRO]->n_collectives; i++)
        messages += c.plans[LS_MICRO]->collectives[i].kind == LS_SEND;
    /* each way once a micro-batch; the table once a step from the first stage, its gradient from the last */
    assert_int_equal(messages, (rank < 3) * M + (rank > 0) * M + (rank == 0) + (rank == 3) * M);
    assert_true(c.idle == 3.0 / 7);
    ls_compiled_release(&c);
    return n;
}

static void a_parameter_is_on_one_stage(void **state)
{
    (void)state;
    ls_compiled c = compiled(1, 0, LS_SCHEDULE_1F1B, M);
    int64_t all = 0;
    for (int rank = 0; rank < 4; rank++)
        all += parameters_of(rank);
    assert_int_equal(all, c.units.parameters);
    assert_true(c.idle == 0);
    ls_compiled_release(&c);
}

/* ---- refusals */

static void refused(job *j, ls_status status, const char *message)
{
    ls_compiled c;
    assert_int_equal(ls_compile(&c, build_decoder, &j->model, &j->o, NULL), status);
    if (!strstr(ls_error_message(), message))
        fail_msg("\"%s\" does not say \"%s\"", ls_error_message(), message);
}

static void refusals(void **state)
{
    (void)state;
    job j = staged(1, 1, 8, LS_SCHEDULE_1F1B);
    refused(&j, LS_E_USAGE, "8 stages (axis pp), but the model has 4 modules");
    j = staged(1, 1, 2, LS_SCHEDULE_1F1B);
    j.o.parallel.units = "none";
    refused(&j, LS_E_USAGE, "none names no module of this model");
    j = staged(1, 1, 2, LS_SCHEDULE_1F1B);
    j.o.parallel.stages = "1 2";
    refused(&j, LS_E_USAGE, "1 2 is 2 numbers with the sum 3");
    j.o.parallel.stages = "1 two";
    refused(&j, LS_E_USAGE, "is neither auto nor how many modules");
    j = staged(1, 1, 2, LS_SCHEDULE_INTERLEAVED);
    j.o.micro_batches = 3;
    refused(&j, LS_E_USAGE, "that 2 ranks of the pipeline divide, and each rank has 3");
    j.o.micro_batches = 4;
    j.o.parallel.chunks = 3;
    refused(&j, LS_E_USAGE, "6 stages (axis pp and chunks), but the model has 4 modules");
    j.model.layers = 7;
    refused(&j, LS_E_USAGE, "3 chunks on each of 2 ranks are 6 stages, which do not divide the 7 modules");
    j.o.parallel.chunks = 1;
    refused(&j, LS_E_USAGE, "1: with schedule interleaved a rank has 2 to 1024 stages");
    j = staged(2, 1, 1, LS_SCHEDULE_1F1B);
    j.o.parallel.mesh.n = 1;
    j.o.parallel.stages = "2 2";
    refused(&j, LS_E_USAGE, "the mesh has no axis of role pipeline");
    j = staged(1, 1, 2, LS_SCHEDULE_1F1B);
    j.o.parallel.offload = LS_OFFLOAD_CPU;
    refused(&j, LS_E_UNSUPPORTED, "keeps parameters in its ranks' own memory");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_of_one_process),
        cmocka_unit_test(beside_split_layers),
        cmocka_unit_test(beside_split_tokens),
        cmocka_unit_test(in_f64),
        cmocka_unit_test(on_devices_with_memory_of_their_own),
        cmocka_unit_test(checkpoints_go_anywhere),
        cmocka_unit_test(orders),
        cmocka_unit_test(idle_shares),
        cmocka_unit_test(schedules_differ_in_memory),
        cmocka_unit_test(resharded_units),
        cmocka_unit_test(gradients_of_weights_wait),
        cmocka_unit_test(mailboxes_are_enough),
        cmocka_unit_test(a_parameter_is_on_one_stage),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
