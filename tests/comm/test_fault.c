/* test_fault.c - slow, lost and dead ranks. An operand stays valid as long as it is read, under any delays.
 * All other ranks name a late rank alike, with the wait and with what it did last. A chain of waits ends at
 * the rank that caused it. */
#include "base/clock.h"
#include "base/rng.h"
#include "comm/comm.h"
#include "comm/fault.h"
#include "comm/group_own.h"
#include "support/ranks.h"
#include "support/support.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the rule of comm.h, used to the full */

enum { COUNT = 700, STEPS = 40 };

struct place {
    ls_axis *axis;
    ls_window *window;
    int n, r;
};

static float at(int rank, int i, int step) { return (float)((i * 7 + rank * 1000 + step * 13) % 4099); }

static float sum(int n, int i, int step)
{
    float s = 0;
    for (int r = 0; r < n; r++)
        s += at(r, i, step);
    return s;
}

static float *operand(const struct place *p, int number)
{
    return (float *)(void *)p->window->mine + number * COUNT * 4;
}

static ls_status make(const struct place *p, ls_collective **c, ls_collective_kind kind, int number,
                      void *result, bool settled, const char *label)
{
    return ls_collective_create(c,
                                &(ls_collective_desc){ .kind = kind,
                                                       .axis = p->axis,
                                                       .count = COUNT,
                                                       .from = LS_F32,
                                                       .via = LS_F32,
                                                       .to = LS_F32,
                                                       .window = p->window,
                                                       .offset = sizeof(float) * (size_t)(number * COUNT * 4),
                                                       .result = result,
                                                       .settled = settled,
                                                       .threads = 1,
                                                       .label = label });
}

static ls_status run(ls_collective *c)
{
    LS_TRY(ls_collective_start(c));
    return ls_collective_wait(c);
}

static void fill(float *x, int count, int rank, int step)
{
    for (int i = 0; i < count; i++)
        x[i] = at(rank, i, step);
}

static void spoil(float *x) { memset(x, 0xff, sizeof(float) * COUNT * 4); }

/* Operands 0 (scatter), 1 (reduce in place), 2 (gather), 3 (reduce to elsewhere), 4 (state, gathered without
 * waiting). */
static ls_status steps(ls_group *g, const struct place *p, ls_collective *c[5], float *scattered,
                       float *gathered, float *reduced, float *state)
{
    int n = p->n, r = p->r;
    for (int step = 0; step < STEPS; step++) {
        fill(operand(p, 4), COUNT, r, step); /* the optimizer writes state, then all meet */
        ls_axis_arrive(p->axis);
        LS_TRY(ls_axis_fence(p->axis, "the end of program update"));
        LS_TRY(run(c[4]));
        fill(operand(p, 0), COUNT * n, r, step);
        LS_TRY(run(c[0]));
        fill(operand(p, 1), COUNT, r, step + 1);
        LS_TRY(run(c[1]));
        spoil(operand(p, 0)); /* free: a later collective has been waited for */
        for (int i = 0; i < COUNT; i++)
            RANK_CHECK(operand(p, 1)[i] == sum(n, i, step + 1));
        spoil(operand(p, 1)); /* in place: free at once */
        fill(operand(p, 2), COUNT, r, step + 2);
        LS_TRY(run(c[2]));
        fill(operand(p, 3), COUNT, r, step + 3);
        LS_TRY(run(c[3]));
        spoil(operand(p, 2));
        ls_axis_arrive(p->axis);
        for (int i = 0; i < COUNT; i++) {
            RANK_CHECK(scattered[i] == sum(n, i + r * COUNT, step) && reduced[i] == sum(n, i, step + 3));
            for (int q = 0; q < n; q++)
                RANK_CHECK(gathered[q * COUNT + i] == at(q, i, step + 2) &&
                           state[q * COUNT + i] == at(q, i, step));
        }
        LS_TRY(ls_axis_fence(p->axis, "the end of program micro"));
        spoil(operand(p, 3));
        spoil(operand(p, 4)); /* nobody gathers it after the fence */
    }
    return LS_OK;
}

static ls_status rule(ls_group *g, void *context)
{
    struct place p = { .n = ls_group_size(g), .r = ls_group_rank(g) };
    int all[4] = { 0, 1, 2, 3 };
    static _Thread_local float scattered[COUNT], gathered[COUNT * 4], reduced[COUNT], state[COUNT * 4];
    ls_collective *c[5];
    LS_TRY(ls_axis_create(&p.axis, g, "dp", p.n, all));
    LS_TRY(ls_window_create(&p.window, p.axis, sizeof(float) * 5 * 4 * COUNT, 0));
    LS_TRY(make(&p, &c[0], LS_REDUCE_SCATTER, 0, scattered, false, "reduce_scatter of unit a"));
    LS_TRY(make(&p, &c[1], LS_ALL_REDUCE, 1, operand(&p, 1), false, "all_reduce of unit b"));
    LS_TRY(make(&p, &c[2], LS_ALL_GATHER, 2, gathered, false, "all_gather of unit c"));
    LS_TRY(make(&p, &c[3], LS_ALL_REDUCE, 3, reduced, false, "all_reduce of unit d"));
    LS_TRY(make(&p, &c[4], LS_ALL_GATHER, 4, state, true, "all_gather of unit e"));
    ls_group_inject(
        g, &(ls_fault){
               .kind = LS_FAULT_DELAY, .at = -1, .seconds = 0.001, .seed = *(const uint64_t *)context });
    ls_status s = steps(g, &p, c, scattered, gathered, reduced, state);
    for (int i = 0; i < 5; i++)
        ls_collective_destroy(&c[i]);
    ls_window_destroy(&p.window);
    ls_axis_destroy(&p.axis);
    return s;
}

static void operands_under_delays(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++)
        for (int n = 2; n <= 4; n++)
            ASSERT_OK(run_ranks(n, rule, &seed));
}

/* ---- who is named */

static char heard[4][1024];

/* Only rank 0 loses its patience, and not before rank 1 has been lost: a machine that gives threads no core
 * for a while changes nothing. */
static ls_status lost(ls_group *g, void *context)
{
    _Atomic bool *is_lost = context;
    struct place p = { .n = ls_group_size(g), .r = ls_group_rank(g) };
    float result[COUNT];
    ls_collective *c;
    LS_TRY(ls_axis_create(&p.axis, g, "dp", p.n, (int[]){ 0, 1, 2 }));
    LS_TRY(ls_window_create(&p.window, p.axis, sizeof(float) * 4 * COUNT, 0));
    LS_TRY(make(&p, &c, LS_REDUCE_SCATTER, 0, result, false, "reduce_scatter of unit encoder"));
    if (p.r == 1)
        ls_group_inject(g, &(ls_fault){ .kind = LS_FAULT_DROP, .at = 4 });
    ls_status s = LS_OK;
    for (int step = 0; s == LS_OK && step < 10; step++) {
        char doing[64];
        snprintf(doing, sizeof doing, "step %d, gelu of mlp.0", step);
        ls_group_doing(g, doing);
        if (step == 2 && p.r == 1)
            atomic_store(is_lost, true);
        while (step == 2 && p.r == 0 && !atomic_load(is_lost))
            usleep(1000);
        if (step == 2 && p.r == 0)
            ls_group_set_deadline(g, 0.1);
        s = run(c);
    }
    snprintf(heard[p.r], sizeof heard[p.r], "%s", ls_error_message());
    ls_status again = ls_group_barrier(g); /* broken for good */
    RANK_CHECK(s == LS_E_PEER && again == LS_E_PEER);
    ls_collective_destroy(&c);
    ls_window_destroy(&p.window);
    ls_axis_destroy(&p.axis);
    return LS_OK;
}

static void the_lost_rank_is_named(void **state)
{
    (void)state;
    _Atomic bool is_lost = false;
    ASSERT_OK(run_ranks(3, lost, &is_lost));
    for (int r = 0; r < 3; r++) {
        ASSERT_CONTAINS(heard[r], "rank 1: did not come within 0.1 s; rank 0 waited for it in reduce_scatter "
                                  "of unit encoder of axis \"dp\"");
        ASSERT_CONTAINS(heard[r], "it last did: step 2, gelu of mlp.0");
        assert_string_equal(heard[r], heard[0]);
    }
}

/* Rank 0 waits for 1, which waits, and sleeps, for 2 elsewhere. */
static ls_status chain(ls_group *g, void *context)
{
    _Atomic bool *comes = context;
    int r = ls_group_rank(g);
    ls_axis *a, *b;
    LS_TRY(ls_axis_create(&a, g, "rows", r < 2 ? 2 : 1, r < 2 ? (int[]){ 0, 1 } : (int[]){ 2 }));
    LS_TRY(ls_axis_create(&b, g, "columns", r ? 2 : 1, r ? (int[]){ 1, 2 } : (int[]){ 0 }));
    ls_status s;
    if (r == 2) {
        ls_group_inject(g, &(ls_fault){ .kind = LS_FAULT_DROP, .at = 0 });
        ls_axis_arrive(b);
    } else if (r == 1) {
        ls_axis_arrive(b);
        atomic_store(comes, true);
        s = ls_axis_fence(b, "columns");
    } else {
        while (!atomic_load(comes) || ls_control_blocker(g->control, 1) != 2)
            usleep(1000);
        ls_group_set_deadline(g, 0.1);
        ls_axis_arrive(a);
        s = ls_axis_fence(a, "the rows");
        RANK_CHECK(s == LS_E_PEER);
        snprintf(heard[0], sizeof heard[0], "%s", ls_error_message());
    }
    ls_axis_destroy(&b);
    ls_axis_destroy(&a);
    return LS_OK;
}

static void a_chain_ends_at_its_culprit(void **state)
{
    (void)state;
    _Atomic bool comes = false;
    ASSERT_OK(run_ranks(3, chain, &comes));
    ASSERT_CONTAINS(heard[0], "rank 2: did not come within 0.1 s; rank 0 waited for it in the rows");
}

/* The communication thread of a rank may wait beside it, and end its wait first. */
static void each_thread_says_for_whom_it_waits(void **state)
{
    (void)state;
    ls_control_block *c = aligned_alloc(64, (ls_control_bytes(3) + 63) / 64 * 64);
    assert_non_null(c);
    memset(c, 0, ls_control_bytes(3));
    ls_control_init(c, 3);
    ls_rank_record *first = ls_control_record(c, 0);
    atomic_store(&first->waits_for[0], 1 + 1);
    atomic_store(&first->waits_for[1], 1 + 2);
    assert_int_equal(ls_control_blocker(c, 0), 1);
    atomic_store(&first->waits_for[1], 0);
    assert_int_equal(ls_control_blocker(c, 0), 1);
    atomic_store(&first->waits_for[1], 1 + 2);
    atomic_store(&first->waits_for[0], 0);
    assert_int_equal(ls_control_blocker(c, 0), 2);
    free(c);
}

static ls_status leaves(ls_group *g, void *context)
{
    (void)context;
    if (ls_group_rank(g) == 1)
        return LS_OK;
    ASSERT_FAILS(ls_group_barrier(g), LS_E_PEER, "rank 1: has left the group");
    return LS_OK;
}

static ls_status fails(ls_group *g, void *context)
{
    (void)context;
    if (ls_group_rank(g) == 1)
        return ls_fail(LS_E_NUMERIC, "loss is nan");
    return ls_group_barrier(g);
}

static void leaving_and_failing(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(2, leaves, NULL));
    ASSERT_FAILS(run_ranks(3, fails, NULL), LS_E_NUMERIC, "loss is nan");
}

/* ---- LOCKSTEP_FAULT */

static void from_the_environment(void **state)
{
    (void)state;
    ls_group *g;
    ls_axis *a;
    ASSERT_OK(ls_group_self(&g));
    ASSERT_OK(ls_axis_create(&a, g, "dp", 1, (int[]){ 0 }));
    const char *wrong[] = { "kill",
                            "kill@",
                            "kill@x",
                            "burn@3",
                            "kill@3:rank",
                            "kill@3:rank=1,seed=2",
                            "delay@random:seconds=",
                            "kill@-1",
                            "kill@3 " };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv("LOCKSTEP_FAULT", wrong[i], 1);
        ASSERT_FAILS(ls_group_inject_from_environment(g), LS_E_USAGE, wrong[i], "KIND@WHERE");
    }
    setenv("LOCKSTEP_FAULT", "kill@0:rank=1", 1); /* another rank's */
    ASSERT_OK(ls_group_inject_from_environment(g));
    ASSERT_OK(ls_axis_fence(a, "nothing"));
    setenv("LOCKSTEP_FAULT", "delay@1:seconds=0.05", 1);
    ASSERT_OK(ls_group_inject_from_environment(g));
    double began = ls_now();
    ls_axis_arrive(a);
    ASSERT_OK(ls_axis_fence(a, "a delay"));
    assert_true(ls_now() - began >= 0.05);
    setenv("LOCKSTEP_FAULT", "kill@2:rank=0", 1);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (ls_group_inject_from_environment(g) == LS_OK)
            for (int i = 0; i < 3; i++)
                (void)ls_axis_fence(a, "to be killed in");
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    unsetenv("LOCKSTEP_FAULT");
    ls_axis_destroy(&a);
    ls_group_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operands_under_delays),       cmocka_unit_test(the_lost_rank_is_named),
        cmocka_unit_test(a_chain_ends_at_its_culprit), cmocka_unit_test(each_thread_says_for_whom_it_waits),
        cmocka_unit_test(leaving_and_failing),         cmocka_unit_test(from_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
