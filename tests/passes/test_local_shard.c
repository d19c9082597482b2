/* test_local_shard.c - local shards of parameters: in any layout, all ranks of a mesh together store every
 * element exactly once for each copy, and each rank knows the local shards of the others. */
#include <stdlib.h>
#include <string.h>

#include "lockstep/models.h"
#include "passes/passes.h"
#include "support/support.h"
#include "support/lowered.h"

static const ls_precision F32 = { LS_PRECISION_DEFAULTS };

enum { RANKS = 8 };
static const ls_decoder_config DECODER = { .seq_length = 4,
                                           .vocab_size = 10,
                                           .hidden_size = 12,
                                           .mlp_size = 20,
                                           .layers = 2,
                                           .heads = 2,
                                           .kv_heads = 2,
                                           .head_dim = 6,
                                           .norm_eps = 1e-6,
                                           .rope_theta = 1e4,
                                           .init_deviation = 0.1,
                                           .tied = true,
                                           .qkv_bias = true,
                                           .output_bias = true,
                                           .block = "Block" };

static void lay_out(ls_units *u, const ls_parallel *p)
{
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "decoder"));
    ASSERT_OK(ls_decoder_build(g, &DECODER, 1));
    lowered(g, 1);
    ls_value loss = LS_NONE;
    for (int i = 0; i < g->n_outputs; i++)
        if (!strcmp(g->outputs[i].name, "loss"))
            loss = g->outputs[i].value;
    g->n_outputs = 0; /* logits would be split */
    ls_output(g, "loss", loss);
    ASSERT_OK(ls_pass_propagate(&g, p));
    ASSERT_OK(ls_units_lay_out(u, g, p, &(ls_trained){ .freeze = "model.layers.1.mlp" }, &F32));
    ls_graph_destroy(&g);
}

static bool same(const ls_local_shard *a, const ls_local_shard *b)
{
    return ls_box_equal(&a->box, &b->box) && a->first == b->first && a->count == b->count && a->at == b->at &&
           a->copy == b->copy && a->copies == b->copies && a->model_copy == b->model_copy;
}

/* The elements of a local shard: one more in `seen`, once in the rank's slice of the unit. */
static void mark(int *seen, int *slice, int64_t room, const ls_local_shard *h)
{
    for (int64_t i = 0; i < h->count; i++) {
        int64_t run;
        const int64_t number = ls_box_run(&h->box, h->first + i, &run);
        assert_true(run >= 1);
        seen[number]++;
        assert_true(h->at + i < room);
        assert_int_equal(slice[h->at + i]++, 0);
    }
}

/* `split`, `whole`: the number of copies of a parameter that an axis shards, and of one that none shards. */
static void expect(const ls_mesh *mesh, ls_data_parallel data, int split, int whole)
{
    ls_parallel p = { LS_PARALLEL_DEFAULTS, .mesh = *mesh, .data = data, .units = "class:Block" };
    const int ranks = (int)ls_mesh_ranks(mesh);
    ls_units u[RANKS];
    ls_local_shard h[RANKS];
    int sharded = 0;
    for (p.rank = 0; p.rank < ranks; p.rank++)
        lay_out(&u[p.rank], &p);
    int *slices = calloc((size_t)(ranks * u[0].slice), sizeof *slices);
    assert_non_null(slices);
    for (int i = 0; i < u->n_slots; i++) {
        const ls_slot *s = &u->slots[i];
        const int64_t count = ls_type_count(&s->whole);
        const int copies = ls_sharded_axes(&s->sharded) ? split : whole;
        int64_t before = 0; /* units in front of its own, in a rank's memory */
        for (int k = 0; k < s->unit; k++)
            before += u->units[k].slice;
        sharded += copies == split && split != whole;
        int *seen = calloc((size_t)(count * (copies + 1)), sizeof *seen), *counted = seen + count * copies;
        assert_non_null(seen);
        for (int r = 0; r < ranks; r++) {
            h[r] = ls_slot_local_shard(u, mesh, i, r);
            for (int other = 1; other < ranks; other++) {
                const ls_local_shard there = ls_slot_local_shard(&u[other], mesh, i, r);
                assert_true(same(&h[r], &there));
            }
            assert_int_equal(h[r].copies, copies);
            assert_in_range(h[r].copy, 0, copies - 1);
            assert_in_range(h[r].first + h[r].count, 0, ls_box_count(&h[r].box));
            assert_int_equal(ls_box_count(&h[r].box), ls_type_count(&s->type));
            int *mine = slices + r * u->slice + before;
            mark(seen + count * h[r].copy, mine, u->units[s->unit].slice, &h[r]);
            for (int64_t k = 0; k < h[r].count && h[r].model_copy == 0; k++)
                counted[ls_box_run(&h[r].box, h[r].first + k, NULL)]++;
        }
        for (int64_t k = 0; k < count * copies; k++)
            if (seen[k] != 1)
                fail_msg("%s, element %lld of copy %lld: %d ranks store it", s->name, (long long)(k % count),
                         (long long)(k / count), seen[k]);
        for (int64_t k = 0; k < count; k++) /* once in each replica */
            assert_int_equal(counted[k], u->sharding.replicas);
        assert_int_equal(ls_slot_everywhere(u, i), copies == ranks);
        free(seen);
    }
    assert_int_equal(sharded > 0, ls_mesh_group_size(mesh, "tp") > 1);
    free(slices);
    for (int r = 0; r < ranks; r++)
        ls_units_release(&u[r]);
}

static void every_element_in_every_copy(void **state)
{
    (void)state;
    const ls_mesh one = { .n = 1, .axes = { { "dp", 1 } } },
                  dp = { .n = 2, .axes = { { "dp", 2 }, { "tp", 2 } } },
                  inner = { .n = 2, .axes = { { "tp", 2 }, { "dp", 2 } } },
                  shard = { .n = 2, .axes = { { "shard", 2 }, { "tp", 2 } } },
                  both = { .n = 2, .axes = { { "dp", 2 }, { "shard", 4 } } },
                  all = { .n = 3,
                          .axes = { { "replicate", 2 }, { "shard", 2 }, { "tp", 2 } },
                          .roles = { LS_ROLE_REPLICATE } };
    expect(&one, LS_DATA_FSDP, 1, 1);
    expect(&dp, LS_DATA_FSDP, 1, 2);
    expect(&dp, LS_DATA_DDP, 2, 4);
    expect(&inner, LS_DATA_FSDP, 1, 2);
    expect(&inner, LS_DATA_DDP, 2, 4);
    expect(&shard, LS_DATA_FSDP, 1, 2);
    expect(&both, LS_DATA_FSDP, 1, 1);
    expect(&both, LS_DATA_HYBRID, 2, 2);
    expect(&all, LS_DATA_HYBRID, 2, 4);
    expect(&all, LS_DATA_FSDP, 1, 2);
    expect(&all, LS_DATA_DDP, 4, 8);
}

static void blocks_are_numbered(void **state)
{
    (void)state;
    int64_t of;
    ls_box b = ls_box_of(&LS_TYPE(LS_F32, 4, 6));
    assert_int_equal(ls_box_number(&b, &of), 0);
    assert_int_equal(of, 1);
    assert_true(ls_box_split(&b, 1, 3, 2));
    assert_int_equal(ls_box_number(&b, &of), 2);
    assert_int_equal(of, 3);
    assert_true(ls_box_split(&b, 0, 2, 1));
    assert_int_equal(ls_box_number(&b, &of), 5);
    assert_int_equal(of, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_in_every_copy),
        cmocka_unit_test(blocks_are_numbered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
