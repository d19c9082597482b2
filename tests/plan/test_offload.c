/* test_offload.c - copies between host memory and that of a device that has its own: two steps in the plan,
 * between which nothing uses their operand or result differently. */
#include <string.h>

#include "plan/planned.h"
#include "tags.h"
#include "support/support.h"

enum { N = 64, UNITS = 5, BYTES = 4 * N };

static ls_parallel layout(int prefetch, int64_t memory)
{
    ls_parallel p = { LS_PARALLEL_DEFAULTS,     .data = LS_DATA_FSDP,         .offload = LS_OFFLOAD_CPU,
                      .gather = LS_GATHER_COPY, .prefetch_forward = prefetch, .prefetch_backward = prefetch,
                      .prefetch_memory = memory };
    p.mesh.axes[0].size = 2;
    return p;
}

static ls_value to_device(ls_graph *g, ls_value v)
{
    return ls_graph_apply(g, &ls_op_to_device, 1, &v, NULL);
}
static ls_value to_host(ls_graph *g, ls_value v) { return ls_graph_apply(g, &ls_op_to_host, 1, &v, NULL); }

static const char *const NAMES[UNITS] = { "unit a", "unit b", "unit c", "unit d", "unit e" };

/* Unit k as a step has it: state -> to_device -> all_gather over `ranks`. */
static ls_value use(ls_graph *g, ls_value state, int k, int ranks)
{
    const ls_identity is = { .what = LS_IS_UNIT, .unit = k };
    const ls_value s = to_device(g, state);
    return ranks == 1
               ? s
               : ls_all_gather(g, s,
                               &(ls_gather_attrs){
                                   .group = "dp", .unit = NAMES[k], .ranks = ranks, .to = LS_F32, .is = is });
}

/* x -> x * unit k -> ... and back, where each unit has a gradient; the units are gathered again. */
static ls_graph *step(int ranks)
{
    ls_graph *g = new_graph();
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, N)), kept[UNITS], states[UNITS];
    for (int k = 0; k < UNITS; k++) {
        const ls_identity is = { .what = LS_IS_UNIT, .unit = k };
        states[k] = ls_state_of(g, is, NAMES[k], LS_TYPE(LS_F32, N / ranks), (ls_init){ 0 });
        x = kept[k] = ls_relu(g, ls_mul(g, x, use(g, states[k], k, ranks)));
    }
    g->phase = LS_PHASE_BACKWARD;
    for (int k = UNITS - 1; k >= 0; k--) {
        x = ls_exp(g, ls_mul(g, x, kept[k]));
        ls_value r = ranks == 1
                         ? x
                         : ls_reduce_scatter(
                               g, x,
                               &(ls_reduce_attrs){ .group = "dp", .unit = "", .ranks = ranks, .to = LS_F32 });
        ls_output_of(g, (ls_identity){ .what = LS_IS_GRADIENT, .unit = k }, NAMES[k], to_host(g, r));
        x = ls_mul(g, x, ls_exp(g, use(g, states[k], k, ranks)));
    }
    ls_output(g, "y", x);
    ASSERT_OK(ls_graph_finish(g));
    return g;
}

static int kernels_between(const ls_plan *p, int from, int to)
{
    int n = 0;
    for (int i = from + 1; i < to; i++)
        n += p->steps[i].part == LS_PART_RUN;
    return n;
}

/* The collective that gathers what transfer t brings; NULL: none. */
static const ls_plan_collective *gather_of(const ls_plan *p, const ls_plan_transfer *t)
{
    for (int c = 0; c < p->n_collectives; c++)
        if (p->graph->nodes[p->collectives[c].node]->in[0].id == p->graph->nodes[t->node]->out[0].id)
            return &p->collectives[c];
    return NULL;
}

static void check_order(const ls_plan *p, int ranks, int ahead)
{
    int down = 0, up = 0, most = 0, transfers = 0, overlapping = 0;
    for (int i = 0; i < p->n_steps; i++) {
        const ls_step *s = &p->steps[i];
        assert_true((s->part == LS_PART_RUN) == (s->transfer < 0 && s->collective < 0));
        if (s->transfer < 0)
            continue;
        const ls_plan_transfer *t = &p->transfers[s->transfer];
        const int change = s->part == LS_PART_START ? 1 : -1;
        assert_int_equal(change > 0 ? t->start : t->wait, i);
        assert_true(t->start < t->wait && !s->kernel);
        assert_int_equal(t->bytes, t->to_host || ranks == 2 ? BYTES / ranks : BYTES);
        *(t->to_host ? &up : &down) += change;
        assert_in_range(up, 0, 1); /* so one operand at most is kept for the way to the host */
        most = down > most ? down : most;
        transfers += change > 0;
        if (change < 0)
            continue;
        assert_true(s->transfer == 0 || p->transfers[s->transfer - 1].start < i);
        overlapping += kernels_between(p, t->start, t->wait) > 0;
        if (!t->to_host && ranks > 1)
            assert_true(t->wait < gather_of(p, t)->start);
    }
    assert_int_equal(count_steps(p, "copy"), 0);
    assert_int_equal(transfers, 3 * UNITS);
    assert_int_equal(transfers, p->n_transfers);
    assert_int_equal(most, ahead > 1 ? ahead : 1);
    /* all but the last to the host overlap kernels; to the device, those behind the first of each pass, which
     * are on their way, or gathered, when it begins */
    const int behind = UNITS - ahead * ranks;
    assert_true(overlapping >= UNITS - 1 + (ahead && behind > 0 ? 2 * behind : 0));
}

static void they_overlap_kernels(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 2; ranks++)
        for (int prefetch = 0; prefetch < 5; prefetch++)
            for (int budget = 0; budget < 2; budget++) {
                const ls_parallel parallel = layout(budget ? 0 : prefetch,
                                                    budget && prefetch ? prefetch * BYTES / ranks : 0);
                ls_graph *g = step(ranks);
                ls_plan *p;
                ASSERT_OK(ls_plan_create(&p, g, &APART, &(ls_plan_opts){ .parallel = &parallel }));
                check_tags(p);
                check_order(p, ranks, prefetch);
                release(p, g);
            }
}

/* A device that works in host memory has the kernel `copy` in their place, and program order. */
static void they_are_copies_in_host_memory(void **state)
{
    (void)state;
    const ls_parallel parallel = layout(2, 0);
    for (int ranks = 1; ranks <= 2; ranks++) {
        ls_graph *g = step(ranks);
        ls_plan *p;
        ASSERT_OK(ls_plan_create(&p, g, &DEVICE, &(ls_plan_opts){ .parallel = &parallel }));
        check_tags(p);
        assert_int_equal(p->n_transfers, 0);
        for (int i = 0; i < p->n_steps; i++)
            if (p->graph->nodes[p->steps[i].node]->op->flags & LS_OP_TRANSFER) {
                assert_string_equal(p->steps[i].kernel->op, "copy");
                assert_int_equal(p->steps[i].part, LS_PART_RUN);
            }
        release(p, g);
    }
}

/* A state that is updated in place is on its way to the host first. */
static void updates_wait(void **state)
{
    (void)state;
    ls_graph *g = new_graph();
    const ls_identity is = { .what = LS_IS_STEP };
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, N)), apply = ls_input(g, "apply", LS_SCALAR(LS_I32)),
             counter = ls_state_of(g, is, "step", LS_SCALAR(LS_I64), (ls_init){ 0 });
    ls_output(g, "before", to_host(g, counter));
    ls_output(g, "y", ls_exp(g, ls_exp(g, x)));
    ls_graph_apply(g, &ls_op_count_step, 2, (ls_value[]){ counter, apply }, NULL);
    ls_output(g, "z", ls_relu(g, x));
    ASSERT_OK(ls_graph_finish(g));
    ls_plan *p;
    ASSERT_OK(ls_plan_create(&p, g, &APART, NULL));
    assert_int_equal(p->n_transfers, 1);
    for (int i = 0; i < p->n_steps; i++)
        if (!strcmp(p->graph->nodes[p->steps[i].node]->op->name, "count_step"))
            assert_int_equal(i, p->transfers[0].wait + 1);
    release(p, g);
}

/* ---- random programs */

static uint64_t seed = 1;
static int below(int n)
{
    return (int)((seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33) % n;
}

static ls_graph *random_graph(void)
{
    ls_graph *g = new_graph();
    ls_value pool[40];
    int n = 0;
    pool[n++] = ls_input(g, "x", LS_TYPE(LS_F32, 4, 6));
    pool[n++] = ls_param(g, "w", LS_TYPE(LS_F32, 4, 6), (ls_init){ 0 });
    while (n < 36) {
        const ls_value a = pool[below(n)], b = pool[below(n)];
        ls_value out;
        if (n == 20)
            g->phase = LS_PHASE_BACKWARD;
        switch (below(8)) {
        case 0: out = ls_add(g, a, b); break;
        case 1: out = ls_mul(g, a, b); break;
        case 2: out = ls_relu(g, a); break;
        case 3: out = to_device(g, a); break;
        case 4: out = to_host(g, a); break;
        case 5: {
            ls_value two[2] = { ls_slice(g, to_device(g, a), 0, below(3), 2),
                                to_host(g, ls_slice(g, b, 0, 1, 2)) };
            out = ls_concat(g, 0, 2, two);
            break;
        }
        case 6: out = ls_reshape(g, ls_permute(g, to_host(g, a), 1, 0), 4, 6); break;
        default: out = to_device(g, ls_reshape(g, ls_permute(g, b, 1, 0), 4, 6)); break;
        }
        pool[n++] = out;
    }
    ls_output(g, "a", to_host(g, pool[n - 1]));
    ls_output(g, "b", pool[n - 2]);
    ls_output(g, "x", to_host(g, pool[n - 3])); /* replaces the input */
    ASSERT_OK(ls_graph_finish(g));
    return g;
}

static void any_program(void **state)
{
    (void)state;
    int overlapping = 0;
    for (int i = 0; i < 300; i++) {
        const ls_parallel parallel = layout(i % 5, i % 2 ? 0 : 96 * (i % 7));
        ls_graph *g = random_graph();
        ls_plan *p;
        ASSERT_OK(ls_plan_create(&p, g, &APART, &(ls_plan_opts){ .parallel = &parallel }));
        check_tags(p);
        for (int t = 0; t < p->n_transfers; t++)
            overlapping += kernels_between(p, p->transfers[t].start, p->transfers[t].wait) > 0;
        release(p, g);
    }
    assert_true(overlapping > 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_overlap_kernels),
        cmocka_unit_test(they_are_copies_in_host_memory),
        cmocka_unit_test(updates_wait),
        cmocka_unit_test(any_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
