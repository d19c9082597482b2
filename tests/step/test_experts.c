/* test_experts.c - the experts of a mixture dealt to ranks: losses, norms, parameters and evaluations have
 * the bits of one process, with every layout of the data ranks. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/models.h"
#include "step/split_model.h"
#include "step/trainer.h"
#include "support/support.h"

static job dealt(const char *axes, ls_data_parallel data)
{
    job j = layout(1, 1, 1, data);
    j.model.experts = 4;
    j.model.experts_per_token = 3; /* sums of three rows: their order is seen */
    j.model.expert_size = 12;
    j.model.experts_every = 1;
    j.model.normalize_experts = true;
    j.o.parallel.mesh = mesh_of(axes);
    return j;
}

static void equal(const job *is, const job *want, double within)
{
    for (int i = is->first; i < STEPS; i++)
        if (!(fabs(is->losses[i] - want->losses[i]) <= within * fabs(want->losses[i]) &&
              fabs(is->norms[i] - want->norms[i]) <= within * fabs(want->norms[i])))
            fail_msg("step %d: loss %.17g, norm %.17g; of one process %.17g, %.17g", i, is->losses[i],
                     is->norms[i], want->losses[i], want->norms[i]);
    if (!is->first) /* else by trained weights */
        assert_memory_equal(is->predicted, want->predicted, sizeof want->predicted);
}

static job one_process(void)
{
    job one = dealt("dp1", LS_DATA_FSDP);
    run_job(&one);
    assert_true(one.losses[STEPS - 1] < one.losses[0]);
    return one;
}

static void bits_of_one_process(void **state)
{
    (void)state;
    const job one = one_process();
    job jobs[] = {
        dealt("ep2", LS_DATA_FSDP),     dealt("ep4", LS_DATA_FSDP),
        dealt("dp2 ep2", LS_DATA_FSDP), dealt("shard2 ep2", LS_DATA_FSDP),
        dealt("ep2 pp2", LS_DATA_FSDP), dealt("ep2", LS_DATA_DDP),
        dealt("dp2 ep2", LS_DATA_DDP),  dealt("dp2 shard1 ep2", LS_DATA_HYBRID),
        dealt("dp2 ep2", LS_DATA_FSDP), dealt("ep2", LS_DATA_FSDP),
    };
    enum { N = sizeof jobs / sizeof jobs[0] };
    jobs[N - 2].o.parallel.gather = LS_GATHER_COPY;
    jobs[N - 1].o.parallel.gather = LS_GATHER_COPY;
    jobs[N - 1].o.recompute = "class:Block";
    jobs[N - 1].o.parallel.expert_room = 2;
    for (int i = 0; i < N; i++) {
        run_job(&jobs[i]);
        equal(&jobs[i], &one, 0);
        assert_memory_equal(jobs[i].rows, one.rows, sizeof one.rows);
    }
}

/* Rows pass through pinned memory, and the host waits for their offsets. */
static void memory_of_their_own(void **state)
{
    (void)state;
    static const struct {
        const char *axes;
        ls_data_parallel data;
        const char *settings, *recompute;
        double room;
        ls_offload_choice offload;
    } CASES[] = {
        { "ep2", LS_DATA_FSDP, "seed=1,delay=20us", NULL, 0, 0 },
        { "dp2 ep2", LS_DATA_FSDP, "seed=2,delay=50us", "class:Block", 2, 0 },
        { "ep4", LS_DATA_DDP, "seed=3,delay=20us,links=1", NULL, 0, 0 },
        { "ep2 pp2", LS_DATA_FSDP, "seed=4,delay=20us", NULL, 0, 0 },
        { "shard2 ep2", LS_DATA_FSDP, "seed=5,delay=20us", NULL, 0, LS_OFFLOAD_CPU },
    };
    const job one = one_process();
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        job j = dealt(CASES[i].axes, CASES[i].data);
        j.o.device = "emulated";
        j.o.recompute = CASES[i].recompute;
        j.o.parallel.expert_room = CASES[i].room;
        j.o.parallel.offload = CASES[i].offload;
        setenv("LOCKSTEP_EMULATED", CASES[i].settings, 1);
        run_job(&j);
        unsetenv("LOCKSTEP_EMULATED");
        equal(&j, &one, 0);
        assert_memory_equal(j.rows, one.rows, sizeof one.rows);
    }
}

/* Gradients of one rank's rows are rounded to 16 bits, and added in f32. */
static void in_bf16(void **state)
{
    (void)state;
    job one = dealt("dp1", LS_DATA_FSDP);
    job jobs[] = { dealt("ep4", LS_DATA_FSDP), dealt("dp2 ep2", LS_DATA_FSDP) };
    one.o.param = LS_BF16;
    run_job(&one);
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        jobs[i].o.param = LS_BF16;
        run_job(&jobs[i]);
        equal(&jobs[i], &one, 0);
    }
}

/* In f64 also beside axes that split sums. */
static void in_f64(void **state)
{
    (void)state;
    job one = dealt("dp1", LS_DATA_FSDP);
    job jobs[] = {
        dealt("ep2", LS_DATA_FSDP),    dealt("dp2 ep2", LS_DATA_FSDP), dealt("ep2 tp2", LS_DATA_FSDP),
        dealt("ep2 tp2", LS_DATA_DDP), dealt("ep2 cp2", LS_DATA_FSDP),
    };
    one.o.device = "ref";
    one.o.param = one.o.output = one.o.parallel.reduce = LS_F64;
    run_job(&one);
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        jobs[i].o.device = "ref";
        jobs[i].o.param = jobs[i].o.output = jobs[i].o.parallel.reduce = LS_F64;
        run_job(&jobs[i]);
        equal(&jobs[i], &one, 1e-12);
    }
}

/* A checkpoint does not know which rank had which expert. */
static void checkpoints_go_anywhere(void **state)
{
    (void)state;
    const char *path[2] = { ls_test_path("of-one"), ls_test_path("of-two") };
    const job one = one_process();
    job whole = dealt("dp1", LS_DATA_FSDP), two = dealt("ep2", LS_DATA_FSDP);
    whole.save = path[0];
    two.save = path[1];
    run_job(&whole);
    run_job(&two);
    job later[] = { dealt("dp1", LS_DATA_FSDP), dealt("dp2 ep2", LS_DATA_FSDP), dealt("ep4", LS_DATA_DDP) };
    for (int i = 0; i < 3; i++) {
        later[i].load = path[i != 1];
        later[i].first = STEPS / 2;
        run_job(&later[i]);
        equal(&later[i], &one, 0);
    }
}

static ls_compiled compiled(int rank, double room)
{
    ls_compiled c;
    job j = dealt("dp2 ep2", LS_DATA_FSDP);
    j.o.parallel.rank = rank;
    j.o.parallel.expert_room = room;
    ASSERT_OK(ls_compile(&c, build_decoder, &j.model, &j.o, NULL));
    return c;
}

/* Each expert is on the ranks of one position, sharded over the others; rows go there and back. */
static void an_expert_is_on_one_rank(void **state)
{
    (void)state;
    size_t arena[2];
    for (int rank = 0; rank < 4; rank++) {
        ls_compiled c = compiled(rank, 0);
        int64_t here = 0, experts = 0, exchanges = 0;
        for (int i = 0; i < c.units.n_slots; i++) {
            const ls_slot *s = &c.units.slots[i];
            const ls_local_shard h = ls_slot_local_shard(&c.units, &c.parallel.mesh, i, rank);
            assert_int_equal(s->part != 0, strstr(s->name, ".experts.") != NULL);
            assert_true(!s->part || s->part == rank % 2 + 1 || !h.count);
            here += h.count;
            experts += s->part ? ls_type_count(&s->whole) : 0;
        }
        const int64_t even = (c.units.parameters - experts) / 4 + experts / 4;
        assert_in_range(here, even - even / 3, even + even / 3);
        for (int i = 0; i < c.plans[LS_MICRO]->n_collectives; i++)
            exchanges += c.plans[LS_MICRO]->collectives[i].kind == LS_ALL_TO_ALL;
        assert_int_equal(exchanges, 2 * 2 * 3); /* layers, ways; rows, their weights, results */
        arena[0] = c.plans[LS_MICRO]->arena_bytes + c.plans[LS_MICRO]->symmetric_bytes;
        ls_compiled_release(&c);
    }
    ls_compiled c = compiled(0, 1);
    arena[1] = c.plans[LS_MICRO]->arena_bytes + c.plans[LS_MICRO]->symmetric_bytes;
    assert_true(arena[1] < arena[0]);
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
    job j = dealt("ep2", LS_DATA_FSDP);
    j.model.experts = 5;
    refused(&j, LS_E_USAGE, "the 2 ranks of axis ep do not divide the 5 experts of ");
    j.model.experts = 0;
    j.model.experts_per_token = 0;
    refused(&j, LS_E_USAGE, "axis ep deals experts to ranks, and this model has none");
    j = dealt("ep2 dp2", LS_DATA_FSDP);
    refused(&j, LS_E_USAGE, "write ep behind dp");
    j = dealt("ep2", LS_DATA_DDP);
    j.o.parallel.synchronize = LS_SYNCHRONIZE_ONCE;
    refused(&j, LS_E_USAGE, "say auto or each");
    j = dealt("ep2", LS_DATA_FSDP);
    j.o.parallel.ranks_per_host = 1;
    refused(&j, LS_E_UNSUPPORTED, "the ranks of axis ep lie on several hosts");
    j = dealt("ep2", LS_DATA_FSDP);
    j.o.parallel.slices = 2;
    refused(&j, LS_E_UNSUPPORTED, "2 beside axis ep");
    j = dealt("ep2", LS_DATA_FSDP);
    j.o.freeze = "pattern:*.experts.1.*";
    refused(&j, LS_E_USAGE, "the experts of different ranks are not alike");
    j = dealt("ep2", LS_DATA_FSDP);
    j.o.parallel.expert_room = -0.5;
    refused(&j, LS_E_USAGE, "-0.5 is out of range");
    j = dealt("dp2", LS_DATA_FSDP);
    j.o.parallel.expert_room = 2;
    refused(&j, LS_E_USAGE, "the mesh has no axis of role expert");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_of_one_process),
        cmocka_unit_test(memory_of_their_own),
        cmocka_unit_test(in_bf16),
        cmocka_unit_test(in_f64),
        cmocka_unit_test(checkpoints_go_anywhere),
        cmocka_unit_test(an_expert_is_on_one_rank),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
