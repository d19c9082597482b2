/* test_steps.c - the two halves of a collective in the plan: where they stand, and how long memory that other
 * ranks read must live. */
#include <string.h>

#include "device/queue.h"
#include "lockstep/graph.h" /* before rules.h: with call sites */
#include "ops/rules.h"
#include "plan/internal.h"
#include "support/support.h"

static void nothing(const ls_kernel_args *a) { (void)a; }
static const ls_kernel KERNELS[] = {
    { .op = "copy", .run = nothing, .any_in = 1 },
    { .op = "relu", .run = nothing },
    { .op = "add", .run = nothing },
    { .op = "mul", .run = nothing },
    { .op = "exp", .run = nothing },
    { 0 },
};
static const ls_kernel *const *tables(const ls_arch *arch)
{
    static const ls_kernel *const all[] = { KERNELS, NULL };
    (void)arch;
    return all;
}
static const ls_device_ops TEST_DEVICE = { .name = "test", .tables = tables, .computes = false };
static const ls_arch ARCH = { .name = "test" };
static const ls_device DEVICE = { .ops = &TEST_DEVICE, .arch = &ARCH, .here = true, .threads = 1 };

enum { N = 64, UNITS = 4 };

static ls_parallel layout(int prefetch)
{
    ls_parallel p = { LS_PARALLEL_DEFAULTS, .prefetch_forward = prefetch, .prefetch_backward = prefetch };
    p.mesh.axes[0].size = 2;
    return p;
}

/* x -> x * gathered unit k -> ..., and a reduction of each product. */
static ls_graph *chain_in(ls_phase phase, bool map, bool state_operand)
{
    ls_graph *g;
    static const char *const NAMES[UNITS] = { "unit a", "unit b", "unit c", "unit d" };
    ASSERT_OK(ls_graph_create(&g, "chain"));
    g->phase = phase;
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, N));
    for (int k = 0; k < UNITS; k++) {
        const ls_identity unit = { .what = LS_IS_UNIT, .unit = k },
                          gradient = { .what = LS_IS_GRADIENT, .unit = k };
        ls_value s = ls_state_of(g, unit, NAMES[k], LS_TYPE(LS_F32, N / 2), (ls_init){ 0 });
        if (!state_operand)
            s = ls_exp(g, s);
        ls_value w = ls_all_gather(
            g, s,
            &(ls_gather_attrs){
                .group = "dp", .unit = NAMES[k], .ranks = 2, .to = LS_F32, .map = map, .is = unit });
        x = ls_relu(g, ls_mul(g, x, w));
        ls_value r = ls_reduce_scatter(
            g, x, &(ls_reduce_attrs){ .group = "dp", .unit = NAMES[k], .ranks = 2, .to = LS_F32 });
        ls_output_of(g, gradient, NAMES[k], r);
    }
    ls_output(g, "y", x);
    ASSERT_OK(ls_graph_finish(g));
    return g;
}

static ls_graph *chain(bool map, bool state_operand)
{
    return chain_in(LS_PHASE_FORWARD, map, state_operand);
}

static ls_plan *plan_for(const ls_graph *g, const ls_device *d, const ls_parallel *p)
{
    ls_plan *plan;
    ASSERT_OK(ls_plan_create(&plan, g, d, &(ls_plan_opts){ .parallel = p }));
    ASSERT_OK(ls_plan_check(plan));
    return plan;
}

static ls_plan *plan_of(const ls_graph *g, const ls_parallel *p) { return plan_for(g, &DEVICE, p); }

static void halves_are_in_order(void **state)
{
    (void)state;
    for (int prefetch = 0; prefetch < 4; prefetch++) {
        const ls_parallel p = layout(prefetch);
        ls_graph *g = chain(false, true);
        ls_plan *plan = plan_of(g, &p);
        assert_int_equal(plan->n_collectives, 2 * UNITS);
        int gathers = 0, under_way = 0, most = 0, reductions = 0;
        for (int i = 0; i < plan->n_steps; i++) {
            const ls_step *s = &plan->steps[i];
            if (s->part == LS_PART_RUN)
                continue;
            const ls_plan_collective *c = &plan->collectives[s->collective];
            assert_true(c->start < c->wait);
            assert_int_equal(s->part == LS_PART_START ? c->start : c->wait, i);
            const int step = s->part == LS_PART_START ? 1 : -1;
            if (c->kind == LS_ALL_GATHER)
                under_way += step;
            else
                reductions += step;
            gathers += c->kind == LS_ALL_GATHER && step > 0;
            most = under_way > most ? under_way : most;
            assert_in_range(reductions, 0, 1);
        }
        assert_int_equal(gathers, UNITS);
        assert_int_equal(most, prefetch > 1 ? prefetch : 1);
        for (int c = 1; c < plan->n_collectives; c++)
            assert_true(plan->collectives[c - 1].start < plan->collectives[c].start);
        ls_plan_destroy(&plan);
        ls_graph_destroy(&g);
    }
}

/* With a budget as many as it holds of what gathers make (256 bytes each); mappings take none of it. */
static void gathers_fit_their_budget(void **state)
{
    (void)state;
    for (int64_t bytes = 1; bytes < 6 * 4 * N; bytes += 2 * N)
        for (int map = 0; map < 2; map++) {
            ls_parallel p = layout(3);
            p.prefetch_memory = bytes;
            ls_graph *g = chain(map, true);
            ls_plan *plan = plan_of(g, &p);
            const int64_t room = map ? UNITS : bytes / (4 * N);
            int under_way = 0, most = 0;
            for (int i = 0; i < plan->n_steps; i++) {
                const ls_step *s = &plan->steps[i];
                if (s->part != LS_PART_RUN && plan->collectives[s->collective].kind == LS_ALL_GATHER)
                    under_way += s->part == LS_PART_START ? 1 : -1;
                most = under_way > most ? under_way : most;
            }
            assert_int_equal(most, room < 1 ? 1 : room > UNITS ? UNITS : room);
            if (room < 1)
                for (int c = 0; c < plan->n_collectives; c++)
                    assert_true(plan->collectives[c].kind != LS_ALL_GATHER ||
                                plan->collectives[c].wait == plan->collectives[c].start + 1);
            ls_plan_destroy(&plan);
            ls_graph_destroy(&g);
        }
}

/* BACKWARD_POST: a gather starts behind the last reader of the one before it, whose memory it takes, and
 * beside what does not read that one. */
static void post_starts_behind_the_last_reader(void **state)
{
    (void)state;
    static const int PREFETCH[] = { 0, LS_BACKWARD_POST, 1 };
    size_t peak[3];
    for (int i = 0; i < 3; i++) {
        const ls_parallel p = layout(PREFETCH[i]);
        ls_graph *g = chain_in(LS_PHASE_BACKWARD, false, true);
        ls_plan *plan = plan_of(g, &p);
        int last_use = -1;
        for (int c = 0; c < plan->n_collectives; c++) {
            const ls_plan_collective *gather = &plan->collectives[c];
            if (gather->kind != LS_ALL_GATHER)
                continue;
            if (PREFETCH[i] == LS_BACKWARD_POST && last_use >= 0)
                assert_true(gather->start == last_use + 1 && gather->wait > gather->start + 1);
            assert_int_equal(gather->start < last_use, PREFETCH[i] == 1 && last_use >= 0);
            for (last_use = gather->wait; plan->graph->nodes[plan->steps[last_use].node]->op != &ls_op_mul;)
                last_use++;
        }
        peak[i] = plan->live_peak_bytes;
        ls_plan_destroy(&plan);
        ls_graph_destroy(&g);
    }
    assert_true(peak[0] <= peak[1] && peak[1] <= peak[2]);
}

/* An operand that peers read is in the window, and lives until a later collective that waits, started behind
 * its wait, has been waited for. */
static void operands_outlive_their_readers(void **state)
{
    (void)state;
    for (int prefetch = 0; prefetch < 3; prefetch++)
        for (int computed = 0; computed < 2; computed++) {
            const ls_parallel p = layout(prefetch);
            ls_graph *g = chain(false, !computed);
            ls_plan *plan = plan_of(g, &p);
            for (int c = 0; c < plan->n_collectives; c++) {
                const ls_plan_collective *a = &plan->collectives[c];
                const ls_alloc *operand =
                    &plan->allocs[plan->locations[plan->graph->nodes[a->node]->in[0].id].alloc];
                if (operand->memory == LS_MEM_STATE || operand->memory == LS_MEM_IO) {
                    assert_true(operand->shared);
                    continue;
                }
                assert_int_equal(operand->memory, LS_MEM_SYMMETRIC);
                int free_at = plan->n_steps - 1;
                for (int d = plan->n_collectives - 1; d > c; d--)
                    if (plan->collectives[d].start > a->wait && !plan->collectives[d].settled)
                        free_at = plan->collectives[d].wait;
                assert_true(operand->last >= free_at && operand->first <= a->start);
            }
            ls_plan_destroy(&plan);
            ls_graph_destroy(&g);
        }
}

static void mappings(void **state)
{
    (void)state;
    ls_parallel p = layout(1);
    p.rank = 1;
    ls_graph *g = chain(true, true);
    ls_plan *plan = plan_of(g, &p);
    int whole = 0, slices = 0;
    for (int i = 0; i < plan->n_allocs; i++) {
        const ls_alloc *a = &plan->allocs[i];
        whole += a->memory == LS_MEM_NODE && a->bytes == 4 * N;
        if (a->inside) {
            assert_int_equal(a->memory, LS_MEM_STATE);
            assert_int_equal(a->inside_at, 2 * N); /* rank 1's half */
            slices++;
        }
    }
    assert_int_equal(whole, UNITS);
    assert_int_equal(slices, UNITS);
    assert_int_equal(plan->node_bytes, UNITS * 4 * N);
    for (int c = 0; c < plan->n_collectives; c++)
        if (plan->collectives[c].map)
            assert_true(plan->collectives[c].bytes == 0);
    ls_plan_destroy(&plan);
    ls_graph_destroy(&g);
}

/* A device whose memory is its own. */
static const ls_queue_ops APART_QUEUE = { .apart = true };
static const ls_device_ops APART_OPS = {
    .name = "apart", .tables = tables, .computes = false, .queue = &APART_QUEUE
};
static const ls_device APART = { .ops = &APART_OPS, .arch = &ARCH, .here = true, .threads = 1 };

/* Host memory for each result that is not made where the operand is, from the start to the wait; the rest of
 * the plan is as for other devices. */
static void results_pass_through_pinned_memory(void **state)
{
    (void)state;
    for (int prefetch = 0; prefetch < 4; prefetch++)
        for (int computed = 0; computed < 2; computed++) {
            const ls_parallel p = layout(prefetch);
            ls_graph *g = chain(false, !computed);
            ls_plan *here = plan_of(g, &p), *plan = plan_for(g, &APART, &p);
            assert_int_equal(plan->n_allocs, here->n_allocs + 2 * UNITS);
            assert_memory_equal(plan->peak_by_category, here->peak_by_category,
                                sizeof here->peak_by_category);
            assert_true(plan->arena_bytes == here->arena_bytes && plan->io_bytes == here->io_bytes &&
                        plan->symmetric_bytes == here->symmetric_bytes && !here->pinned_bytes &&
                        plan->state_bytes == here->state_bytes &&
                        plan->live_peak_bytes == here->live_peak_bytes);
            size_t all = 0, most = 0;
            for (int i = 0; i < plan->n_collectives; i++) {
                const ls_plan_collective *c = &plan->collectives[i];
                assert_int_equal(here->collectives[i].staging, -1);
                assert_true(c->staging >= 0);
                const ls_alloc *a = &plan->allocs[c->staging];
                assert_int_equal(a->memory, LS_MEM_PINNED);
                assert_int_equal(a->bytes, c->kind == LS_ALL_GATHER ? 4 * N : 4 * N / 2);
                assert_true(a->first == c->start && a->last == c->wait);
                all += a->bytes;
            }
            for (int k = 0; k < plan->n_steps; k++) {
                size_t live = 0;
                for (int i = 0; i < plan->n_allocs; i++)
                    live += plan->allocs[i].memory == LS_MEM_PINNED && plan->allocs[i].first <= k &&
                                    k <= plan->allocs[i].last
                                ? plan->allocs[i].bytes
                                : 0;
                most = live > most ? live : most;
            }
            assert_true(plan->pinned_bytes >= most && plan->pinned_bytes < all);
            /* (the check sees memory that is too small, not live long enough, or not there) */
            ls_plan_collective *c = &plan->collectives[0];
            ls_alloc *a = &plan->allocs[c->staging];
            a->bytes -= 4;
            ASSERT_FAILS(ls_plan_check(plan), LS_E_INTERNAL, "does not fit into its staging memory");
            a->bytes += 4;
            a->last--;
            ASSERT_FAILS(ls_plan_check(plan), LS_E_INTERNAL, "does not fit into its staging memory");
            a->last++;
            a->offset = plan->pinned_bytes;
            ASSERT_FAILS(ls_plan_check(plan), LS_E_INTERNAL, "lies at");
            c->staging = -1;
            a->offset = 0;
            a->memory = LS_MEM_COUNT;
            ASSERT_FAILS(ls_plan_check(plan), LS_E_INTERNAL, "has no staging memory");
            ls_plan_destroy(&here);
            ls_plan_destroy(&plan);
            ls_graph_destroy(&g);
        }
}

/* A sum that takes the place of its operand is made in the window, and needs none. */
static void sums_in_place_need_no_pinned_memory(void **state)
{
    (void)state;
    const ls_parallel p = layout(0);
    for (int kept = 0; kept < 2; kept++) {
        ls_graph *g;
        ASSERT_OK(ls_graph_create(&g, "sum"));
        ls_value x = ls_exp(g, ls_input(g, "x", LS_TYPE(LS_F32, N)));
        ls_value sum = ls_all_reduce(
            g, x, &(ls_reduce_attrs){ .group = "dp", .unit = "unit a", .ranks = 2, .to = LS_F32 });
        ls_output(g, "y", ls_relu(g, kept ? ls_add(g, sum, x) : sum));
        ASSERT_OK(ls_graph_finish(g));
        ls_plan *plan = plan_for(g, &APART, &p);
        assert_int_equal(plan->n_collectives, 1);
        assert_int_equal(plan->collectives[0].staging >= 0, kept);
        assert_int_equal(plan->pinned_bytes, kept ? 4 * N : 0);
        ls_plan_destroy(&plan);
        ls_graph_destroy(&g);
    }
}

/* Over links nothing is in the window or in pinned memory. A sum has room in the arena for the pieces that
 * come; a gather fills its result in place. */
static void links_need_no_window(void **state)
{
    (void)state;
    const ls_device linked = { .ops = &APART_OPS, .arch = &ARCH, .here = true, .threads = 1, .linked = true };
    for (int prefetch = 0; prefetch < 4; prefetch++) {
        const ls_parallel p = layout(prefetch);
        ls_graph *g = chain(false, prefetch % 2);
        ls_plan *plan = plan_for(g, &linked, &p);
        assert_true(!plan->symmetric_bytes && !plan->pinned_bytes);
        for (int i = 0; i < plan->n_allocs; i++)
            assert_false(plan->allocs[i].shared);
        for (int i = 0; i < plan->n_collectives; i++) {
            const ls_plan_collective *c = &plan->collectives[i];
            const ls_alloc *a = c->staging < 0 ? NULL : &plan->allocs[c->staging];
            assert_int_equal(a != NULL, c->kind == LS_REDUCE_SCATTER);
            assert_true(!a || (a->memory == LS_MEM_ARENA && a->bytes == 4 * N && a->first == c->start &&
                               a->last == c->wait));
        }
        ls_plan_destroy(&plan);
        ls_graph_destroy(&g);
    }
}

/* The layout takes copies for such a device (ls_parallel_apart); a mapping that comes all the same is
 * refused. */
static void mappings_of_such_a_device_are_refused(void **state)
{
    (void)state;
    const ls_parallel p = layout(0);
    ls_graph *g = chain(true, true);
    ls_plan *plan;
    ASSERT_FAILS(ls_plan_create(&plan, g, &APART, &(ls_plan_opts){ .parallel = &p }), LS_E_INTERNAL,
                 "unit a is mapped", "device apart");
    ls_graph_destroy(&g);
}

/* A state is complete before the program. A gradient that the program takes as an input is summed over
 * micro-batches after other ranks may have begun. */
static void inputs_are_not_settled(void **state)
{
    (void)state;
    for (int input = 0; input < 2; input++) {
        const ls_parallel p = layout(1);
        const ls_type type = LS_TYPE(LS_F32, N / 2);
        ls_graph *g;
        ASSERT_OK(ls_graph_create(&g, "update"));
        ls_value v = input ? ls_input(g, "grad", type) : ls_param(g, "w", type, (ls_init){ 0 });
        ls_output(
            g, "whole",
            ls_all_gather(g, v, &(ls_gather_attrs){ .group = "dp", .unit = "", .ranks = 2, .to = LS_F32 }));
        ASSERT_OK(ls_graph_finish(g));
        ls_plan *plan = plan_of(g, &p);
        assert_int_equal(plan->n_collectives, 1);
        assert_true(plan->collectives[0].settled == !input);
        ls_plan_destroy(&plan);
        ls_graph_destroy(&g);
    }
}

/* A value that is gathered twice goes to the window once: others may still read it there. */
static void an_operand_is_sent_once(void **state)
{
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        const ls_parallel p = layout(1);
        const ls_gather_attrs over = { .group = "dp", .unit = "", .ranks = 2, .to = LS_F32 };
        ls_graph *g;
        ASSERT_OK(ls_graph_create(&g, "micro"));
        const ls_value x = ls_exp(g, ls_input(g, "x", LS_TYPE(LS_F32, N / 2)));
        ls_output(g, "first", ls_all_gather(g, x, &over));
        ls_output(g, "other", ls_all_gather(g, ls_relu(g, x), &over));
        ls_output(g, "again", ls_all_gather(g, x, &over));
        ASSERT_OK(ls_graph_finish(g));
        ls_plan *plan = apart ? plan_for(g, &APART, &p) : plan_of(g, &p);
        int sent = 0;
        assert_int_equal(plan->n_collectives, 3);
        for (int i = 0; i < 3; i++)
            sent += plan->collectives[i].sent;
        assert_int_equal(sent, apart);
        assert_true(!plan->collectives[0].sent);
        ls_plan_destroy(&plan);
        ls_graph_destroy(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(halves_are_in_order),
                                        cmocka_unit_test(gathers_fit_their_budget),
                                        cmocka_unit_test(post_starts_behind_the_last_reader),
                                        cmocka_unit_test(operands_outlive_their_readers),
                                        cmocka_unit_test(mappings),
                                        cmocka_unit_test(inputs_are_not_settled),
                                        cmocka_unit_test(an_operand_is_sent_once),
                                        cmocka_unit_test(results_pass_through_pinned_memory),
                                        cmocka_unit_test(links_need_no_window),
                                        cmocka_unit_test(sums_in_place_need_no_pinned_memory),
                                        cmocka_unit_test(mappings_of_such_a_device_are_refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
