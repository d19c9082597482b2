/* test_links.c - collectives over links of the device emulated: every kind, sizes that divide nothing, all
 * types, 1 to 5 ranks, with the bits of collectives through host memory; and what a session says of a rank
 * that is lost, which no collective of the host waits for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "device/device.h"
#include "execute/internal.h"
#include "execute/planned.h"
#include "ops/rules.h"
#include "support/ranks.h"
#include "support/support.h"

enum { MOST = 60000, RANKS = 5, RUNS = 3 };

typedef struct test {
    ls_collective_kind kind;
    ls_dtype from, via, to;
    int64_t count; /* ls_collective_desc */
    int ranks;
    bool linked;
    /* [runs][ranks] the result of each rank */
    char *results[RUNS][RANKS];
    size_t bytes;
} test;

static ls_value collective(ls_graph *g, ls_value x, const test *t)
{
    const ls_gather_attrs gather = {
        .group = "dp", .unit = "u", .ranks = t->ranks, .to = t->to, .via = t->via
    };
    const ls_reduce_attrs reduce = { .group = "dp",
                                     .unit = "u",
                                     .ranks = t->ranks,
                                     .to = t->to,
                                     .via = t->via,
                                     .how = t->kind == LS_ALL_REDUCE_MAX    ? LS_HOW_MAX
                                            : t->kind == LS_ALL_REDUCE_WIDE ? LS_HOW_WIDE
                                                                            : LS_HOW_SUM };
    return t->kind == LS_ALL_GATHER       ? ls_all_gather(g, x, &gather)
           : t->kind == LS_REDUCE_SCATTER ? ls_reduce_scatter(g, x, &reduce)
                                          : ls_all_reduce(g, x, &reduce);
}

static void draw(char *out, ls_dtype type, int64_t n, int rank, int run)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits[4];
        ls_rng_block(ls_rng_key_of(11, (uint64_t)run), (uint64_t)i, (uint64_t)rank, bits);
        const float x = (float)(int32_t)bits[0] * 0x1p-28f;
        if (type == LS_I64)
            memcpy(out + 8 * i, bits, 8);
        else
            memcpy(out + 4 * i, &x, 4);
    }
}

/* x (f32 or i64) -> its type -> the collective -> y, several times. */
static ls_status on_rank(ls_group *group, void *context)
{
    test *t = context;
    const int rank = ls_group_rank(group);
    const ls_mesh mesh = { .n = 1, .axes = { { "dp", t->ranks } } };
    const ls_parallel p = { LS_PARALLEL_DEFAULTS, .mesh = mesh, .rank = rank };
    const int64_t n = t->count * (t->kind == LS_REDUCE_SCATTER ? t->ranks : 1);
    const ls_dtype input = t->from == LS_I64 ? LS_I64 : LS_F32;
    ls_graph *g;
    ls_plan *plan = NULL;
    ls_session *s = NULL;
    ls_device d;
    ls_place x, y;
    LS_TRY(ls_device_open(&d, "emulated", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    if (t->linked)
        LS_TRY(ls_device_link(&d));
    if (d.linked != t->linked)
        return ls_fail(LS_E_INTERNAL, "the device has no links");
    LS_TRY(ls_graph_create(&g, "moves"));
    ls_value in = ls_input(g, "x", LS_TYPE(input, n));
    in = ls_is_view(ls_node_of(g, in)) || t->from == LS_I64 ? in : ls_relu(g, ls_cast(g, in, t->from));
    ls_output(g, "y", collective(g, in, t));
    ls_status status = ls_graph_finish(g);
    if (status == LS_OK)
        status = ls_plan_create(&plan, g, &d, &(ls_plan_opts){ .parallel = &p });
    if (status == LS_OK)
        status = ls_plan_check(plan);
    if (status == LS_OK)
        status = ls_session_create(&s, 1, &plan, &(ls_session_opts){ .group = group, .parallel = &p });
    if (status == LS_OK)
        status = ls_session_place(s, "x", &x);
    if (status == LS_OK)
        status = ls_session_place(s, "y", &y);
    char *numbers = malloc((size_t)n * 8);
    for (int run = 0; run < RUNS && status == LS_OK; run++) {
        draw(numbers, input, n, rank, run);
        status = ls_session_write(&x, numbers, ls_type_bytes(&x.type));
        if (status == LS_OK)
            status = ls_session_run(s, 0, run == 1);
        const size_t bytes = ls_type_bytes(&y.type);
        t->results[run][rank] = malloc(bytes);
        if (rank == 0)
            t->bytes = bytes;
        if (status == LS_OK)
            status = ls_session_read(&y, t->results[run][rank], bytes);
    }
    free(numbers);
    ls_session_destroy(&s);
    ls_plan_destroy(&plan);
    ls_graph_destroy(&g);
    return status;
}

static void release(test *t)
{
    for (int run = 0; run < RUNS; run++)
        for (int rank = 0; rank < t->ranks; rank++)
            free(t->results[run][rank]);
}

static void same_bits(test t)
{
    test linked = t;
    linked.linked = true;
    for (int i = 0; i < 2; i++)
        if (run_ranks(t.ranks, on_rank, i ? &linked : &t) != LS_OK)
            fail_msg("%s of %lld from %d via %d to %d, %d ranks: %s", ls_collective_name(t.kind),
                     (long long)t.count, (int)t.from, (int)t.via, (int)t.to, t.ranks, ls_error_message());
    for (int run = 0; run < RUNS; run++)
        for (int rank = 0; rank < t.ranks; rank++)
            if (memcmp(t.results[run][rank], linked.results[run][rank], t.bytes))
                fail_msg("%s of %lld from %d via %d to %d, %d ranks: other bits on rank %d in run %d",
                         ls_collective_name(t.kind), (long long)t.count, (int)t.from, (int)t.via, (int)t.to,
                         t.ranks, rank, run);
    release(&t);
    release(&linked);
}

static void every_kind(void **state)
{
    static const ls_dtype TYPES[][3] = { { LS_F32, LS_F32, LS_F32 },  { LS_F32, LS_F32, LS_BF16 },
                                         { LS_BF16, LS_F32, LS_F32 }, { LS_BF16, LS_BF16, LS_BF16 },
                                         { LS_F32, LS_BF16, LS_F32 }, { LS_F16, LS_F16, LS_F32 },
                                         { LS_F32, LS_F16, LS_F32 } };
    static const int64_t COUNTS[] = { 1, 63, 1000, 20000, 49152 };
    (void)state;
    for (int ranks = 2; ranks <= RANKS; ranks++)
        for (size_t n = 0; n < sizeof COUNTS / sizeof *COUNTS; n++) {
            for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++)
                for (int kind = LS_ALL_GATHER; kind <= LS_ALL_REDUCE; kind++)
                    if ((i + n + (size_t)ranks) % 2 == 0 || i == 0)
                        same_bits((test){ .kind = (ls_collective_kind)kind,
                                          .from = TYPES[i][0],
                                          .via = TYPES[i][1],
                                          .to = TYPES[i][2],
                                          .count = COUNTS[n],
                                          .ranks = ranks });
            same_bits((test){ .kind = LS_ALL_REDUCE_MAX, .count = COUNTS[n], .ranks = ranks });
            same_bits((test){ .kind = LS_ALL_REDUCE_WIDE,
                              .from = LS_I64,
                              .via = LS_I64,
                              .to = LS_I64,
                              .count = 2 * COUNTS[n],
                              .ranks = ranks });
        }
}

/* ---- a rank that is lost */

typedef enum loss { FAILS, LEAVES, LATE } loss;

static ls_status lose(ls_group *group, void *context)
{
    const loss how = *(const loss *)context;
    const int rank = ls_group_rank(group);
    const ls_mesh mesh = { .n = 1, .axes = { { "dp", 2 } } };
    const ls_parallel p = { LS_PARALLEL_DEFAULTS, .mesh = mesh, .rank = rank };
    ls_graph *g;
    ls_plan *plan = NULL;
    ls_session *s = NULL;
    ls_device d;
    if (how == LATE)
        ls_group_set_deadline(group, 0.2);
    LS_TRY(ls_device_open(&d, "emulated", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    LS_TRY(ls_device_link(&d));
    LS_TRY(ls_graph_create(&g, "lost"));
    const ls_reduce_attrs over = { .group = "dp", .unit = "u", .ranks = 2, .to = LS_F32 };
    ls_output(g, "y", ls_all_reduce(g, ls_relu(g, ls_input(g, "x", LS_TYPE(LS_F32, 64))), &over));
    ls_status status = ls_graph_finish(g);
    if (status == LS_OK)
        status = ls_plan_create(&plan, g, &d, &(ls_plan_opts){ .parallel = &p });
    if (status == LS_OK)
        status = ls_session_create(&s, 1, &plan, &(ls_session_opts){ .group = group, .parallel = &p });
    for (int run = 0; run < 3 && status == LS_OK; run++) {
        if (run == 2 && rank == 1)
            break;
        status = ls_session_run(s, 0, false);
        if (status == LS_OK)
            status = ls_session_wait(s);
    }
    if (rank == 1 && how == FAILS)
        status = ls_fail(LS_E_IO, "its disk is full");
    if (rank == 1 && how == FAILS)
        ls_group_fail(group, LS_E_IO, "its disk is full");
    if (rank == 1 && how == LATE)
        nanosleep(&(struct timespec){ .tv_nsec = 900000000 }, NULL);
    ls_session_destroy(&s);
    ls_plan_destroy(&plan);
    ls_graph_destroy(&g);
    return status;
}

static void a_lost_rank(void **state)
{
    (void)state;
    ASSERT_FAILS(run_ranks(2, lose, &(loss){ FAILS }), LS_E_IO, "its disk is full");
    ASSERT_FAILS(run_ranks(2, lose, &(loss){ LATE }), LS_E_PEER, "rank 1", "did not come within 0.2 s",
                 "the device of rank 0 waited for it");
    ASSERT_FAILS(run_ranks(2, lose, &(loss){ LEAVES }), LS_E_PEER, "rank 1", "has left the group",
                 "the device of rank 0 waited for it");
}

static int with_links(void **state)
{
    (void)state;
    return setenv("LOCKSTEP_EMULATED", "seed=3,delay=5us,links=1", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_kind), cmocka_unit_test(a_lost_rank) };
    return cmocka_run_group_tests(tests, with_links, NULL);
}
