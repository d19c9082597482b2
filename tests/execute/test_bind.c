/* test_bind.c - inputs that a session reads where the caller has them, and those that it copies. */
#include "execute/internal.h"
#include "execute/planned.h"
#include "lockstep/graph.h"
#include "ops/rules.h"
#include "support/ranks.h"
#include "support/support.h"
#include "support/values.h"

static float get(ls_session *s, const char *name, int i) { return (float)value_number(s, name, i); }

/* A program reads an input where the caller has it, views of it and other programs too; where an output is a
 * view of the input, it is copied. */
static void inputs_are_read_where_they_are(void **state)
{
    (void)state;
    for (int viewed = 0; viewed < 2; viewed++) {
        ls_graph *graphs[2];
        ls_plan *p[2];
        ls_session *s;
        ls_binding *b;
        for (int i = 0; i < 2; i++) {
            ls_graph *g = graphs[i] = new_graph(i ? "second" : "first");
            const ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 2, 4)), part = ls_slice(g, x, 0, 1, 1);
            ls_output(g, i ? "b" : "a", i ? ls_neg(g, x) : ls_neg(g, part));
            if (viewed && !i)
                ls_output(g, "same", part);
            p[i] = plan_of(g, "cpu", 1);
        }
        ASSERT_OK(ls_session_create(&s, 2, p, NULL));
        ASSERT_FAILS(ls_session_binding(s, (ls_identity){ 0 }, "y", &b), LS_E_INTERNAL, "\"y\"");
        ASSERT_OK(ls_session_binding(s, (ls_identity){ 0 }, "x", &b));
        float mine[2][9] = { { 0 } };
        for (int k = 0; k < 18; k++)
            mine[k / 9][k % 9] = (float)k;
        for (int k = 0; k < 3; k++) { /* the third time without the caller's */
            float own[8];
            if (k == 2)
                value_set(s, "x", 5, 77);
            value_get(s, "x", own, sizeof own);
            const float *in = k < 2 ? &mine[k][1] : own;
            ASSERT_OK(ls_session_bind(b, k < 2 ? in : NULL));
            ASSERT_OK(ls_session_run(s, 0, k == 1));
            ASSERT_OK(ls_session_run(s, 1, false));
            for (int e = 0; e < 8; e++)
                assert_true(get(s, "b", e) == -in[e] && (e < 4 || get(s, "a", e - 4) == -in[e]));
            assert_true(!viewed || get(s, "same", 1) == in[5]);
            /* the session's own memory was left alone */
            assert_true((get(s, "x", 3) == in[3]) == (viewed || k == 2));
        }
        ls_session_destroy(&s);
        for (int i = 0; i < 2; i++) {
            ls_plan_destroy(&p[i]);
            ls_graph_destroy(&graphs[i]);
        }
    }
}

/* What is an input here and a state there is copied: the other program would change the caller's numbers. */
static void bound_states_are_copied(void **state)
{
    (void)state;
    ls_graph *reads = new_graph("reads"), *updates = new_graph("updates");
    const ls_type t = LS_TYPE(LS_F32, 16);
    ls_output(reads, "y", ls_neg(reads, ls_input(reads, "w", t)));
    ls_output(updates, "w", ls_add_const(updates, ls_state(updates, "w", t, (ls_init){ 0 }), 1));
    ls_plan *plans[2] = { plan_of(reads, "ref", 1), plan_of(updates, "ref", 1) };
    ls_session *s;
    ls_binding *b;
    ASSERT_OK(ls_session_create(&s, 2, plans, NULL));
    ASSERT_OK(ls_session_binding(s, (ls_identity){ 0 }, "w", &b));
    float mine[16];
    for (int i = 0; i < 16; i++)
        mine[i] = (float)i;
    ASSERT_OK(ls_session_bind(b, mine));
    ASSERT_OK(ls_session_run(s, 1, false));
    ASSERT_OK(ls_session_run(s, 0, false));
    for (int i = 0; i < 16; i++)
        assert_true(mine[i] == (float)i && get(s, "w", i) == (float)(i + 1) &&
                    get(s, "y", i) == -(float)(i + 1));
    ls_session_destroy(&s);
    for (int i = 0; i < 2; i++)
        ls_plan_destroy(&plans[i]);
    ls_graph_destroy(&reads);
    ls_graph_destroy(&updates);
}

/* Other ranks read an input in the window, so what is bound to it is copied there. */
static ls_status add_bound(ls_group *group, void *context)
{
    const ls_mesh mesh = { .n = 1, .axes = { { "dp", 2 } } };
    const ls_parallel p = { LS_PARALLEL_DEFAULTS, .mesh = mesh, .rank = ls_group_rank(group) };
    const ls_reduce_attrs over = { .group = "dp", .unit = "u", .ranks = 2, .to = LS_F32 };
    ls_graph *g;
    ls_plan *plan = NULL;
    ls_session *s = NULL;
    ls_binding *b = NULL;
    ls_device d;
    ls_place y;
    float mine[64], sums[32];
    ls_parallel of = p; /* whose session it is */
    if (context)
        of.rank = 1 - of.rank;
    for (int i = 0; i < 64; i++)
        mine[i] = (float)(i + 1);
    LS_TRY(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    LS_TRY(ls_graph_create(&g, "sums"));
    ls_output(g, "y", ls_reduce_scatter(g, ls_input(g, "x", LS_TYPE(LS_F32, 64)), &over));
    ls_status status = ls_graph_finish(g);
    if (status == LS_OK)
        status = ls_plan_create(&plan, g, &d, &(ls_plan_opts){ .parallel = &p });
    if (status == LS_OK)
        status = ls_session_create(&s, 1, &plan, &(ls_session_opts){ .group = group, .parallel = &of });
    if (status == LS_OK)
        status = ls_session_binding(s, (ls_identity){ 0 }, "x", &b);
    if (status == LS_OK)
        status = ls_session_bind(b, mine);
    if (status == LS_OK)
        status = ls_session_run(s, 0, false);
    if (status == LS_OK)
        status = ls_session_place(s, "y", &y);
    if (status == LS_OK)
        status = ls_session_read(&y, sums, sizeof sums);
    for (int i = 0; status == LS_OK && i < 32; i++)
        if (sums[i] != 2 * mine[32 * ls_group_rank(group) + i])
            status = ls_fail(LS_E_INTERNAL, "element %d is %g", i, (double)sums[i]);
    ls_session_destroy(&s);
    ls_plan_destroy(&plan);
    ls_graph_destroy(&g);
    return status;
}

static void bound_inputs_reach_other_ranks(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(2, add_bound, NULL));
    ASSERT_FAILS(run_ranks(2, add_bound, &(int){ 1 }), LS_E_ARG, "planned for rank ",
                 " of 2, but this is rank "); /* whichever sees it first */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_are_read_where_they_are),
        cmocka_unit_test(bound_states_are_copied),
        cmocka_unit_test(bound_inputs_reach_other_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
