/* test_agree.c - what ranks must have in common (ranks are threads here): a failure gives one message, other
 * recipes and programs are refused by name, threads share no core. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/cpu_limits.h"
#include "lockstep/graph.h"
#include "support/ranks.h"
#include "support/support.h"
#include "comm/agree.h"
#include "launch/compare.h"
#include "ops/rules.h"
#include "step/digest.h"

static ls_status load(ls_recipe **r, const char *set)
{
    const char *text = "model: {type: mlp}\ndata: {type: shapes}\n";
    return ls_recipe_load_text(r, text, strlen(text), "test.yaml", set ? 1 : 0, &set);
}

/* Ranks 1 and 2 have failed alone. */
static ls_status some_fail(ls_group *g, void *context)
{
    (void)context;
    char message[32];
    int rank = ls_group_rank(g);
    snprintf(message, sizeof message, "no disk on %d", rank);
    ls_status s = ls_ranks_agree(g, rank == 1 || rank == 2 ? ls_fail(LS_E_IO, "%s", message) : LS_OK);
    if (rank == 1) {
        RANK_CHECK(s == LS_E_IO && !strcmp(ls_error_message(), "no disk on 1"));
        return s;
    }
    RANK_CHECK(s == LS_E_PEER && strstr(ls_error_message(), "rank 1: no disk on 1"));
    return LS_OK; /* so that rank 1's status is the run's */
}

static ls_status none_fail(ls_group *g, void *context)
{
    (void)context;
    for (int i = 0; i < 3; i++)
        LS_TRY(ls_ranks_agree(g, LS_OK));
    return LS_OK;
}

/* Takes longer than the group's deadline on rank 1; rank 2 fails, or nobody. */
static ls_status work_long(void *context)
{
    const int rank = *(const int *)context;
    if (rank == 1)
        usleep(400000);
    return rank == 2 ? ls_fail(LS_E_IO, "no network on 2") : LS_OK;
}

static ls_status await_long_work(ls_group *g, void *context)
{
    int rank = context || ls_group_rank(g) != 2 ? ls_group_rank(g) : 0;
    ls_group_set_deadline(g, 0.2);
    return ls_ranks_await(g, ls_group_rank(g) ? work_long : NULL, &rank);
}

static void long_work_is_waited_for(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(4, await_long_work, NULL));
    ASSERT_FAILS(run_ranks(4, await_long_work, "fails"), LS_E_IO, "no network on 2");
}

static void one_failure_is_heard(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(4, none_fail, NULL));
    ASSERT_FAILS(run_ranks(4, some_fail, NULL), LS_E_IO, "no disk on 1");
}

/* Rank 2 sets `context`; the others do not. */
static ls_status meet(ls_group *g, void *context)
{
    ls_recipe *r;
    int threads = 0;
    LS_TRY(load(&r, ls_group_rank(g) == 2 ? context : NULL));
    ls_status s = ls_ranks_compare(&threads, NULL, g, r);
    ls_recipe_destroy(&r);
    if (s == LS_E_PEER && context) {
        RANK_CHECK(strstr(ls_error_message(), "rank 2: the ranks were given different recipes"));
        return LS_OK; /* so that rank 2's status is the run's */
    }
    LS_TRY(s);
    /* threads of one process may all use all of its cores */
    RANK_CHECK(threads == ls_default_threads(ls_group_size(g), NULL));
    return LS_OK;
}

static void equal_ranks_divide_the_cores(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(1, meet, NULL));
    ASSERT_OK(run_ranks(3, meet, NULL));
    ASSERT_OK(run_ranks(3, meet, "threads=7")); /* hosts may differ in that */
}

/* The C library's function, so that a rank can have more cores than this machine: those from `first` on, if
 * `count` is not 0. */
static _Thread_local int first, count;
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    const long n = syscall(SYS_sched_getaffinity, pid, size, set);
    if (n < 0)
        return -1;
    memset((char *)set + n, 0, size - (size_t)n);
    if (count)
        CPU_ZERO_S(size, set);
    for (int i = 0; i < count; i++)
        CPU_SET_S((size_t)(first + i), size, set);
    return 0;
}

/* Rank r may use CORES[r] cores that no other rank may use. */
static ls_status meet_apart(ls_group *g, void *context)
{
    static const int CORES[] = { 8, 2, 4 };
    (void)context;
    const int rank = ls_group_rank(g);
    int threads = 0;
    ls_recipe *r;
    LS_TRY(load(&r, NULL));
    first = 16 * rank;
    count = CORES[rank];
    const ls_status s = ls_ranks_compare(&threads, NULL, g, r);
    count = 0;
    ls_recipe_destroy(&r);
    LS_TRY(s);
    const double quota = ls_cpu_quota_here().cores; /* the ranks share it, if there is one */
    RANK_CHECK(threads == (quota > 0 && ls_quota_threads(quota / 3) < 2 ? 1 : 2));
    return LS_OK;
}

static void the_rank_with_the_fewest_cores_decides(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(3, meet_apart, NULL));
}

/* Rank *context has a program of one step more than the others. */
static ls_status compare_programs(ls_group *g, void *context)
{
    const int other = *(const int *)context;
    ls_graph *graph;
    ls_plan *plan = NULL;
    ls_device d;
    LS_TRY(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    LS_TRY(ls_graph_create(&graph, "program"));
    ls_value x = ls_exp(graph, ls_input(graph, "x", LS_TYPE(LS_F32, 8)));
    ls_output(graph, "y", ls_group_rank(g) == other ? ls_exp(graph, x) : x);
    ls_status s = ls_graph_finish(graph);
    if (s == LS_OK)
        s = ls_plan_create(&plan, graph, &d, NULL);
    if (s == LS_OK)
        s = ls_programs_agree(g, &(ls_mesh){ .n = 0 }, 1, &plan);
    ls_plan_destroy(&plan);
    ls_graph_destroy(&graph);
    if (s == LS_E_PEER && strstr(ls_error_message(), "would run another program than rank 0"))
        return LS_OK; /* so that the status of the rank that differs is the run's */
    return s;
}

static void every_rank_has_its_program_compared(void **state)
{
    (void)state;
    ASSERT_OK(run_ranks(3, compare_programs, &(int){ -1 }));
    ASSERT_FAILS(run_ranks(3, compare_programs, &(int){ 1 }), LS_E_USAGE,
                 "rank 1 would run another program than rank 0");
    ASSERT_FAILS(run_ranks(3, compare_programs, &(int){ 2 }), LS_E_USAGE,
                 "rank 2 would run another program than rank 0");
}

/* On this rank the operand of a gather lies elsewhere in the window. */
typedef struct moved {
    int rank;   /* -1: on none */
    bool state; /* the operand is a state; else it is in the window's arena */
} moved;

static ls_status compare_places(ls_group *g, void *context)
{
    const moved *m = context;
    ls_graph *graph;
    ls_plan *plan = NULL;
    ls_device d;
    ls_parallel p = { LS_PARALLEL_DEFAULTS, .rank = ls_group_rank(g) };
    p.mesh.axes[0].size = 3;
    LS_TRY(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    LS_TRY(ls_graph_create(&graph, "program"));
    ls_value x = m->state ? ls_state(graph, "x", LS_TYPE(LS_F32, 8), (ls_init){ 0 })
                          : ls_exp(graph, ls_input(graph, "x", LS_TYPE(LS_F32, 8)));
    ls_output(
        graph, "y",
        ls_all_gather(graph, x, &(ls_gather_attrs){ .group = "dp", .unit = "a", .ranks = 3, .to = LS_F32 }));
    ls_status s = ls_graph_finish(graph);
    if (s == LS_OK)
        s = ls_plan_create(&plan, graph, &d, &(ls_plan_opts){ .parallel = &p });
    if (s == LS_OK && ls_group_rank(g) == m->rank) {
        const ls_node *gather = plan->graph->nodes[plan->collectives[0].node];
        ls_location *at = &plan->locations[gather->in[0].id];
        *(m->state ? &at->offset : &plan->allocs[at->alloc].offset) += 64;
    }
    if (s == LS_OK)
        s = ls_programs_agree(g, &p.mesh, 1, &plan);
    ls_plan_destroy(&plan);
    ls_graph_destroy(&graph);
    if (s == LS_E_PEER && strstr(ls_error_message(), "would run another program than rank 0"))
        return LS_OK;
    return s;
}

/* A rank that reads another's operand where its own lies would add other numbers, without a message. */
static void operands_lie_where_other_ranks_read_them(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        ASSERT_OK(run_ranks(3, compare_places, &(moved){ .rank = -1, .state = k }));
        ASSERT_FAILS(run_ranks(3, compare_places, &(moved){ .rank = 2, .state = k }), LS_E_USAGE,
                     k ? "at 64 of the window's states" : "at 64 of the window's arena");
    }
}

static void another_recipe_is_refused(void **state)
{
    (void)state;
    ASSERT_FAILS(run_ranks(4, meet, "train.epochs=9"), LS_E_USAGE,
                 "different recipes: rank 2 has train.epochs: 9, rank 0 has train.epochs: 1");
    ASSERT_FAILS(run_ranks(3, meet, "optimizer.lr=0.5"), LS_E_USAGE,
                 "rank 2 has optimizer.lr: 0.5, rank 0 has optimizer.lr: 0.001");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_failure_is_heard),
        cmocka_unit_test(long_work_is_waited_for),
        cmocka_unit_test(equal_ranks_divide_the_cores),
        cmocka_unit_test(another_recipe_is_refused),
        cmocka_unit_test(the_rank_with_the_fewest_cores_decides),
        cmocka_unit_test(every_rank_has_its_program_compared),
        cmocka_unit_test(operands_lie_where_other_ranks_read_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
