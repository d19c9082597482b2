/* test_layout.c - the unit of each parameter and its position in the unit, and the collectives that the
 * chains of a layout add to the graph. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "passes/autodiff.h"
#include "lockstep/models.h"
#include "lockstep/nn.h"
#include "ops/rules.h"
#include "passes/passes.h"
#include "support/small_vit.h"
#include "support/support.h"
#include "support/lowered.h"

static const ls_precision F32 = { LS_PRECISION_DEFAULTS };

static const ls_vit_config VIT = { SMALL_VIT, .layers = 3 };

static ls_parallel over(int ranks, ls_data_parallel data, const char *units)
{
    ls_parallel p = { LS_PARALLEL_DEFAULTS, .data = data, .units = units, .gather = LS_GATHER_COPY };
    p.mesh.axes[0].size = ranks;
    return p;
}

static ls_graph *model(void)
{
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "vit"));
    ASSERT_OK(ls_vit_build(g, &VIT, 2));
    lowered(g, 2);
    return g;
}

static int count(const ls_graph *g, const char *op, const char *group)
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *x = g->nodes[i];
        /* every record begins with the group */
        n += !strcmp(x->op->name, op) &&
             (!group || !strcmp(((const ls_reduce_attrs *)x->attrs)->group, group));
    }
    return n;
}

/* Forward, units, backward, reshard, as train/compile.c does. */
static ls_graph *step(const ls_parallel *p, ls_dtype param, ls_units *u)
{
    ls_graph *g = model();
    ls_value grads[64], use[64], loss = LS_NONE;
    ASSERT_OK(ls_pass_units(
        &g, &(ls_precision){ LS_PRECISION_DEFAULTS, .param = param, .reduce = p ? p->reduce : LS_F32 }, p,
        NULL, u));
    for (int i = 0; i < g->n_outputs; i++)
        if (!strcmp(g->outputs[i].name, "loss"))
            loss = g->outputs[i].value;
    g->n_outputs = 0;
    ls_output(g, "loss", loss);
    for (int i = 0; i < u->n; i++)
        use[i] = u->units[i].use;
    g->phase = LS_PHASE_BACKWARD;
    ASSERT_OK(ls_backward(g, loss, ls_fill(g, ls_value_type(g, loss), 1), u->n, use, grads));
    for (int i = 0; i < u->n; i++)
        ls_output(g, u->units[i].state, grads[i]);
    ASSERT_OK(ls_pass_dce(&g));
    ASSERT_OK(ls_pass_reshard(&g, p, u));
    ASSERT_OK(ls_pass_dce(&g));
    ASSERT_OK(ls_graph_verify(g));
    return g;
}

static void done(ls_graph *g, ls_units *u)
{
    ls_graph_destroy(&g);
    ls_units_release(u);
}

static void units_of_a_class(void **state)
{
    (void)state;
    const char *policies[] = { "class:EncoderBlock", "pattern:encoder.layers.*" };
    for (int k = 0; k < 2; k++) {
        const ls_parallel p = over(3, LS_DATA_FSDP, policies[k]);
        ls_units u;
        ls_graph *g = model();
        ASSERT_OK(
            ls_units_lay_out(&u, g, &p, NULL, &(ls_precision){ LS_PRECISION_DEFAULTS, .param = LS_BF16 }));
        assert_int_equal(u.n, 4);
        assert_string_equal(u.units[0].state, "unit root"); /* the patch projection comes first */
        assert_string_equal(u.units[3].state, "unit encoder.layers.encoder_layer_2");
        int64_t sum = 0;
        for (int i = 0; i < u.n; i++) {
            assert_int_equal(u.units[i].slice * 3, u.units[i].elements);
            assert_int_equal(u.units[i].slice % 32, 0); /* 64 bytes of bf16 */
            assert_true(u.units[i].elements - u.units[i].parameters < 3 * 32 + 16 * 20);
            sum += u.units[i].parameters;
        }
        assert_int_equal(sum, u.parameters);
        for (int i = 0; i < u.n_slots; i++) {
            const ls_slot *s = &u.slots[i];
            const bool block = !strncmp(s->name, "encoder.layers.", 15);
            assert_int_equal(block, s->unit != 0);
            assert_int_equal(s->offset % 16, 0);
            assert_true(s->offset + ls_type_count(&s->type) <= u.units[s->unit].elements);
            for (int j = 0; j < i; j++) /* none overlaps another of its unit */
                assert_true(u.slots[j].unit != s->unit ||
                            u.slots[j].offset + ls_type_count(&u.slots[j].type) <= s->offset);
        }
        done(g, &u);
    }
}

static void units_by_size(void **state)
{
    (void)state;
    ls_units u;
    ls_parallel p = over(2, LS_DATA_FSDP, "size:1000");
    ls_graph *g = model();
    ASSERT_OK(ls_units_lay_out(&u, g, &p, NULL, &F32));
    assert_true(u.n > 4); /* attention and MLP are modules of their own */
    for (int i = 0; i < u.n; i++)
        if (strcmp(u.units[i].state, "unit root"))
            assert_true(u.units[i].parameters >= 1000);
    done(g, &u);
    for (int more = 0; more < 2; more++) {
        /* attention has 4 * 16 * 16 + 4 * 16 elements: so many are enough */
        p.units = more ? "size:1089" : "size:1088";
        int attention = 0;
        g = model();
        ASSERT_OK(ls_units_lay_out(&u, g, &p, NULL, &F32));
        for (int i = 0; i < u.n; i++)
            attention += u.units[i].parameters == 1088;
        assert_int_equal(attention, more ? 0 : 3);
        done(g, &u);
    }
}

static int unit_named(const ls_units *u, const char *state)
{
    for (int i = 0; i < u->n; i++)
        if (!strcmp(u->units[i].state, state))
            return i;
    return -1;
}

/* A set of words: a module that one of them names is a unit, of nested ones each. */
static void units_of_several_words(void **state)
{
    (void)state;
    ls_units u;
    ls_parallel p = over(2, LS_DATA_FSDP, "class:EncoderBlock  pattern:conv_* class:MultiheadAttention");
    ls_graph *g = model();
    ASSERT_OK(ls_units_lay_out(&u, g, &p, NULL, &F32));
    assert_int_equal(u.n, 1 + 1 + 3 + 3);
    assert_true(unit_named(&u, "unit conv_proj") >= 0 && unit_named(&u, "unit root") >= 0);
    const int block = unit_named(&u, "unit encoder.layers.encoder_layer_1"),
              attention = unit_named(&u, "unit encoder.layers.encoder_layer_1.self_attention");
    assert_true(block >= 0);
    assert_int_equal(u.units[attention].parameters, 1088);
    done(g, &u);
    /* size counts what no named module has taken: the blocks without their attention are too small */
    p.units = "class:MultiheadAttention size:1200";
    g = model();
    ASSERT_OK(ls_units_lay_out(&u, g, &p, NULL, &F32));
    assert_int_equal(unit_named(&u, "unit encoder.layers.encoder_layer_1"), -1);
    assert_true(unit_named(&u, "unit encoder.layers.encoder_layer_1.self_attention") >= 0);
    done(g, &u);
    p.units = "class:EncoderBlock class:Nothing";
    g = model();
    ASSERT_FAILS(ls_units_lay_out(&u, g, &p, NULL, &F32), LS_E_USAGE,
                 "units: class:Nothing: no module with parameters");
    done(g, &u);
}

/* ddp: reverse order, a small first bucket, a limit that the last tensor of a bucket may pass. */
static void buckets(void **state)
{
    (void)state;
    ls_units u;
    ls_parallel p = over(2, LS_DATA_DDP, "none");
    p.bucket_bytes = 4000;
    ls_graph *g = model();
    ASSERT_OK(ls_units_lay_out(&u, g, &p, NULL, &F32));
    assert_true(u.n > 5);
    assert_int_equal(u.slots[u.n_slots - 1].unit, 0);
    assert_int_equal(u.slots[0].unit, u.n - 1);
    for (int i = 1; i < u.n_slots; i++)
        assert_true(u.slots[i].unit <= u.slots[i - 1].unit);
    for (int i = 0; i < u.n; i++)
        assert_int_equal(u.units[i].slice, u.units[i].elements);
    done(g, &u);
    /* nine parameters of 1 MiB: one is as much as the first bucket has, two as much as each later one */
    p.bucket_bytes = 2 << 20;
    ASSERT_OK(ls_graph_create(&g, "large"));
    for (int i = 0; i < 9; i++)
        ls_param(g, (char[]){ (char)('a' + i), 0 }, LS_TYPE(LS_F32, 1 << 18),
                 (ls_init){ .kind = LS_INIT_ZERO });
    ASSERT_OK(ls_units_lay_out(&u, g, &p, NULL, &F32));
    assert_int_equal(u.n, 5);
    for (int i = 0; i < 9; i++)
        assert_int_equal(u.slots[i].unit, (9 - i) / 2);
    done(g, &u);
}

/* Parameters of different groups of the optimizer lie apart; each is in the first group that names it. */
static void groups(void **state)
{
    (void)state;
    static const char *const GROUPS[] = { "class:LayerNorm  pattern:*.bias",
                                          "pattern:encoder.layers.encoder_layer_0.*" };
    for (int ddp = 0; ddp < 2; ddp++) {
        ls_units u;
        ls_parallel p = over(2, ddp ? LS_DATA_DDP : LS_DATA_FSDP, "class:EncoderBlock");
        ls_graph *g = model();
        ASSERT_OK(ls_units_lay_out(
            &u, g, &p, &(ls_trained){ .freeze = "conv_proj", .n_groups = 2, .groups = GROUPS }, &F32));
        int found[3] = { 0 };
        for (int i = 0; i < u.n_slots; i++) {
            const ls_slot *s = &u.slots[i];
            const bool plain = strstr(s->name, ".bias") || strstr(s->name, "ln") == s->name ||
                               strstr(s->name, ".ln");
            const bool first = !strncmp(s->name, "encoder.layers.encoder_layer_0.", 31);
            const int want = s->frozen ? 0 : plain ? 1 : first ? 2 : 0;
            if (s->group != want || u.units[s->unit].group != want)
                fail_msg("%s is in group %d, and its unit %s in %d: not %d", s->name, s->group,
                         u.units[s->unit].state, u.units[s->unit].group, want);
            assert_true(!want == !strstr(u.units[s->unit].state, "group"));
            found[want]++;
        }
        assert_true(found[0] && found[1] && found[2] == 5);
        done(g, &u);
    }
    static const char *const WRONG[][2] = { { "class:LayerNorm class:Norm", "class:Norm names no" },
                                            { "*.bias", "*.bias names no parameter; words are" },
                                            { " ", "match is empty" },
                                            { "pattern:conv_proj.*", "gets no parameter" } };
    for (size_t k = 0; k < sizeof WRONG / sizeof WRONG[0]; k++) {
        ls_units u;
        ls_graph *g = model();
        const ls_trained what = { .freeze = "conv_proj", .n_groups = 1, .groups = &WRONG[k][0] };
        ASSERT_FAILS(ls_units_lay_out(&u, g, NULL, &what, &F32), LS_E_USAGE, "groups: group 1", WRONG[k][1]);
        done(g, &u);
    }
}

/* What is frozen lies apart, in units of the same modules, behind those that are trained. */
static void frozen_units(void **state)
{
    (void)state;
    static const char FREEZE[] =
        "conv_proj  encoder.layers.encoder_layer_[01] encoder.layers.encoder_layer_2.mlp.*.bias";
    for (int ddp = 0; ddp < 2; ddp++) {
        ls_units u;
        ls_parallel p = over(2, ddp ? LS_DATA_DDP : LS_DATA_FSDP, "class:EncoderBlock");
        ls_graph *g = model();
        ASSERT_OK(ls_units_lay_out(&u, g, &p, &(ls_trained){ .freeze = FREEZE }, &F32));
        assert_int_equal(u.n, ddp ? 2 : 6);
        assert_int_equal(u.trained, ddp ? 1 : 2);
        assert_string_equal(u.units[u.trained].state, ddp ? "unit frozen" : "unit root frozen");
        int biases = 0;
        for (int i = 0; i < u.n_slots; i++) {
            const ls_slot *s = &u.slots[i];
            const bool block = !strncmp(s->name, "encoder.layers.encoder_layer_", 29),
                       last = block && s->name[29] == '2';
            const bool bias = last && strstr(s->name, ".mlp.") && strstr(s->name, ".bias");
            biases += bias;
            assert_int_equal(s->frozen, !strncmp(s->name, "conv_proj.", 10) || (block && !last) || bias);
            assert_int_equal(u.units[s->unit].frozen, s->frozen);
            assert_int_equal(s->unit >= u.trained, s->frozen);
        }
        assert_int_equal(biases, 2);
        done(g, &u);
    }
    static const char *const WRONG[][2] = { { "conv_proj encoder.layer", "encoder.layer: the model has no" },
                                            { "encoder.*.bias.x", "no parameter" },
                                            { "*", "nothing to train" } };
    for (int k = 0; k < 3; k++) {
        ls_units u;
        ls_graph *g = model();
        ASSERT_FAILS(ls_units_lay_out(&u, g, NULL, &(ls_trained){ .freeze = WRONG[k][0] }, &F32), LS_E_USAGE,
                     "freeze: ", WRONG[k][1]);
        done(g, &u);
    }
}

static void nothing_matches(void **state)
{
    (void)state;
    const char *policies[] = { "class:Block", "pattern:decoder.*", "size:1e9" };
    for (int k = 0; k < 9; k++) {
        /* on one rank, and with ddp, nothing is gathered, but the word is as wrong */
        ls_units u;
        ls_graph *g = model();
        const ls_parallel p = over(k < 3 ? 1 : 2, k < 6 ? LS_DATA_FSDP : LS_DATA_DDP, policies[k % 3]);
        ASSERT_FAILS(ls_units_lay_out(&u, g, &p, NULL, &F32), LS_E_USAGE, policies[k % 3],
                     "no module with parameters");
        done(g, &u);
    }
}

static void one_collective_a_unit(void **state)
{
    (void)state;
    ls_units u;
    ls_parallel p = over(4, LS_DATA_FSDP, "class:EncoderBlock");
    p.reshard_after_forward = 0;
    ls_graph *g = step(&p, LS_F32, &u);
    assert_int_equal(count(g, "all_gather", "dp"), 4);
    assert_int_equal(count(g, "reduce_scatter", "dp"), 4);
    assert_int_equal(count(g, "all_reduce", NULL), 0);
    done(g, &u);

    p.reshard_after_forward = -1; /* all but the root again */
    g = step(&p, LS_BF16, &u);
    assert_int_equal(count(g, "all_gather", "dp"), 7);
    for (int i = 0; i < g->n_nodes; i++)
        if (!strcmp(g->nodes[i]->op->name, "all_gather"))
            assert_int_equal(ls_type_of(g, g->nodes[i]->out[0])->dtype, LS_BF16);
    done(g, &u);

    p.reshard_after_forward = 2; /* the second time over pairs */
    g = step(&p, LS_F32, &u);
    assert_int_equal(count(g, "all_gather", "dp"), 4);
    assert_int_equal(count(g, "all_gather", "dp/2"), 3);
    done(g, &u);

    p.reshard_after_forward = -1;
    p.gather = LS_GATHER_MAP; /* one copy a host: nothing to drop */
    g = step(&p, LS_F32, &u);
    assert_int_equal(count(g, "all_gather", "dp"), 4);
    done(g, &u);
}

/* What the backward pass reads of a unit that was dropped is the second gather's, so that the first can die.
 */
static void resharded_reads(void **state)
{
    (void)state;
    ls_units u;
    const ls_parallel p = over(4, LS_DATA_FSDP, "class:EncoderBlock");
    ls_graph *g = step(&p, LS_F32, &u);
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        for (int k = 0; k < n->n_in && n->phase == LS_PHASE_BACKWARD; k++) {
            const ls_node *from = ls_present(n->in[k]) ? ls_node_of(g, n->in[k]) : n;
            while (from->op->flags & LS_OP_VIEW)
                from = ls_node_of(g, from->in[0]);
            if (!strcmp(from->op->name, "all_gather") &&
                strcmp(((const ls_gather_attrs *)from->attrs)->unit, "unit root"))
                assert_int_equal(from->phase, LS_PHASE_BACKWARD);
        }
    }
    done(g, &u);
}

static void other_strategies(void **state)
{
    (void)state;
    ls_units u;
    ls_parallel p = over(2, LS_DATA_DDP, "none");
    p.synchronize = LS_SYNCHRONIZE_EACH;
    ls_graph *g = step(&p, LS_BF16, &u);
    assert_int_equal(count(g, "all_gather", NULL), 0);
    assert_int_equal(count(g, "all_reduce", "dp"), u.n);
    for (int i = 0; i < g->n_nodes; i++) /* gradients in bf16 are summed in f32 */
        if (!strcmp(g->nodes[i]->op->name, "all_reduce"))
            assert_int_equal(ls_type_of(g, g->nodes[i]->in[0])->dtype, LS_F32);
    done(g, &u);

    p = over(2, LS_DATA_HYBRID, "class:EncoderBlock");
    p.mesh = (ls_mesh){ .n = 2, .axes = { { "dp", 2 }, { "shard", 2 } } };
    g = step(&p, LS_F32, &u);
    assert_int_equal(count(g, "reduce_scatter", "shard"), 4);
    assert_int_equal(count(g, "all_reduce", "dp"), 4);
    done(g, &u);

    p = over(2, LS_DATA_FSDP, "class:EncoderBlock");
    p.offload = LS_OFFLOAD_CPU;
    g = step(&p, LS_F32, &u);
    /* as often as gathers: the slice comes from the host each time */
    assert_int_equal(count(g, "to_device", NULL), 7);
    assert_int_equal(count(g, "to_host", NULL), 4);
    done(g, &u);

    p.offload = LS_OFFLOAD_NONE;
    p.synchronize = LS_SYNCHRONIZE_ONCE; /* the update program reduces */
    g = step(&p, LS_F32, &u);
    assert_int_equal(count(g, "reduce_scatter", NULL), 0);
    for (int i = 0; i < u.n; i++)
        assert_int_equal(ls_type_of(g, g->outputs[1 + i].value)->dims[0], u.units[i].elements);
    done(g, &u);

    g = step(NULL, LS_F32, &u); /* one rank: one unit, no collective */
    assert_int_equal(u.n, 1);
    assert_int_equal(
        count(g, "all_gather", NULL) + count(g, "all_reduce", NULL) + count(g, "reduce_scatter", NULL), 0);
    done(g, &u);
}

/* A module that is called as what lies outside all modules: two units, whatever their names. */
static void a_module_called_root(void **state)
{
    (void)state;
    const ls_parallel p = over(2, LS_DATA_FSDP, "class:Block");
    ls_graph *g;
    ls_units u;
    ASSERT_OK(ls_graph_create(&g, "m"));
    ls_value x = ls_linear(g, "first", ls_input(g, "x", LS_TYPE(LS_F32, 4, 8)), 8);
    ls_scope_push(g, "root", "Block");
    x = ls_linear(g, "second", x, 8);
    ls_scope_pop(g);
    ls_output(g, "y", x);
    ASSERT_OK(ls_pass_units(&g, &F32, &p, NULL, &u));
    ASSERT_OK(ls_graph_verify(g));
    assert_int_equal(u.n, 2);
    assert_true(u.units[0].root && !u.units[1].root);
    assert_int_equal(count(g, "all_gather", NULL), 2);
    done(g, &u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_of_a_class),
        cmocka_unit_test(units_by_size),
        cmocka_unit_test(units_of_several_words),
        cmocka_unit_test(buckets),
        cmocka_unit_test(nothing_matches),
        cmocka_unit_test(one_collective_a_unit),
        cmocka_unit_test(resharded_reads),
        cmocka_unit_test(other_strategies),
        cmocka_unit_test(groups),
        cmocka_unit_test(frozen_units),
        cmocka_unit_test(a_module_called_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
