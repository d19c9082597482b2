/* test_ledger.c - memory, collectives and bytes that `plan` and `explain` print are those that every rank
 * holds and counts while it runs steps. */
#include <stdio.h>
#include <string.h>

#include "golden/training.h"
#include "plan/describe.h"
#include "support/ranks.h"
#include "support/small_vit.h"
#include "node_bytes.h"
#include "support/mapping.h"

enum { STEPS = 2, M = 4, ROWS = 2, PIXELS = 64 };
static const ls_vit_config VIT = { SMALL_VIT, .layers = 3 };

typedef struct planned {
    int64_t calls;
    double bytes;
} planned;

/* As `plan` adds them up. A mapping without conversion is a collective that needs no call. */
static planned step_of(const ls_compiled *c)
{
    ls_traffic rows[LS_TRAFFIC_ROWS];
    int n = ls_plan_traffic(rows, 0, c->plans[LS_MICRO], c->share.count);
    n = ls_plan_traffic(rows, n, c->plans[LS_UPDATE], 1);
    planned p = { 0 };
    for (int i = 0; i < n; i++) {
        p.calls += rows[i].map && rows[i].bytes == 0 ? 0 : rows[i].calls;
        p.bytes += rows[i].bytes;
    }
    return p;
}

static ls_status rank(ls_group *g, void *context)
{
    ls_trainer_opts o = *(const ls_trainer_opts *)context;
    ls_trainer *t;
    o.group = g;
    o.parallel.rank = ls_group_rank(g);
    LS_TRY(ls_trainer_create_with(&t, training_build_vit, &VIT, &o));
    const planned want = step_of(&t->compiled);
    ls_footprint f;
    ls_plans_footprint(&f, LS_PROGRAMS, t->compiled.plans);
    /* regions are whole pages, in dev builds with guards between them */
    const size_t held = ls_session_bytes(t->session), page = 4096;
    if (held < f.total || held > f.total + 16 * page || node_bytes(t->session) != f.node) {
        ls_trainer_destroy(&t);
        return ls_fail(LS_E_INTERNAL, "the session holds %zu bytes, the plan says %zu; of the host's %zu",
                       held, f.total, f.node);
    }
    static const uint8_t images[M * ROWS * PIXELS];
    static const int32_t labels[M * ROWS];
    ls_status s = ls_trainer_init(t, 1);
    const ls_ledger before = ls_session_ledger(t->session);
    ls_step_result r;
    for (int i = 0; i < STEPS && s == LS_OK; i++)
        s = ls_trainer_step(t, images, labels, M * ROWS, 1e-3, &r);
    const ls_ledger after = ls_session_ledger(t->session);
    ls_trainer_destroy(&t);
    LS_TRY(s);
    if (after.calls - before.calls != STEPS * want.calls ||
        (double)(after.bytes - before.bytes) != STEPS * want.bytes)
        return ls_fail(LS_E_INTERNAL,
                       "the ledger has %lld collectives and %lld bytes, the plan %lld and %.0f",
                       (long long)(after.calls - before.calls), (long long)(after.bytes - before.bytes),
                       (long long)(STEPS * want.calls), STEPS * want.bytes);
    return want.bytes > 0 ? LS_OK : ls_fail(LS_E_INTERNAL, "the plan moves nothing");
}

static void the_ledger_is_the_plan(void **state)
{
    (void)state;
    const struct {
        int dp, shard, micro_batches;
        ls_data_parallel data;
        int64_t reshard;
        ls_gather_choice gather;
        ls_synchronize_choice when;
        ls_dtype param;
        double clip;
    } CASES[] = {
        { 2, 0, 4, LS_DATA_FSDP, -1, LS_GATHER_COPY, LS_SYNCHRONIZE_AUTO, LS_F32, 0 },
        { 4, 0, 4, LS_DATA_FSDP, 2, LS_GATHER_COPY, LS_SYNCHRONIZE_AUTO, LS_F32, 1 },
        { 2, 0, 4, LS_DATA_FSDP, 0, LS_GATHER_MAP, LS_SYNCHRONIZE_EACH, LS_F32, 0 },
        { 2, 0, 4, LS_DATA_FSDP, -1, LS_GATHER_MAP, LS_SYNCHRONIZE_ONCE, LS_BF16, 0 },
        { 2, 2, 4, LS_DATA_HYBRID, -1, LS_GATHER_COPY, LS_SYNCHRONIZE_EACH, LS_BF16, 1 },
        { 2, 0, 4, LS_DATA_DDP, -1, LS_GATHER_AUTO, LS_SYNCHRONIZE_AUTO, LS_F32, 0 },
        { 4, 0, 4, LS_DATA_DDP, -1, LS_GATHER_AUTO, LS_SYNCHRONIZE_EACH, LS_F16, 0 },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        ls_trainer_opts o = { LS_TRAINER_DEFAULTS,     .threads = 1,
                              .micro_batch = ROWS,     .micro_batches = CASES[i].micro_batches,
                              .param = CASES[i].param, .clip_norm = CASES[i].clip };
        o.parallel.mesh = (ls_mesh){ .n = CASES[i].shard ? 2 : 1,
                                     .axes = { { "dp", CASES[i].dp }, { "shard", CASES[i].shard } } };
        o.parallel.data = CASES[i].data;
        o.parallel.units = "class:EncoderBlock";
        o.parallel.reshard_after_forward = CASES[i].reshard;
        o.parallel.gather = mapping_or_auto(CASES[i].gather);
        o.parallel.synchronize = CASES[i].when;
        if (run_ranks((int)ls_mesh_ranks(&o.parallel.mesh), rank, &o) != LS_OK)
            fail_msg("case %zu: %s", i, ls_error_message());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_ledger_is_the_plan) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
