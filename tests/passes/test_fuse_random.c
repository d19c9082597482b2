/* test_fuse_random.c - random graphs compute the same bits after the fuse pass. */
#include <stdio.h>

#include "device/device.h"
#include "lockstep/nn.h"
#include "ops/rules.h"
#include "passes/evaluate.h"
#include "support/support.h"
#include "passes/fused.h"

/* ---- random graphs */

static uint32_t random_state;
static int pick(int n)
{
    random_state = random_state * 1664525 + 1013904223;
    return (int)((random_state >> 8) % (uint32_t)n);
}

static ls_value random_op(parts *c, ls_value a, ls_value b, bool gradients)
{
    ls_graph *g = c->g;
    switch (pick(21)) {
    case 0:
    case 1: return ls_add(g, a, b);
    case 2: return ls_sub(g, a, b);
    case 3: return ls_mul(g, a, ls_tanh(g, b));
    case 4: return ls_tanh(g, a);
    case 5: return ls_relu(g, a);
    case 6: return ls_gelu(g, a);
    case 7: return ls_gelu_tanh(g, a);
    case 8: return ls_mul_const(g, a, 0.7);
    case 9: return ls_add(g, c->row, a);
    case 10: return ls_exp(g, ls_tanh(g, a));
    case 11: return ls_layer_norm_op(g, a, c->row, c->b, 1e-5);
    case 17: return ls_batch_norm_op(g, a, c->row, c->b, 1e-5);
    case 19: return ls_rms_norm_op(g, a, c->row, 1e-5);
    case 20: return ls_swiglu(g, a, b);
    case 18: return ls_relu(g, ls_add(g, ls_batch_norm_op(g, a, c->row, c->b, 1e-5), b));
    case 12: return ls_cast(g, ls_cast(g, a, LS_BF16), c->t);
    case 13: return gradients ? ls_neg(g, a) : ls_max(g, a, b);
    case 14: return ls_add(g, ls_mul_const(g, ls_matmul_wt(g, a, pick(2) ? c->w : c->u, LS_NONE), 0.25), b);
    default: return ls_matmul_wt(g, ls_tanh(g, a), pick(2) ? c->w : c->u, pick(2) ? c->b : LS_NONE);
    }
}

static ls_graph *random_graph(uint32_t seed, ls_dtype t, bool gradients)
{
    random_state = seed * 2654435761u + 1;
    parts c = { .t = t };
    ASSERT_OK(ls_graph_create(&c.g, "random"));
    c.x = ls_input(c.g, "x", LS_TYPE(t, 6, 32));
    c.w = ls_param(c.g, "w", LS_TYPE(t, 32, 32), (ls_init){ 0 });
    c.u = ls_param(c.g, "u", LS_TYPE(t, 32, 32), (ls_init){ 0 });
    c.b = ls_param(c.g, "b", LS_TYPE(t, 32), (ls_init){ 0 });
    c.row = ls_param(c.g, "row", LS_TYPE(t, 32), (ls_init){ 0 });
    ls_value pool[40] = { c.x };
    int n = 1;
    while (n < 24) {
        pool[n] = random_op(&c, pool[n - 1 - pick(n < 4 ? n : 4)], pool[pick(n)], gradients);
        n++;
    }
    add_output(&c, "last", pool[n - 1]);
    add_output(&c, "some", pool[1 + pick(n - 2)]);
    ls_value y = ls_mul_const(c.g, ls_tanh(c.g, pool[n - 1]), 0.1);
    add_output(&c, "loss", ls_sum_to(c.g, ls_mul(c.g, y, y), 0, NULL));
    if (gradients)
        add_gradients(c.g);
    ASSERT_OK(ls_graph_finish(c.g));
    return c.g;
}

static void random_graphs(void **state)
{
    (void)state;
    int fused = 0, epilogues = 0;
    for (uint32_t seed = 0; seed < 48; seed++) {
        const bool gradients = seed % 3;
        const ls_dtype t = seed % 8 == 5 ? LS_BF16 : seed % 8 == 7 ? LS_F64 : seed % 8 == 3 ? LS_F16 : LS_F32;
        ls_graph *g = random_graph(seed, t, gradients), *clean;
        char name[64];
        clean = copy_graph(g);
        ASSERT_OK(ls_pass_cse(&clean));
        ASSERT_OK(ls_pass_dce(&clean));
        assert_true(clean->n_nodes < g->n_nodes);
        snprintf(name, sizeof name, "seed %u before cse and dce", seed);
        evaluated a = evaluate(g, "ref", -1, 1, NULL), b = evaluate(clean, "ref", -1, 1, NULL);
        expect_same_bits(&a, &b, name);
        evaluated_release(&a);
        evaluated_release(&b);
        snprintf(name, sizeof name, "seed %u", seed);
        compare_fused(clean, t, name);
        ls_graph *after = copy_graph(clean);
        ASSERT_OK(ls_pass_fuse(&after));
        fused += count_ops(after, "fused");
        epilogues += count_ops(clean, "add") - count_ops(after, "add");
        ls_graph_destroy(&after);
        ls_graph_destroy(&clean);
        ls_graph_destroy(&g);
    }
    assert_true(fused > 100 && epilogues > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
