/* test_places.c - copies between host memory and the values of a session. */
#include <string.h>

#include "lockstep/graph.h"
#include "ops/rules.h"
#include "execute/planned.h"
#include "support/ranks.h"
#include "support/values.h"

/* Views are read and written element by element, in their own order; nothing beside them is touched. */
static void views_are_copied_in_their_order(void **state)
{
    (void)state;
    ls_graph *g = new_graph("views");
    const ls_value w = ls_state(g, "w", LS_TYPE(LS_F32, 2, 3, 4), (ls_init){ 0 });
    ls_output(g, "turned", ls_permute(g, w, 2, 0, 1));                    /* [4, 2, 3] */
    ls_output(g, "column", ls_slice(g, w, 2, 1, 1));                      /* [2, 3, 1] */
    ls_output(g, "block", ls_slice(g, ls_slice(g, w, 1, 1, 2), 2, 1, 2)); /* [2, 2, 2] */
    ls_plan *p = plan_of(g, "ref", 1);
    ls_session *s;
    float all[24], got[24];
    ASSERT_OK(ls_session_create(&s, 1, &p, NULL));
    for (int i = 0; i < 24; i++)
        all[i] = (float)i;
    value_put(s, "w", all, sizeof all);
    ASSERT_OK(ls_session_run(s, 0, false)); /* computes those outputs that are not views */
    value_get(s, "turned", got, sizeof got);
    for (int i = 0; i < 24; i++)
        assert_true(got[i] == (float)(i % 6 * 4 + i / 6));
    value_get(s, "column", got, sizeof(float[6]));
    for (int i = 0; i < 6; i++)
        assert_true(got[i] == (float)(4 * i + 1));
    value_get(s, "block", got, sizeof(float[8]));
    for (int i = 0; i < 8; i++)
        assert_true(got[i] == (float)(i / 4 * 12 + (1 + i / 2 % 2) * 4 + 1 + i % 2));

    value_put(s, "block", (float[8]){ -1, -1, -1, -1, -1, -1, -1, -1 }, sizeof(float[8]));
    value_get(s, "w", got, sizeof got);
    for (int i = 0; i < 24; i++) {
        const bool inside = i / 4 % 3 >= 1 && i % 4 >= 1 && i % 4 <= 2;
        assert_true(got[i] == (inside ? -1 : all[i]));
    }
    ls_session_destroy(&s);
    ls_plan_destroy(&p);
    ls_graph_destroy(&g);
}

/* A part of a place; a size that is not the value's is refused, and nothing is copied. */
static void parts_and_sizes(void **state)
{
    (void)state;
    ls_graph *g = new_graph("parts");
    ls_output(g, "y", ls_relu(g, ls_input(g, "x", LS_TYPE(LS_F32, 8))));
    ls_plan *p = plan_of(g, "ref", 1);
    ls_session *s;
    ls_place x, y;
    float numbers[8] = { 0, 1, 2, 3, 4, 5, 6, 7 }, two[2], untouched[8] = { 9 };
    ASSERT_OK(ls_session_create(&s, 1, &p, NULL));
    ASSERT_OK(ls_session_place(s, "x", &x));
    ASSERT_OK(ls_session_place(s, "y", &y));
    assert_true(ls_place_present(&x) && place_same(&x, &x) && !place_same(&x, &y));
    ASSERT_OK(ls_session_write(&x, numbers, sizeof numbers));
    ls_place part = ls_place_part(&x, 5, &LS_TYPE(LS_F32, 2));
    ASSERT_OK(ls_session_read(&part, two, sizeof two));
    assert_true(two[0] == 5 && two[1] == 6);
    part = ls_place_part(&part, 1, &LS_SCALAR(LS_F32));
    ASSERT_OK(ls_session_write(&part, &(float){ -6 }, sizeof(float)));
    assert_true(value_number(s, "x", 6) == -6 && value_number(s, "x", 5) == 5 &&
                value_number(s, "x", 7) == 7);
    ASSERT_FAILS(ls_session_read(&x, untouched, sizeof(float[7])), LS_E_INTERNAL, "28 bytes", "f32 [8]",
                 "32");
    ASSERT_FAILS(ls_session_write(&x, numbers, sizeof(float[9])), LS_E_INTERNAL, "36 bytes");
    assert_true(untouched[0] == 9);
    ls_session_destroy(&s);
    ls_plan_destroy(&p);
    ls_graph_destroy(&g);
}

/* What ranks share lies in windows: an input that other ranks read. */
static ls_status in_windows(ls_group *g, void *context)
{
    (void)context;
    const int rank = ls_group_rank(g);
    const ls_mesh mesh = { .n = 1, .axes = { { "dp", 2 } } };
    const ls_parallel p = { LS_PARALLEL_DEFAULTS, .mesh = mesh, .rank = rank };
    const ls_reduce_attrs over = { .group = "dp", .unit = "u", .ranks = 2, .to = LS_F32 };
    float sent[64], got[32];
    ls_graph *sums;
    ls_plan *plan;
    ls_session *s;
    ls_device d;
    ls_place x, y;
    LS_TRY(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    LS_TRY(ls_graph_create(&sums, "sums"));
    ls_output(sums, "y", ls_reduce_scatter(sums, ls_input(sums, "x", LS_TYPE(LS_F32, 64)), &over));
    LS_TRY(ls_graph_finish(sums));
    LS_TRY(ls_plan_create(&plan, sums, &d, &(ls_plan_opts){ .parallel = &p }));
    LS_TRY(ls_session_create(&s, 1, &plan, &(ls_session_opts){ .group = g, .parallel = &p }));
    LS_TRY(ls_session_place(s, "x", &x));
    LS_TRY(ls_session_place(s, "y", &y));
    for (int i = 0; i < 64; i++)
        sent[i] = (float)(100 * rank + i);
    LS_TRY(ls_session_enter(s, "filling"));
    LS_TRY(ls_session_write(&x, sent, sizeof sent));
    ls_session_leave(s);
    LS_TRY(ls_session_run(s, 0, false));
    LS_TRY(ls_session_read(&y, got, sizeof got));
    for (int i = 0; i < 32; i++)
        RANK_CHECK(got[i] == (float)(100 + 2 * (32 * rank + i)));
    LS_TRY(ls_session_read(&x, sent, sizeof sent));
    RANK_CHECK(sent[63] == (float)(100 * rank + 63) && x.region != y.region);
    ls_session_destroy(&s);
    ls_plan_destroy(&plan);
    ls_graph_destroy(&sums);
    return LS_OK;
}

static void windows_are_copied_too(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(2, in_windows, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(views_are_copied_in_their_order),
        cmocka_unit_test(parts_and_sizes),
        cmocka_unit_test(windows_are_copied_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
