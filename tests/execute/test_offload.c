/* test_offload.c - a session whose device has memory of its own (emulated), and host memory beside it:
 * transfers run on a queue of their own, and a program of the host runs in the middle. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/graph.h" /* before rules.h: with call sites */
#include "execute/planned.h"
#include "graph/identity.h"
#include "ops/rules.h"
#include "support/values.h"

enum { N = 3000, BYTES = N * sizeof(float), SEEDS = 8, AWAITS = 4 };
static const ls_identity UNIT = { .what = LS_IS_UNIT }, GRADIENT = { .what = LS_IS_GRADIENT };

static ls_parallel layout(void)
{
    return (ls_parallel){ LS_PARALLEL_DEFAULTS, .data = LS_DATA_FSDP, .offload = LS_OFFLOAD_CPU };
}

static ls_device device(const char *name)
{
    ls_device d;
    ASSERT_OK(ls_device_open(&d, name, &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 2 }));
    return d;
}

/* The delays of this seed; await number `skip` is left out. */
static void emulate(int seed, int skip)
{
    char settings[80];
    snprintf(settings, sizeof settings, skip ? "seed=%d,delay=3ms,skip=%d" : "seed=%d,delay=1ms", seed, skip);
    setenv("LOCKSTEP_EMULATED", settings, 1);
}

/* micro: gradient = exp(unit) + x, which goes to the host; update: unit = unit - gradient, on the host. */
typedef struct step {
    ls_graph *graph[2];
    ls_plan *plan[2];
    ls_session *session;
} step;

static void begin(step *s)
{
    const ls_parallel parallel = layout();
    const ls_device d = device("emulated"), host = device("cpu");
    const ls_type type = LS_TYPE(LS_F32, N);
    ls_graph *g = s->graph[0] = new_graph("micro");
    const ls_value x = ls_input(g, "x", type), here = ls_state_of(g, UNIT, "unit", type, (ls_init){ 0 }),
                   w = ls_graph_apply(g, &ls_op_to_device, 1, &here, NULL);
    g->phase = LS_PHASE_BACKWARD;
    const ls_value sum = ls_add(g, ls_exp(g, w), x);
    ls_output_of(g, GRADIENT, "grad.unit", ls_graph_apply(g, &ls_op_to_host, 1, &sum, NULL));
    g = s->graph[1] = new_graph("update");
    g->phase = LS_PHASE_UPDATE;
    const ls_value before = ls_state_of(g, UNIT, "unit", type, (ls_init){ 0 });
    ls_output_of(g, UNIT, "unit", ls_sub(g, before, ls_input_of(g, GRADIENT, "grad.unit", type)));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(ls_graph_finish(s->graph[i]));
        ASSERT_OK(ls_plan_create(&s->plan[i], s->graph[i], i ? &host : &d,
                                 &(ls_plan_opts){ .parallel = &parallel, .on_host = i }));
    }
    ASSERT_OK(ls_plans_share_host(2, s->plan));
    ASSERT_OK(ls_session_create(&s->session, 2, s->plan,
                                &(ls_session_opts){ .n_spares = 2,
                                                    .spares = (ls_type[]){ type, type },
                                                    .on_host = (bool[]){ true, false } }));
}

static void end(step *s)
{
    ls_session_destroy(&s->session);
    for (int i = 0; i < 2; i++) {
        ls_plan_destroy(&s->plan[i]);
        ls_graph_destroy(&s->graph[i]);
    }
    unsetenv("LOCKSTEP_EMULATED");
}

/* Two steps with one wait, from given numbers. */
static void two_steps(step *s, float *unit)
{
    static float x[2][N];
    ls_place at[2];
    ASSERT_OK(ls_session_place(s->session, "unit", &at[0]));
    ASSERT_OK(ls_session_place(s->session, "x", &at[1]));
    for (int i = 0; i < N; i++) {
        unit[i] = (float)(i % 7) / 7;
        x[0][i] = (float)(i % 11) / 11;
        x[1][i] = 1 - x[0][i];
    }
    ASSERT_OK(ls_session_put(&at[0], unit, BYTES));
    for (int k = 0; k < 2; k++) {
        ASSERT_OK(ls_session_put(&at[1], x[k], BYTES));
        ASSERT_OK(ls_session_run(s->session, 0, false));
        ASSERT_OK(ls_session_run(s->session, 1, false));
    }
    ASSERT_OK(ls_session_wait(s->session));
    ASSERT_OK(ls_session_read(&at[0], unit, BYTES));
}

/* The same with kernels that work where the host can read. */
static void expected(float *unit)
{
    step s;
    setenv("LOCKSTEP_EMULATED", "delay=0us", 1);
    begin(&s);
    two_steps(&s, unit);
    end(&s);
}

static void host_and_device_take_turns(void **state)
{
    (void)state;
    static float want[N], got[N];
    expected(want);
    for (int i = 0; i < N; i += 7) /* (the CPU's exp is another function than libm's) */
        assert_true(want[i] < (float)(i % 7) / 7 - 1);
    for (int seed = 1; seed <= SEEDS; seed++) {
        step s;
        emulate(seed, 0);
        begin(&s);
        assert_int_equal(s.plan[0]->n_transfers, 2);
        two_steps(&s, got);
        assert_memory_equal(got, want, BYTES);
        assert_int_equal(ls_session_waits(s.session), 3); /* when it was made, of the steps, to read */
        end(&s);
    }
}

/* Each of the four awaits of a step is needed: without it some delays give other numbers. */
static void every_event_matters(void **state)
{
    (void)state;
#ifdef LS_TSAN
    print_message("under the thread sanitizer a missing await is a race, which it reports\n");
    skip();
#endif
    static float want[N], got[N];
    expected(want);
    for (int left_out = 1; left_out <= 2 * AWAITS; left_out++) {
        bool differs = false;
        for (int seed = 1; seed < 100 && !differs; seed++) {
            step s;
            emulate(seed, left_out);
            begin(&s);
            two_steps(&s, got);
            differs = memcmp(got, want, BYTES) != 0;
            end(&s);
        }
        if (!differs)
            fail_msg("without await %d of %d all is the same", left_out, 2 * AWAITS);
    }
}

/* What the host computes between programs: a kernel whose output is in host memory. */
static void calls_of_the_host(void **state)
{
    (void)state;
    static float one[N], want[N];
    step s;
    emulate(1, 0);
    begin(&s);
    const ls_type type = LS_TYPE(LS_F32, N);
    const ls_tensor like[3] = { ls_tensor_of(NULL, &type), ls_tensor_of(NULL, &type),
                                ls_tensor_of(NULL, &type) };
    const ls_kernel_args shapes = {
        .n_in = 2, .n_out = 1, .in = like, .out = &like[2], .threads = 2, .arch = s.plan[1]->device.arch
    };
    const char *why;
    const ls_kernel *add = ls_device_find(&s.plan[1]->device, "add", &shapes, &why);
    assert_non_null(add);
    const ls_place spare = ls_session_spare(s.session, 0), there = ls_session_spare(s.session, 1);
    ls_place unit;
    ASSERT_OK(ls_session_place(s.session, "unit", &unit));
    for (int i = 0; i < N; i++) {
        one[i] = (float)i;
        want[i] = 1 + 40 * (float)i;
    }
    for (int round = 0; round < 2; round++) { /* the second one uses the calls of the first again */
        ASSERT_OK(ls_session_put(&there, one, BYTES));
        ls_session_copy(&spare, &there);
        value_fill(s.session, "unit", 1);
        for (int i = 0; i < 40; i++)
            ls_session_call(add, 2, (const ls_place *const[]){ &unit, &spare }, &unit, NULL);
        float *got = place_copy(&unit);
        assert_memory_equal(got, want, BYTES);
        free(got);
    }
    end(&s);
}

/* A state that the host updates, and a program of the device reads in place. */
static void large_values_are_transferred(void **state)
{
    (void)state;
    const ls_parallel parallel = layout();
    for (int n = 16; n <= 17; n++) { /* 64 bytes, and 68 */
        const ls_type type = LS_TYPE(LS_F32, n);
        const ls_device d = device("emulated"), host = device("cpu");
        ls_graph *g[2] = { new_graph("micro"), new_graph("update") };
        ls_plan *p[2];
        ls_output(g[0], "y", ls_exp(g[0], ls_input(g[0], "table", type)));
        ls_output(g[1], "table", ls_exp(g[1], ls_input(g[1], "other", type)));
        for (int i = 0; i < 2; i++) {
            ASSERT_OK(ls_graph_finish(g[i]));
            ASSERT_OK(ls_plan_create(&p[i], g[i], i ? &host : &d,
                                     &(ls_plan_opts){ .parallel = &parallel, .on_host = i }));
        }
        if (n == 16)
            ASSERT_OK(ls_plans_share_host(2, p));
        else
            ASSERT_FAILS(ls_plans_share_host(2, p), LS_E_UNSUPPORTED, "test_offload.c",
                         "exp of program micro", "\"table\" (68 B)", "offload: none");
        assert_int_equal(p[0]->host_bytes, n == 16 ? 64 : 128);
        for (int i = 0; i < 2; i++) {
            ls_plan_destroy(&p[i]);
            ls_graph_destroy(&g[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_and_device_take_turns),
        cmocka_unit_test(every_event_matters),
        cmocka_unit_test(calls_of_the_host),
        cmocka_unit_test(large_values_are_transferred),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
