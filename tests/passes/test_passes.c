/* test_passes.c - the passes that clean a graph: dead code, equal subexpressions, slices that move up, narrow
 * products. */
#include <stdio.h>
#include <string.h>

#include "device/device.h"
#include "graph/tensor_attrs.h"
#include "lockstep/nn.h"
#include "ops/rules.h"
#include "passes/evaluate.h"
#include "plan/plan.h"
#include "support/support.h"
#include "passes/models.h"

/* ---- dce, cse */

static void dead_code(void **state)
{
    (void)state;
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "dead"));
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 4)), used = ls_relu(g, x),
             step = ls_state(g, "step", LS_SCALAR(LS_I64), (ls_init){ 0 });
    ls_gelu(g, ls_gelu(g, x));
    /* nobody reads it, but it writes a state */
    ls_graph_apply(g, &ls_op_count_step, 2, (ls_value[]){ step, LS_NONE }, NULL);
    ls_output(g, "y", used);
    ASSERT_OK(ls_pass_dce(&g));
    assert_int_equal(g->n_nodes, 4);
    assert_int_equal(count_ops(g, "count_step"), 1);
    assert_int_equal(count_ops(g, "gelu"), 0);
    ls_graph_destroy(&g);
}

static void common_subexpressions(void **state)
{
    (void)state;
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "common"));
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 4)), z = ls_input(g, "z", LS_TYPE(LS_F32, 4)), v[7];
    v[0] = ls_gelu(g, ls_add(g, x, z));
    v[1] = ls_gelu(g, ls_add(g, x, z)); /* equal, two deep */
    v[2] = ls_gelu(g, ls_add(g, z, x)); /* other operands */
    v[3] = ls_mul_const(g, x, 2);
    v[4] = ls_mul_const(g, x, 2.5); /* another attribute */
    v[5] = ls_mul_const(g, x, -0.0);
    v[6] = ls_mul_const(g, x, 0.0); /* another zero gives other bits */
    ls_value clone = ls_gelu(g, ls_add(g, x, z));
    ls_node_of(g, clone)->clone_of = 0;
    for (int i = 0; i < 7; i++) {
        char name[8];
        snprintf(name, sizeof name, "%d", i);
        ls_output(g, name, v[i]);
    }
    ls_output(g, "clone", clone);
    ls_graph *after = copy_graph(g);
    ASSERT_OK(ls_pass_cse(&after));
    assert_int_equal(count_ops(after, "add"), 2);
    assert_int_equal(count_ops(after, "gelu"), 3); /* the clone stays */
    assert_int_equal(count_ops(after, "mul_const"), 4);
    assert_int_equal(after->outputs[0].value.id, after->outputs[1].value.id);
    expect_unchanged(g, after, NULL, false, "cse");
    ls_value step = ls_state(g, "step", LS_SCALAR(LS_I64), (ls_init){ 0 });
    for (int i = 0; i < 2; i++)
        ls_graph_apply(g, &ls_op_count_step, 2, (ls_value[]){ step, LS_NONE }, NULL);
    ASSERT_OK(ls_pass_cse(&g));
    assert_int_equal(count_ops(g, "count_step"), 2); /* an effect is not a value */
    ls_graph_destroy(&after);
    ls_graph_destroy(&g);
}

/* ---- slices_up, narrow */

/* Forward values are the same bits; gradients are sums over fewer zeros, so they may be associated otherwise.
 */
static void expect_close_gradients(ls_graph *before, ls_graph *after, const char *what)
{
    expect_unchanged(before, after, NULL, false, what);
    ls_graph *a = copy_graph(before), *b = copy_graph(after);
    add_gradients(a);
    add_gradients(b);
    const char *device;
    int isa;
    for (int k = 0; evaluate_device(k, &device, &isa); k++) {
        evaluated x = evaluate(a, device, isa, 1, NULL), y = evaluate(b, device, isa, 1, NULL);
        expect_close(&x, &y, 2e-5, what);
        evaluated_release(&x);
        evaluated_release(&y);
    }
    ls_graph_destroy(&a);
    ls_graph_destroy(&b);
}

static void vit_head_reads_one_token(void **state)
{
    (void)state;
    ls_graph *g = vit(&VIT, 3), *before = copy_graph(g);
    ASSERT_OK(ls_pass_slices_up(&g));
    ASSERT_OK(ls_pass_dce(&g));
    ASSERT_OK(ls_pass_narrow(&g));
    ASSERT_OK(ls_graph_verify(g));
    int attention = 0, last_linears = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const ls_node *n = g->nodes[i];
        const bool last = strstr(n->scope->path, "encoder_layer_2") != NULL;
        const ls_type *t = ls_type_of(g, n->out[0]);
        if (!strcmp(n->op->name, "attention")) {
            attention++;
            assert_int_equal(ls_type_of(g, n->in[0])->dims[1], last ? 1 : 5); /* queries */
            assert_int_equal(ls_type_of(g, n->in[1])->dims[1], 5);            /* keys */
        } else if (!strcmp(n->op->name, "linear") && last) {
            last_linears++;
            if (t->dims[1] != 1)
                assert_int_equal(t->dims[2], 64); /* keys and values of all tokens; queries of one */
        } else if (!strcmp(n->op->name, "gelu") && last) {
            assert_int_equal(t->dims[1], 1);
        }
    }
    assert_int_equal(attention, 3);
    assert_int_equal(last_linears, 5); /* q, k and v, out, mlp.0, mlp.3 */
    expect_close_gradients(before, g, "slices of the vit");
    ls_graph_destroy(&before);
    ls_graph_destroy(&g);
}

/* Where a slice must not move, or takes its place along: broadcasts along its dimension, causal masks,
 * dropout, two readers with different ranges, statistics, outputs. */
static void slices_that_stay(void **state)
{
    (void)state;
    for (int kind = 0; kind < 15; kind++) {
        ls_graph *g;
        ASSERT_OK(ls_graph_create(&g, "slices"));
        ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 2, 6, 8)),
                 one = ls_input(g, "one", LS_TYPE(LS_F32, 2, 1, 8)), y = LS_NONE;
        ls_value w = ls_param(g, "w", LS_TYPE(LS_F32, 8, 8), (ls_init){ 0 }),
                 gain = ls_param(g, "gain", LS_TYPE(LS_F32, 8), (ls_init){ 0 });
        switch (kind) {
        case 0: y = ls_slice(g, ls_add(g, one, ls_tanh(g, x)), 1, 2, 3); break;
        case 1: y = ls_slice(g, ls_attention(g, x, x, x, LS_NONE, 4, 0.5, true), 1, 2, 2); break;
        case 2: {
            ls_value h = ls_matmul_wt(g, ls_tanh(g, x), w, LS_NONE);
            y = ls_add(g, ls_slice(g, h, 1, 0, 2), ls_slice(g, h, 1, 3, 2));
            break;
        }
        case 3: {
            ls_value h = ls_layer_norm_op(g, x, gain, gain, 1e-5);
            ls_output(g, "mean", ls_nth(g, h, 1));
            y = ls_slice(g, h, 1, 1, 2);
            break;
        }
        case 4: {
            ls_value h = ls_tanh(g, x);
            ls_output(g, "all", h);
            y = ls_slice(g, ls_matmul_wt(g, h, w, gain), 1, 5, 1);
            break;
        }
        case 5: y = ls_slice(g, ls_slice(g, ls_slice(g, ls_gelu(g, x), 1, 1, 4), 2, 2, 5), 1, 1, 2); break;
        case 6: { /* columns of a product under rows; both of a softmax */
            ls_value h = ls_slice(g, ls_matmul_wt(g, x, w, gain), 2, 4, 4);
            y = ls_slice(g, ls_softmax(g, h), 1, 2, 1);
            break;
        }
        case 7:
            y = ls_slice(g, ls_dropout(g, "drop", ls_tanh(g, x), 0.4), 1, 2, 3);
            break; /* of rows, columns and samples; twice */
        case 8:
            y = ls_slice(g, ls_slice(g, ls_dropout(g, "drop", ls_matmul_wt(g, x, w, gain), 0.4), 2, 1, 5), 1,
                         1, 2);
            break;
        case 9: y = ls_slice(g, ls_dropout(g, "drop", ls_tanh(g, x), 0.4), 0, 1, 1); break;
        case 10:
            y = ls_slice(
                g, ls_attention_dropout(g, "drop", ls_attention(g, x, x, x, LS_NONE, 4, 0.5, false), 0.4), 1,
                2, 2);
            break;
        case 11: { /* one token of an output that is not the first: the cells of an LSTM */
            const ls_value in[] = { x, ls_slice(g, w, 1, 0, 2), LS_NONE, LS_NONE };
            const ls_value h = ls_graph_apply(g, &ls_op_lstm, 4, in, &(ls_recurrent_attrs){ 0 }),
                           c = ls_slice(g, ls_nth(g, h, 1), 1, 5, 1);
            y = ls_concat(g, 2, 4, (ls_value[]){ c, c, c, c });
            break;
        }
        case 12: { /* two readers whose ranges begin at the same row */
            const ls_value h = ls_tanh(g, x);
            y = ls_concat(g, 1, 2, (ls_value[]){ ls_slice(g, h, 1, 0, 3), ls_slice(g, h, 1, 0, 2) });
            break;
        }
        case 13: /* columns of two heads, as many as a head has */
            y = ls_slice(g, ls_attention(g, ls_tanh(g, x), x, x, LS_NONE, 4, 0.5, false), 2, 2, 4);
            break;
        default: { /* the bias of attention is sliced by query */
            ls_value bias = ls_input(g, "bias", LS_TYPE(LS_F32, 1, 2, 6, 6));
            y = ls_slice(g, ls_attention(g, ls_tanh(g, x), x, x, ls_tanh(g, bias), 4, 0.5, false), 1, 4, 2);
            break;
        }
        }
        ls_output(g, "y", y);
        ls_output(g, "loss",
                  ls_sum_to(g,
                            ls_mul(g, ls_matmul_wt(g, ls_slice(g, y, 2, 0, 4), ls_slice(g, w, 1, 0, 4), gain),
                                   ls_fill(g, LS_SCALAR(LS_F32), 0.5)),
                            0, NULL));
        ASSERT_OK(ls_graph_finish(g));
        char what[48];
        snprintf(what, sizeof what, "slices, case %d", kind);
        ls_graph *before = copy_graph(g);
        ASSERT_OK(ls_pass_slices_up(&g));
        ASSERT_OK(ls_pass_dce(&g));
        ASSERT_OK(ls_pass_narrow(&g));
        expect_close_gradients(before, g, what);
        ls_graph_destroy(&before);
        ls_graph_destroy(&g);
    }
}

static void narrow_products(void **state)
{
    (void)state;
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "narrow"));
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 4, 8)),
             w = ls_param(g, "w", LS_TYPE(LS_F32, 40, 8), (ls_init){ 0 });
    ls_value b = ls_param(g, "b", LS_TYPE(LS_F32, 40), (ls_init){ 0 });
    ls_value h = ls_matmul_wt(g, x, w, b), all = ls_matmul_wt(g, x, w, LS_NONE);
    ls_value y = ls_mul(g, ls_slice(g, h, 1, 8, 8), ls_slice(g, h, 1, 20, 8));
    ls_output(g, "y", y);
    ls_output(g, "rows", ls_slice(g, all, 0, 1, 2)); /* a slice of rows does not cause it */
    ls_output(g, "loss", ls_sum_to(g, y, 0, NULL));
    ls_graph *before = copy_graph(g);
    ASSERT_OK(ls_pass_narrow(&g));
    int64_t columns = 0;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_linear)
            columns = columns * 100 + ls_type_of(g, g->nodes[i]->out[0])->dims[1];
    assert_int_equal(columns, 2040); /* 20 of columns 8..27, then all 40 */
    expect_close_gradients(before, g, "narrow");
    ls_graph_destroy(&before);
    ls_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dead_code),
        cmocka_unit_test(common_subexpressions),
        cmocka_unit_test(vit_head_reads_one_token),
        cmocka_unit_test(slices_that_stay),
        cmocka_unit_test(narrow_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
