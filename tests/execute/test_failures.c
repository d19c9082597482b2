/* test_failures.c - what a session says of a task that failed: its step, or none if it is of no step. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "execute/internal.h"
#include "execute/planned.h"
#include "lockstep/graph.h"
#include "ops/rules.h"
#include "support/ranks.h"
#include "support/support.h"
#include "support/values.h"

static ls_plan *two_steps(ls_graph **out, const char *device)
{
    ls_graph *g = *out = new_graph("two");
    const ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 8, 40));
    ls_output(g, "y", ls_softmax(g, ls_sum_to(g, x, 1, (int64_t[]){ 40 })));
    return plan_of(g, device, 1);
}

static ls_status refuses(void *context) { return ls_fail(LS_E_PEER, "%s", (const char *)context); }

static void a_task_of_no_step(void **state)
{
    (void)state;
    const char *devices[] = { "cpu", "emulated" };
    char said[3000]; /* a message of another rank may be long */
    memset(said, 'x', sizeof said - 1);
    said[sizeof said - 1] = 0;
    for (int i = 0; i < 2; i++) {
        ls_graph *g;
        ls_plan *p = two_steps(&g, devices[i]);
        ls_session *s;
        ASSERT_OK(ls_session_create(&s, 1, &p, NULL));
        s->ops->host(s->queue, refuses, said);
        assert_int_equal(ls_session_wait(s), LS_E_PEER);
        assert_string_equal(ls_error_message(), said);
        ls_session_destroy(&s);
        ls_plan_destroy(&p);
        ls_graph_destroy(&g);
    }
}

typedef enum how { QUEUED, CHECKED, TIMED, HOWS } how;

static ls_status run(ls_session *s, how h)
{
    static const float x[8 * 40];
    ls_place to;
    LS_TRY(ls_session_place(s, "x", &to));
    LS_TRY(ls_session_put(&to, x, sizeof x));
    ls_session_profile(s, h == TIMED);
    const ls_status status = ls_session_run(s, 0, h == CHECKED);
    return status == LS_OK ? ls_session_wait(s) : status;
}

/* Each task of a session fails once. */
static void every_task(void **state)
{
    (void)state;
    for (how h = 0; h < HOWS; h++) {
        int named[2] = { 0 };
        ls_status status = LS_E_DEVICE;
        for (int task = 1; status != LS_OK; task++) {
            char fail[32], step[48];
            ls_graph *g;
            ls_plan *p = two_steps(&g, "emulated");
            ls_session *s = NULL;
            assert_int_equal(p->n_steps, 2);
            snprintf(fail, sizeof fail, "fail=%d", task);
            setenv("LOCKSTEP_EMULATED", fail, 1);
            status = ls_session_create(&s, 1, &p, NULL);
            const bool made = status == LS_OK;
            if (made)
                status = run(s, h);
            assert_true(status == LS_OK || status == LS_E_DEVICE);
            for (int k = 0; k < 2 && status != LS_OK; k++) {
                snprintf(step, sizeof step, "program \"two\", step %d of 2", k);
                if (strstr(ls_error_message(), step))
                    named[k]++;
                assert_true(made || !strstr(ls_error_message(), "program"));
            }
            ls_session_destroy(&s);
            ls_plan_destroy(&p);
            ls_graph_destroy(&g);
            unsetenv("LOCKSTEP_EMULATED");
        }
        assert_int_equal(named[0], 1);
        assert_int_equal(named[1], 1);
    }
}

/* Two ranks, which are threads, add numbers. */
static ls_status add(ls_group *group, void *context)
{
    const ls_mesh mesh = { .n = 1, .axes = { { "dp", 2 } } };
    const ls_parallel p = { LS_PARALLEL_DEFAULTS, .mesh = mesh, .rank = ls_group_rank(group) };
    const ls_reduce_attrs over = { .group = "dp", .unit = "u", .ranks = 2, .to = LS_F32 };
    ls_graph *g = NULL;
    ls_plan *plan = NULL;
    ls_session *s = NULL;
    ls_device d;
    (void)context;
    LS_TRY(ls_device_open(&d, "emulated", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    LS_TRY(ls_graph_create(&g, "sums"));
    const ls_value sent = ls_relu(g, ls_input(g, "x", LS_TYPE(LS_F32, 64)));
    ls_output(g, "y", ls_reduce_scatter(g, sent, &over));
    ls_status status = ls_graph_finish(g);
    if (status == LS_OK)
        status = ls_plan_create(&plan, g, &d, &(ls_plan_opts){ .parallel = &p });
    if (status == LS_OK)
        status = ls_session_create(&s, 1, &plan, &(ls_session_opts){ .group = group, .parallel = &p });
    if (status == LS_OK)
        status = ls_session_run(s, 0, false);
    if (status == LS_OK)
        status = ls_session_wait(s);
    ls_session_destroy(&s);
    ls_plan_destroy(&plan);
    ls_graph_destroy(&g);
    return status;
}

/* What moves a collective's numbers is of its step. */
static void tasks_of_a_collective(void **state)
{
    (void)state;
    int named = 0;
    ls_status status = LS_E_DEVICE;
    for (int task = 1; status != LS_OK; task++) {
        char fail[32];
        snprintf(fail, sizeof fail, "fail=%d", task);
        setenv("LOCKSTEP_EMULATED", fail, 1);
        status = run_ranks(2, add, NULL);
        named += status != LS_OK && strstr(ls_error_message(), ", reduce_scatter of (top level) (");
        unsetenv("LOCKSTEP_EMULATED");
    }
    assert_true(named >= 3); /* a copy to the window, two halves, perhaps a copy from pinned memory */
}

/* A number that was put is there in the next run, though its copy was skipped in the run that failed. */
static void numbers_after_a_failure(void **state)
{
    (void)state;
    ls_status status = LS_E_DEVICE;
    int again = 0;
    for (int task = 1; status != LS_OK; task++) {
        char fail[32];
        ls_graph *g = new_graph("number");
        ls_output(g, "y", ls_add_const(g, ls_input(g, "x", LS_TYPE(LS_F32, 2)), 1));
        ls_plan *p = plan_of(g, "emulated", 1);
        ls_session *s = NULL;
        ls_place x;
        snprintf(fail, sizeof fail, "fail=%d", task);
        setenv("LOCKSTEP_EMULATED", fail, 1);
        status = ls_session_create(&s, 1, &p, NULL);
        if (status == LS_OK) {
            ASSERT_OK(ls_session_place(s, "x", &x));
            ASSERT_OK(ls_session_put(&x, (float[]){ 4, 5 }, sizeof(float[2])));
            ASSERT_OK(ls_session_run(s, 0, false));
            status = ls_session_wait(s);
            if (status != LS_OK) {
                ASSERT_OK(ls_session_run(s, 0, false));
                ASSERT_OK(ls_session_wait(s));
                assert_true(value_number(s, "y", 0) == 5 && value_number(s, "y", 1) == 6);
                again++;
            }
        }
        ls_session_destroy(&s);
        ls_plan_destroy(&p);
        ls_graph_destroy(&g);
        unsetenv("LOCKSTEP_EMULATED");
    }
    assert_true(again >= 2); /* the copy and the kernel */
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(a_task_of_no_step), cmocka_unit_test(every_task),
                                        cmocka_unit_test(tasks_of_a_collective),
                                        cmocka_unit_test(numbers_after_a_failure) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
