/* test_recompute.c - recomputation, fusion and all passes together: the same losses and gradients. */
#include <stdio.h>
#include <string.h>

#include "device/device.h"
#include "lockstep/nn.h"
#include "ops/rules.h"
#include "passes/evaluate.h"
#include "plan/plan.h"
#include "support/support.h"
#include "passes/models.h"

/* ---- recompute, fuse, and all of it */

static int clones(const ls_graph *g)
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        n += g->nodes[i]->clone_of >= 0;
    return n;
}

static void clean(ls_graph **g)
{
    ASSERT_OK(ls_pass_cse(g));
    ASSERT_OK(ls_pass_dce(g));
    ASSERT_OK(ls_pass_fuse(g));
    ASSERT_OK(ls_pass_dce(g));
    ASSERT_OK(ls_graph_verify(*g));
}

static void recompute_and_fuse(void **state)
{
    (void)state;
    static const ls_dtype types[] = { LS_F32, LS_BF16, LS_F16, LS_F64 };
    for (int k = 0; k < 4; k++) {
        ls_units u;
        ls_graph *plain = training(vit(&VIT, 3), types[k], LS_F32, &u), *again = copy_graph(plain),
                 *fused = copy_graph(plain);
        ASSERT_OK(ls_pass_recompute(&again, "class:EncoderBlock"));
        ASSERT_OK(ls_graph_verify(again));
        assert_int_equal(clones(plain), 0);
        int before = clones(again);
        assert_true(before > 3 * 8);
        expect_unchanged(plain, again, &u, types[k] == LS_F64, "recompute");
        for (int i = 0; i < again->n_nodes; i++) {
            /* the block's originals are not read in the backward pass any more */
            const ls_node *n = again->nodes[i];
            for (int j = 0; j < n->n_in && n->phase == LS_PHASE_BACKWARD && n->clone_of < 0; j++)
                if (ls_present(n->in[j])) {
                    const ls_node *p = ls_node_of(again, n->in[j]);
                    assert_false(p->phase == LS_PHASE_FORWARD && !strcmp(p->op->name, "gelu"));
                    assert_false(p->phase == LS_PHASE_FORWARD && !strcmp(p->op->name, "attention"));
                }
        }
        clean(&fused);
        expect_unchanged(plain, fused, &u, types[k] == LS_F64, "fuse");
        clean(&again);
        /* neither cse nor fusion undoes it; what leaves a block (mlp.3) is kept, not computed again */
        int products = 0;
        for (int i = 0; i < again->n_nodes; i++)
            if (again->nodes[i]->phase == LS_PHASE_BACKWARD && again->nodes[i]->op == &ls_op_linear) {
                products++;
                assert_true(again->nodes[i]->clone_of >= 0);
                assert_null(strstr(again->nodes[i]->scope->path, "mlp.3"));
            }
        /* in_proj, out_proj, mlp.0; the last block's query is one more */
        assert_int_equal(products, 3 * 3 + 1);
        expect_unchanged(plain, again, &u, types[k] == LS_F64, "recompute and fuse");
        ls_graph_destroy(&plain);
        ls_graph_destroy(&again);
        ls_graph_destroy(&fused);
        ls_units_release(&u);
    }
}

/* Nodes of the op that are computed again, once what nothing reads is gone. */
static int again(ls_graph *g, const ls_op *op)
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        n += g->nodes[i]->clone_of >= 0 && g->nodes[i]->op == op;
    return n;
}

/* What save:OP names is kept, all else of the module is computed again, and no bit changes. */
static void recompute_saves(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        int linear, attention, gelu; /* computed again, in 3 blocks */
    } CASES[] = {
        { "class:EncoderBlock", 10, 3, 3 },
        { "class:EncoderBlock save:linear", 0, 3, 3 },
        { "class:EncoderBlock save:attention", 10, 0, 3 },
        { "save:linear/2 class:EncoderBlock", 4, 3, 3 },
        { "class:EncoderBlock save:linear save:attention save:gelu", 0, 0, 0 },
    };
    ls_units u;
    ls_graph *plain = training(vit(&VIT, 3), LS_F32, LS_F32, &u);
    for (size_t k = 0; k < sizeof CASES / sizeof CASES[0]; k++) {
        ls_graph *g = copy_graph(plain);
        ASSERT_OK(ls_pass_recompute(&g, CASES[k].words));
        ASSERT_OK(ls_graph_verify(g));
        ASSERT_OK(ls_pass_dce(&g));
        expect_unchanged(plain, g, &u, false, CASES[k].words);
        assert_int_equal(again(g, &ls_op_linear), CASES[k].linear);
        assert_int_equal(again(g, ls_op_find("attention")), CASES[k].attention);
        assert_int_equal(again(g, ls_op_find("gelu")), CASES[k].gelu);
        clean(&g);
        expect_unchanged(plain, g, &u, false, CASES[k].words);
        ls_graph_destroy(&g);
    }
    ASSERT_FAILS(ls_pass_recompute(&plain, "class:EncoderBlock save:conv2d"), LS_E_USAGE, "recompute: ",
                 "'save:conv2d': the modules that are computed again have no operation conv2d");
    ls_graph_destroy(&plain);
    ls_units_release(&u);
    static const char *const none[] = { "save:",        "save:nothing",   "save:linear/0",
                                        "save:linear/", "save:linear/2x", "class:linear" };
    for (size_t k = 0; k < sizeof none / sizeof none[0]; k++)
        assert_false(ls_recompute_saves(none[k], &(ls_recompute_save){ 0 }));
}

static void recompute_refuses(void **state)
{
    (void)state;
    ls_units u;
    ls_graph *g = training(mlp(), LS_F32, LS_F32, &u);
    int n = g->n_nodes;
    ASSERT_FAILS(ls_pass_recompute(&g, "class:EncoderBlock"), LS_E_USAGE, "recompute: ", "\"mlp\"",
                 "no block that class:EncoderBlock names");
    assert_int_equal(g->n_nodes, n);
    ls_units_release(&u);
    ls_graph_destroy(&g);
}

/* Two blocks that read each other's insides, a block inside a block of the class, a value of the block that
 * is an output. */
static void recompute_odd_blocks(void **state)
{
    (void)state;
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "odd"));
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 4, 8)), inside;
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "block_%d", i);
        LS_SCOPE(g, name, "Block");
        ls_value h = ls_gelu(g, ls_linear(g, "a", x, 8));
        {
            LS_SCOPE(g, "inner", "Block");
            inside = ls_exp(g, ls_tanh(g, ls_linear(g, "b", h, 8)));
        }
        x = ls_add(g, ls_mul(g, inside, h), i ? x : inside);
    }
    ls_output(g, "loss", ls_sum_to(g, ls_mul(g, x, inside), 0, NULL));
    ls_output(g, "inside", inside);
    add_gradients(g);
    ls_graph *before = copy_graph(g);
    ASSERT_OK(ls_pass_dce(&g));
    ASSERT_OK(ls_pass_recompute(&g, "class:Block"));
    assert_true(clones(g) > 0);
    expect_unchanged(before, g, NULL, false, "odd blocks");
    clean(&g);
    expect_unchanged(before, g, NULL, false, "odd blocks, fused");
    ls_graph_destroy(&before);
    ls_graph_destroy(&g);
}

/* Without words: swiglu alone is computed again for its readers in the backward pass, and only if that needs
 * both operands anyway (those of `half` it does not: one is an input). */
static void swiglu_is_computed_again(void **state)
{
    (void)state;
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "gated"));
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 4, 8)), free = ls_input(g, "free", LS_TYPE(LS_F32, 4, 8));
    ls_value whole = ls_swiglu(g, ls_linear(g, "a", x, 8), ls_linear(g, "b", x, 8));
    ls_value half = ls_swiglu(g, free, ls_linear(g, "c", whole, 8));
    ls_output(g, "loss", ls_sum_to(g, ls_gelu(g, ls_linear(g, "d", half, 8)), 0, NULL));
    add_gradients(g);
    ls_graph *before = copy_graph(g);
    ASSERT_OK(ls_pass_dce(&g));
    ASSERT_OK(ls_pass_recompute(&g, ""));
    assert_int_equal(clones(g), 1);
    int readers = 0;
    for (int i = 0; i < g->n_nodes; i++)
        for (int j = 0; j < g->nodes[i]->n_in && g->nodes[i]->phase == LS_PHASE_BACKWARD; j++) {
            const ls_value v = g->nodes[i]->in[j];
            const ls_node *from = ls_present(v) ? ls_node_of(g, v) : NULL;
            readers += from && from->op == &ls_op_swiglu && from->clone_of >= 0;
        }
    assert_int_equal(readers, 1); /* the gradient of c's weight */
    expect_unchanged(before, g, NULL, false, "swiglu again");
    clean(&g);
    assert_int_equal(clones(g), 1);
    expect_unchanged(before, g, NULL, false, "swiglu again, fused");
    ls_graph_destroy(&before);
    ls_graph_destroy(&g);
}

/* Tutorial 1's model: what is left of it, and what recompute saves. */
static void tutorial_vit(void **state)
{
    (void)state;
    ls_device d;
    ASSERT_OK(ls_device_open(
        &d, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .isa = "avx2", .elsewhere = true, .threads = 2 }));
    size_t peak[2];
    for (int again = 0; again < 2; again++) {
        ls_units u;
        ls_plan *p;
        ls_graph *g = training(vit(&TUTORIAL, 64), LS_F32, LS_F32, &u);
        assert_int_equal(u.parameters, 1006090);
        if (again)
            ASSERT_OK(ls_pass_recompute(&g, "class:EncoderBlock"));
        clean(&g);
        assert_int_equal(count_ops(g, "gelu"), 0);
        assert_int_equal(count_ops(g, "gelu_grad"), 0);
        if (!again) { /* the last block's two paths to one token meet in the gradient of ln_1 */
            assert_in_range(count_ops(g, "add"), 0, 3);
            /* the last block's query is a product of its own */
            assert_int_equal(count_ops(g, "linear"), 1 + 10 * 4 + 1 + 1);
        }
        ASSERT_OK(ls_plan_create(&p, g, &d, NULL));
        ASSERT_OK(ls_plan_check(p));
        peak[again] = p->arena_bytes;
        ls_plan_destroy(&p);
        ls_units_release(&u);
        ls_graph_destroy(&g);
    }
    if (!(3 * peak[1] < peak[0]))
        fail_msg("arena of %zu bytes with recompute, %zu without: more than a third", peak[1], peak[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recompute_and_fuse),       cmocka_unit_test(recompute_refuses),
        cmocka_unit_test(recompute_saves),          cmocka_unit_test(recompute_odd_blocks),
        cmocka_unit_test(swiglu_is_computed_again), cmocka_unit_test(tutorial_vit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
