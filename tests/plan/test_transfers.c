/* test_transfers.c - plans of a device whose memory is its own: what is in its memory and in the host's, and
 * what moves between them. */
#include <string.h>

#include "device/queue.h"
#include "plan/describe.h"
#include "plan/planned.h"
#include "support/support.h"

enum { N = 64, BATCH = 128 };

static const ls_queue_ops APART_QUEUE = { .apart = true };
static const ls_identity UNIT = { .what = LS_IS_UNIT };

/* micro: the gathered unit times x, and a scattered gradient; update: the slice plus the gradient. */
static void programs(ls_graph *g[2], ls_plan *p[2], const ls_device *d)
{
    ls_parallel two = { LS_PARALLEL_DEFAULTS };
    two.mesh.axes[0].size = 2;
    const ls_type slice = LS_TYPE(LS_F32, N / 2);
    ASSERT_OK(ls_graph_create(&g[0], "micro"));
    ls_value x = ls_input(g[0], "x", LS_TYPE(LS_F32, BATCH, N));
    ls_value unit = ls_state_of(g[0], UNIT, "unit a", slice, (ls_init){ 0 });
    ls_value w = ls_all_gather(
        g[0], unit,
        &(ls_gather_attrs){ .group = "dp", .unit = "unit a", .ranks = 2, .to = LS_F32, .is = UNIT });
    ls_value y = ls_exp(g[0], ls_mul(g[0], w, w));
    ls_output_of(
        g[0], GRADIENT, "unit a",
        ls_reduce_scatter(g[0], y, &(ls_reduce_attrs){ .group = "dp", .unit = "unit a", .ranks = 2 }));
    ls_output(g[0], "loss", ls_relu(g[0], x));
    ASSERT_OK(ls_graph_create(&g[1], "update"));
    unit = ls_state_of(g[1], UNIT, "unit a", slice, (ls_init){ 0 });
    ls_output_of(g[1], UNIT, "unit a", ls_add(g[1], unit, ls_input_of(g[1], GRADIENT, "unit a", slice)));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(ls_graph_finish(g[i]));
        ASSERT_OK(ls_plan_create(&p[i], g[i], d, &(ls_plan_opts){ .parallel = &two }));
        ASSERT_OK(ls_plan_check(p[i]));
    }
}

static void what_moves(void **state)
{
    (void)state;
    ls_device_ops ops = TEST_DEVICE;
    for (int apart = 0; apart < 2; apart++) {
        ops.queue = apart ? &APART_QUEUE : NULL;
        ls_device d = DEVICE;
        d.ops = &ops;
        ls_graph *g[2];
        ls_plan *p[2];
        ls_footprint f;
        ls_transfers t;
        programs(g, p, &d);
        ls_plans_footprint(&f, 2, p);
        assert_int_equal(f.window, 4 * (N / 2) + f.symmetric); /* the slice, and the operand of the sum */
        assert_int_equal(f.symmetric, 4 * N);
        assert_int_equal(f.total, f.state + f.io + f.arena + f.symmetric);
        ls_plans_transfers(&t, 2, p, (int64_t[]){ 3, 1 });
        const double rows = 3.0 * 4 * BATCH * N, whole = 3.0 * 4 * N;
        assert_true(t.inputs == (apart ? rows : 0) && t.outputs == t.inputs); /* no gradient is among them */
        assert_true(t.results == (apart ? whole + whole / 2 : 0));
        assert_true(t.operands == (apart ? whole : 0)); /* the slice is in the window */
        assert_true(t.states == (apart ? 4 * (N / 2) : 0));
        assert_true(t.to_device == t.inputs + t.results && t.to_host == t.outputs + t.operands + t.states);
        ls_str s = { 0 };
        ls_explain_text(&s, p[0], true);
        ls_plan_text(&s, p[0], 5);
        static const char *const COPIES[] = { "256 B copied to the window", "256 B copied to the device",
                                              "128 B copied to the device",
                                              "results of collectives pass through 256 B of host memory" };
        for (size_t i = 0; i < sizeof COPIES / sizeof *COPIES; i++)
            assert_int_equal(strstr(s.data, COPIES[i]) != NULL, apart);
        ls_str_release(&s);
        for (int i = 0; i < 2; i++) {
            ls_plan_destroy(&p[i]);
            ls_graph_destroy(&g[i]);
        }
    }
}

/* Values of the running program; of the others what they keep, each once. */
static void what_is_alive_in_all_programs(void **state)
{
    (void)state;
    ls_graph *g[2];
    ls_plan *p[2];
    ls_arena a;
    ls_alive *all;
    ls_arena_init(&a);
    programs(g, p, &DEVICE);
    for (int running = 0; running < 2; running++) {
        const int step = p[running]->peak_step, n = ls_plans_alive(&a, 2, p, running, step, &all);
        int units = 0, inputs = 0;
        for (int i = 0; i < n; i++) {
            assert_true(!i || all[i - 1].alloc->bytes >= all[i].alloc->bytes);
            assert_true(ls_is_lasting(all[i].alloc) || all[i].plan == p[running]);
            units += all[i].alloc->name && !strcmp(all[i].alloc->name, "unit a") &&
                     all[i].alloc->memory == LS_MEM_STATE;
            inputs += all[i].alloc->name && !strcmp(all[i].alloc->name, "x");
        }
        assert_true(units == 1 && inputs == 1);
    }
    ls_arena_release(&a);
    for (int i = 0; i < 2; i++) {
        ls_plan_destroy(&p[i]);
        ls_graph_destroy(&g[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_moves),
                                        cmocka_unit_test(what_is_alive_in_all_programs) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
