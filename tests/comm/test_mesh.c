/* test_mesh.c - meshes: sizes, with the arithmetic in messages; groups by name; hosts. Layouts: what is
 * refused, choices that are resolved, shares. */
#include "comm/axes.h"
#include "lockstep/group.h"
#include "lockstep/parallel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

/* "dp:2 shard:0" -> a mesh */
static ls_mesh mesh(const char *text)
{
    ls_mesh m = { 0 };
    for (const char *p = text; *p; p += strspn(p, " ")) {
        size_t n = strcspn(p, ":");
        memcpy(m.axes[m.n].name, p, n);
        m.axes[m.n++].size = strtol(p + n + 1, (char **)(uintptr_t)&p, 10);
    }
    return m;
}

static void resolve_gives_auto_what_the_others_leave(void **state)
{
    (void)state;
    static const struct {
        const char *from;
        int64_t ranks;
        const char *to;
    } cases[] = {
        { "dp:0", 1, "dp=1" },
        { "dp:0", 7, "dp=7" },
        { "dp:2 shard:0", 8, "dp=2 x shard=4" },
        { "dp:0 shard:2", 2, "dp=1 x shard=2" },
        { "dp:2 shard:3 tp:1", 6, "dp=2 x shard=3 x tp=1" },
        { "tp:0 dp:4", 4, "tp=1 x dp=4" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_mesh from = mesh(cases[i].from), m;
        char text[128];
        ASSERT_OK(ls_mesh_resolve(&m, &from, cases[i].ranks));
        assert_string_equal(ls_mesh_text(text, &m), cases[i].to);
        assert_int_equal(ls_mesh_ranks(&m), cases[i].ranks);
    }
}

static void refusals_show_the_arithmetic(void **state)
{
    (void)state;
    static const struct {
        const char *from;
        int64_t ranks;
        const char *a, *b;
    } cases[] = {
        { "dp:2 shard:3", 4, "mesh dp 2 x shard 3 = 6, but there are 4 ranks", "start 6 (workers)" },
        { "dp:2", 1, "mesh dp 2, but there is 1 rank;", "start 2" },
        { "dp:0 shard:3", 4, "mesh dp auto x shard 3 = 3 x auto, but there are 4 ranks", "a multiple of 3" },
        { "dp:0 shard:0", 4, "dp and shard are both auto", "only one" },
        { "dp:-1", 4, "axis dp has -1 ranks", "auto" },
        { "dp:1000000 shard:1000000 tp:1000000", 4, "= 1000000000000000000, but there are 4 ranks", "" },
        { "dp:2 dp:2", 4, "axis dp is there twice", "" },
        { "dp:2 zz:2", 4, "no axis 'zz'", "only dp, data_parallel, shard, tp, cp, pp and ep have" },
        { "", 4, "1 to 8 axes", "not 0" },
        { "dp:0", 0, "0 ranks", "1 to 1000000" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ls_mesh from = mesh(cases[i].from), m = { .n = 77 };
        ASSERT_FAILS(ls_mesh_resolve(&m, &from, cases[i].ranks), LS_E_USAGE, cases[i].a, cases[i].b);
        assert_int_equal(m.n, 77);
    }
}

/* What an axis does is its role, whatever its name. */
static void names_are_free(void **state)
{
    (void)state;
    ls_mesh m, from = { .n = 3,
                        .axes = { { "rows", 2 }, { "blocks", 3 }, { "columns", 2 } },
                        .roles = { LS_ROLE_REPLICATE, LS_ROLE_SHARD, LS_ROLE_TENSOR } };
    char text[128];
    ASSERT_OK(ls_mesh_resolve(&m, &from, 12));
    assert_string_equal(ls_mesh_text(text, &m), "rows=2 x blocks=3 x columns=2");
    assert_string_equal(ls_mesh_data_axes(&m), "rows*blocks");
    assert_string_equal(ls_mesh_axis(&m, LS_ROLE_TENSOR), "columns");
    assert_int_equal(ls_mesh_data_ranks(&m), 6);
    assert_int_equal(ls_mesh_data_rank(&m, 11), 5);
    assert_int_equal(ls_mesh_group_size(&m, ls_mesh_axis(&m, LS_ROLE_TENSOR)), 2);
    assert_string_equal(ls_mesh_model_axes(&m), "columns");
    from = (ls_mesh){ .n = 1, .axes = { { "data_parallel", 4 } } };
    ASSERT_OK(ls_mesh_resolve(&m, &from, 4));
    assert_string_equal(ls_mesh_data_axes(&m), "data_parallel");
    assert_string_equal(ls_mesh_axis(&m, LS_ROLE_SHARD), "");
    assert_string_equal(ls_mesh_model_axes(&m), "");
    from = (ls_mesh){ .n = 2, .axes = { { "dp", 2 }, { "data_parallel", 2 } } };
    ASSERT_FAILS(ls_mesh_resolve(&m, &from, 4), LS_E_USAGE, "axes dp and data_parallel have the same role");
    from = (ls_mesh){ .n = 1, .axes = { { "a*b", 2 } }, .roles = { LS_ROLE_SHARD } };
    ASSERT_FAILS(ls_mesh_resolve(&m, &from, 2), LS_E_USAGE, "'a*b' is not a name for an axis");
}

/* Members of rank's group, as "0 2 @1" (rank is at position 1). */
static const char *group(const ls_mesh *m, int rank, const char *name)
{
    static char text[256];
    int members[64], position = -1, n = ls_mesh_group(m, rank, name, members, &position), at = 0;
    assert_int_equal(n, ls_mesh_group_size(m, name));
    if (n < 0)
        return "none";
    for (int i = 0; i < n; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%d ", members[i]);
    snprintf(text + at, sizeof text - (size_t)at, "@%d", position);
    assert_int_equal(members[position], rank);
    return text;
}

static void groups_by_name(void **state)
{
    (void)state;
    ls_mesh m = mesh("dp:2 shard:4"), one = mesh("dp:4"), deep = mesh("dp:2 tp:2 shard:2");
    assert_string_equal(group(&m, 5, "dp"), "1 5 @1");
    assert_string_equal(group(&m, 5, "shard"), "4 5 6 7 @1");
    assert_string_equal(group(&m, 5, "shard/2"), "4 5 @1");
    assert_string_equal(group(&m, 6, "shard/2"), "6 7 @0");
    assert_string_equal(group(&m, 6, "dp*shard"), "0 1 2 3 4 5 6 7 @6");
    assert_string_equal(group(&m, 6, "shard*dp"), "0 1 2 3 4 5 6 7 @6");
    assert_string_equal(group(&m, 6, "dp*shard/4"), "4 5 6 7 @2");
    assert_string_equal(group(&m, 6, "dp/1"), "6 @0");
    assert_string_equal(group(&m, 6, "tp"), "6 @0");
    assert_string_equal(group(&m, 6, "dp*tp"), "2 6 @1");
    assert_string_equal(group(&m, 6, ""), "6 @0");
    assert_string_equal(group(&one, 2, "dp/2"), "2 3 @0");
    assert_string_equal(group(&deep, 5, "dp*shard"), "0 1 4 5 @3");
    assert_string_equal(group(&deep, 5, "tp"), "5 7 @0");
    static const char *const malformed[] = { "dp/3", "dp/0", "dp/",   "dp/-1", "dp/2x", "dp/ 2", "*",
                                             "dp*",  "*dp",  "dp*dp", "/2",    "dp//2", "dp/16" };
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        assert_string_equal(group(&m, 0, malformed[i]), "none");
        assert_int_equal(ls_mesh_group_index(&m, 0, malformed[i]), -1);
    }
}

/* Groups of a name split the ranks; the index tells them apart and counts from 0 without holes. */
static void groups_partition_the_ranks(void **state)
{
    (void)state;
    static const char *const meshes[] = { "dp:1", "dp:4", "dp:2 shard:2", "shard:3 dp:2",
                                          "dp:2 tp:3 shard:4" };
    static const char *const names[] = { "",        "dp",   "shard",      "dp*shard",   "tp",         "tp*dp",
                                         "shard/2", "dp/2", "dp*shard/2", "tp*shard/3", "dp*tp*shard" };
    for (size_t k = 0; k < sizeof meshes / sizeof meshes[0]; k++)
        for (size_t j = 0; j < sizeof names / sizeof names[0]; j++) {
            ls_mesh m = mesh(meshes[k]);
            int ranks = (int)ls_mesh_ranks(&m), size = ls_mesh_group_size(&m, names[j]), members[64],
                position, first[64], count[64] = { 0 };
            for (int r = 0; size > 0 && r < ranks; r++) {
                int g = ls_mesh_group_index(&m, r, names[j]);
                assert_in_range(g, 0, ranks / size - 1);
                assert_int_equal(ls_mesh_group(&m, r, names[j], members, &position), size);
                for (int i = 1; i < size; i++)
                    assert_true(members[i] > members[i - 1]);
                if (count[g]++)
                    assert_int_equal(first[g], members[0]);
                first[g] = members[0];
            }
            for (int g = 0; size > 0 && g < ranks / size; g++)
                assert_int_equal(count[g], size);
        }
}

static void data_ranks(void **state)
{
    (void)state;
    ls_mesh m = mesh("dp:2 tp:2 shard:3"), tp = mesh("tp:4");
    assert_int_equal(ls_mesh_data_ranks(&m), 6);
    assert_int_equal(ls_mesh_data_rank(&m, 0), 0);
    assert_int_equal(ls_mesh_data_rank(&m, 5), 2); /* dp 0, tp 1, shard 2 */
    assert_int_equal(ls_mesh_data_rank(&m, 9), 3); /* dp 1, tp 1, shard 0 */
    assert_string_equal(ls_mesh_data_axes(&m), "dp*shard");
    assert_int_equal(ls_mesh_data_ranks(&tp), 1);
    assert_int_equal(ls_mesh_data_rank(&tp, 3), 0);
    assert_string_equal(ls_mesh_data_axes(&tp), "");
    ls_mesh dp = mesh("dp:2"), shard = mesh("tp:1 shard:2");
    assert_string_equal(ls_mesh_data_axes(&dp), "dp");
    assert_string_equal(ls_mesh_data_axes(&shard), "shard");
}

/* ---- layouts */

static const ls_parallel DEFAULTS = { LS_PARALLEL_DEFAULTS };

#define LAYOUT(text, ...) ((ls_parallel){ LS_PARALLEL_DEFAULTS, .mesh = mesh(text), ##__VA_ARGS__ })
#define CAN_BE(text, ...) ASSERT_OK(ls_parallel_check(&LAYOUT(text, __VA_ARGS__)))

static void what_can_be(void **state)
{
    (void)state;
    ASSERT_OK(ls_parallel_check(&DEFAULTS));
    CAN_BE("dp:4", .rank = 3, .reshard_after_forward = 2);
    CAN_BE("dp:4", .reshard_after_forward = 4);
    CAN_BE("dp:1", .reshard_after_forward = 4); /* the same recipe on one worker */
    CAN_BE("dp:4", .data = LS_DATA_DDP, .synchronize = LS_SYNCHRONIZE_EACH, .bucket_bytes = 1);
    CAN_BE("dp:2 shard:2", .data = LS_DATA_DDP);
    CAN_BE("dp:2 shard:2", .data = LS_DATA_HYBRID, .ranks_per_host = 2, .gather = LS_GATHER_MAP);
    CAN_BE("dp:1 shard:1", .data = LS_DATA_HYBRID);
    CAN_BE("dp:1", .data = LS_DATA_NONE);
    CAN_BE("dp:1", .offload = LS_OFFLOAD_CPU, .device_memory = 1 << 20);
    CAN_BE("dp:2 shard:2", .data = LS_DATA_HYBRID, .offload = LS_OFFLOAD_CPU, .gather = LS_GATHER_COPY);
    CAN_BE("dp:2", .reduce = LS_BF16, .prefetch_forward = 0);
    CAN_BE("dp:2", .units = "class:EncoderBlock");
    CAN_BE("dp:2", .units = "pattern:encoder.layers.*");
    CAN_BE("dp:2", .units = "size:1e6");
}

#define CANNOT_BE(code, layout, ...) ASSERT_FAILS(ls_parallel_check(&layout), code, __VA_ARGS__)

static void what_cannot_be_says_why(void **state)
{
    (void)state;
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:0"), "mesh dp=0: the auto axis", "ls_mesh_resolve");
    CANNOT_BE(LS_E_USAGE, LAYOUT(""), "1 to 8 axes");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:-2"), "1 to 1000000");
    CANNOT_BE(LS_E_USAGE, LAYOUT("a:1000000 b:1000000 c:1000000 d:1000000"), "1 to 1000000");
    CANNOT_BE(LS_E_USAGE, LAYOUT("xp:2"), "no axis 'xp'");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:1 tp:2", .tensor = "colwise:a rowwise:"), "tensor: ", "rowwise:MODULE");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:1 tp:2", .tensor = " "), "tensor: ");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:2", .rank = 2), "rank 2", "dp=2, which has ranks 0 to 1");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:2", .rank = -1), "rank -1");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:2", .data = LS_DATA_NONE), "none", "over 2 ranks of mesh dp=2",
              "fsdp, ddp or hybrid");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:4", .data = LS_DATA_HYBRID), "hybrid", "has no axis shard",
              "{dp: auto, shard: 2}");
    CANNOT_BE(LS_E_USAGE, LAYOUT("shard:4", .data = LS_DATA_HYBRID), "replicates over an axis dp",
              "has no axis dp");
    CANNOT_BE(LS_E_USAGE, LAYOUT("shard:3 dp:2", .data = LS_DATA_HYBRID), "shard inside dp",
              "write dp before shard");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:2", .units = "blocks"), "'blocks' is not a policy",
              "class:NAME, pattern:GLOB, size:1e6");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:2", .units = "class:"), "not a policy");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:2", .units = "pattern:"), "not a policy");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:2", .units = ""), "it is empty: write none");
    static const char *const sizes[] = { "size:",     "size:0",  "size:-1",   "size:1.5", "size:big",
                                         "size:1e99", "size: 5", "size:0x10", "size:5e" };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        CANNOT_BE(LS_E_USAGE, LAYOUT("dp:2", .units = sizes[i]), "not a number of elements", "size:1e6");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:12", .reshard_after_forward = 5),
              "5 does not divide the 12 ranks that shard (dp)", "true, false, 2, 3, 4, 6, 12 would do");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:4 shard:2", .data = LS_DATA_HYBRID, .reshard_after_forward = 4),
              "4 does not divide the 2 ranks that shard (shard)");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:4", .reshard_after_forward = -2), "-2 is neither true");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:4", .data = LS_DATA_DDP, .reshard_after_forward = 2),
              "2 slices, but data: ddp shards nothing");
    CANNOT_BE(LS_E_UNSUPPORTED, LAYOUT("dp:4", .data = LS_DATA_DDP, .offload = LS_OFFLOAD_CPU),
              "offload: cpu keeps the shards", "data: ddp does not shard", "fsdp or hybrid");
    CANNOT_BE(LS_E_UNSUPPORTED, LAYOUT("dp:1", .data = LS_DATA_NONE, .offload = LS_OFFLOAD_CPU),
              "data: none does not shard");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:4", .gather = LS_GATHER_MAP, .offload = LS_OFFLOAD_CPU), "gather: map",
              "offload: cpu", "copy or auto");
    CANNOT_BE(LS_E_UNSUPPORTED, LAYOUT("dp:4", .gather = LS_GATHER_MAP, .ranks_per_host = 2),
              "one host (2 a host here)", "copy or auto");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:2", .device_memory = -1), "device_memory: -1 bytes");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:2", .reduce = LS_I32), "reduce: ", "i32");
    CAN_BE("dp:2", .prefetch_backward = LS_BACKWARD_POST);
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:2", .prefetch_backward = -2), "prefetch_backward -2");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:2", .prefetch_forward = LS_BACKWARD_POST), "prefetch_forward -1");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:2", .prefetch_memory = -1), "prefetch_memory -1");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:2", .bucket_bytes = 0), "bucket_bytes: 0 bytes");
    CANNOT_BE(LS_E_USAGE, LAYOUT("dp:2", .ranks_per_host = -1), "-1 ranks per host are not possible");
}

static void choices_resolve(void **state)
{
    (void)state;
    assert_true(ls_parallel_synchronizes_each(&LAYOUT("dp:2")));
    assert_true(ls_parallel_synchronizes_each(&LAYOUT("dp:2 shard:2", .data = LS_DATA_HYBRID)));
    assert_false(ls_parallel_synchronizes_each(&LAYOUT("dp:2", .data = LS_DATA_DDP)));
    assert_true(ls_parallel_synchronizes_each(&LAYOUT("dp:2", .data = LS_DATA_DDP, .sync_batch_norm = true)));
    assert_true(ls_parallel_synchronizes_each(
        &LAYOUT("dp:2", .data = LS_DATA_DDP, .synchronize = LS_SYNCHRONIZE_EACH)));
    assert_false(ls_parallel_synchronizes_each(&LAYOUT("dp:2", .synchronize = LS_SYNCHRONIZE_ONCE)));

    assert_true(ls_parallel_maps(&LAYOUT("dp:4")));
    assert_true(ls_parallel_maps(&LAYOUT("dp:4", .ranks_per_host = 4)));
    assert_false(ls_parallel_maps(&LAYOUT("dp:4", .ranks_per_host = 2)));
    /* rank 3 is alone on the second host */
    assert_false(ls_parallel_maps(&LAYOUT("dp:4", .ranks_per_host = 3)));
    assert_true(ls_parallel_maps(&LAYOUT("dp:2 shard:2", .data = LS_DATA_HYBRID, .ranks_per_host = 2)));
    assert_false(ls_parallel_maps(&LAYOUT("dp:3 shard:2", .data = LS_DATA_HYBRID, .ranks_per_host = 3)));
    assert_false(ls_parallel_maps(&LAYOUT("dp:4", .gather = LS_GATHER_COPY)));
    assert_false(ls_parallel_maps(&LAYOUT("dp:4", .offload = LS_OFFLOAD_CPU)));
    ls_parallel apart = LAYOUT("dp:4"), mapped = LAYOUT("dp:4", .gather = LS_GATHER_MAP);
    ASSERT_OK(ls_parallel_apart(&apart, "own"));
    assert_false(ls_parallel_maps(&apart));
    ASSERT_OK(ls_parallel_apart(&apart, "own"));
    ASSERT_FAILS(ls_parallel_apart(&mapped, "own"), LS_E_UNSUPPORTED, "gather: map", "device own",
                 "copy or auto");

    assert_int_equal(ls_parallel_reshards(&LAYOUT("dp:4")), -1);
    assert_int_equal(ls_parallel_reshards(&LAYOUT("dp:4", .reshard_after_forward = 4)), -1);
    assert_int_equal(ls_parallel_reshards(&LAYOUT("dp:4", .reshard_after_forward = 2)), 2);
    assert_int_equal(ls_parallel_reshards(&LAYOUT("dp:4", .reshard_after_forward = 1)), 0);
    assert_int_equal(ls_parallel_reshards(&LAYOUT("dp:4", .reshard_after_forward = 0)), 0);
    assert_int_equal(ls_parallel_reshards(&LAYOUT("dp:1", .reshard_after_forward = 2)), -1);
    assert_int_equal(
        ls_parallel_reshards(&LAYOUT("dp:4 shard:2", .data = LS_DATA_HYBRID, .reshard_after_forward = 2)),
        -1);

    assert_string_equal(ls_parallel_shard_axes(&LAYOUT("dp:2 shard:2")), "dp*shard");
    assert_string_equal(ls_parallel_shard_axes(&LAYOUT("dp:2 shard:2", .data = LS_DATA_HYBRID)), "shard");
    assert_string_equal(ls_parallel_shard_axes(&LAYOUT("dp:2", .data = LS_DATA_DDP)), "");
    assert_string_equal(ls_parallel_replicate_axes(&LAYOUT("dp:2 shard:2", .data = LS_DATA_DDP)), "dp*shard");
    assert_string_equal(ls_parallel_replicate_axes(&LAYOUT("dp:2 shard:2", .data = LS_DATA_HYBRID)), "dp");
    assert_string_equal(ls_parallel_replicate_axes(&LAYOUT("dp:2")), "");
    /* gradients are summed over the ranks that have tokens of the same samples, too */
    assert_string_equal(ls_parallel_shard_axes(&LAYOUT("dp:2 cp:2 tp:2")), "dp*cp");
    assert_string_equal(ls_parallel_replicate_axes(&LAYOUT("cp:2", .data = LS_DATA_DDP)), "cp");
    assert_string_equal(ls_parallel_shard_axes(&LAYOUT("dp:2 shard:2 cp:2", .data = LS_DATA_HYBRID)),
                        "shard*cp");
    assert_int_equal(ls_mesh_data_ranks(&LAYOUT("dp:2 cp:2 tp:2").mesh), 2);
}

/* Every micro-batch is computed by exactly one data rank, and the sums associate as in one process: the ranks
 * of one collective have consecutive micro-batches. */
static void every_micro_batch_has_one_rank(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks++)
        for (int64_t m = ranks; m <= 24; m += ranks)
            for (int each = 0; each < 2; each++) {
                int taken[24] = { 0 };
                for (int r = 0; r < ranks; r++) {
                    ls_parallel p = LAYOUT(
                        "dp:1", .synchronize = each ? LS_SYNCHRONIZE_EACH : LS_SYNCHRONIZE_ONCE, .rank = r);
                    p.mesh.axes[0].size = ranks;
                    ls_share s;
                    ASSERT_OK(ls_parallel_share(&s, &p, m));
                    assert_int_equal(s.count, m / ranks);
                    assert_int_equal(s.stride, each ? ranks : 1);
                    assert_int_equal(s.first, each ? r : r * (m / ranks));
                    for (int64_t i = 0; i < s.count; i++)
                        taken[s.first + i * s.stride]++;
                }
                for (int64_t i = 0; i < m; i++)
                    assert_int_equal(taken[i], 1);
            }
    ls_share s;
    ASSERT_OK(ls_parallel_share(&s, &LAYOUT("dp:2 shard:2", .data = LS_DATA_HYBRID, .rank = 2), 8));
    assert_true(s.first == 2 && s.stride == 4 && s.count == 2);
    ASSERT_FAILS(ls_parallel_share(&s, &LAYOUT("dp:4"), 6), LS_E_USAGE,
                 "4 data ranks do not divide the 6 micro-batches", "would do: 1, 2, 3, 6");
    ASSERT_FAILS(ls_parallel_share(&s, &LAYOUT("dp:2"), 1), LS_E_USAGE, "would do: 1");
    ASSERT_FAILS(ls_parallel_share(&s, &LAYOUT("dp:2"), 0), LS_E_USAGE, "0 micro-batches");
}

static void the_ranks_of_a_group(void **state)
{
    (void)state;
    ls_group *g[4];
    ls_parallel p = ls_parallel_over(NULL);
    assert_int_equal(ls_mesh_ranks(&p.mesh), 1);
    ASSERT_OK(ls_group_threads(g, 4));
    p = ls_parallel_over(g[2]);
    assert_string_equal(p.mesh.axes[0].name, "dp");
    assert_true(p.mesh.n == 1 && p.mesh.axes[0].size == 4 && p.rank == 2 && p.ranks_per_host == 4);
    ASSERT_OK(ls_parallel_check(&p));
    for (int i = 0; i < 4; i++)
        ls_group_destroy(&g[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resolve_gives_auto_what_the_others_leave),
        cmocka_unit_test(names_are_free),
        cmocka_unit_test(refusals_show_the_arithmetic),
        cmocka_unit_test(groups_by_name),
        cmocka_unit_test(groups_partition_the_ranks),
        cmocka_unit_test(data_ranks),
        cmocka_unit_test(what_can_be),
        cmocka_unit_test(what_cannot_be_says_why),
        cmocka_unit_test(choices_resolve),
        cmocka_unit_test(every_micro_batch_has_one_rank),
        cmocka_unit_test(the_ranks_of_a_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
