/* test_fuse.c - the fuse pass: graphs made to break it, and what it fuses. */
#include <stdio.h>

#include "device/device.h"
#include "lockstep/nn.h"
#include "ops/rules.h"
#include "passes/evaluate.h"
#include "support/support.h"
#include "passes/fused.h"

static void add_same_twice(parts *c) { add_output(c, "1", ls_add(c->g, c->p, c->p)); }
static void add_two_products(parts *c) { add_output(c, "1", ls_add(c->g, c->p, c->q)); }
static void add_two_products_swapped(parts *c) { add_output(c, "1", ls_add(c->g, c->q, c->p)); }
static void residual_before(parts *c) { add_output(c, "1", ls_add(c->g, c->x, c->q)); }
static void residual_after(parts *c) /* it is computed from what lies between the product and the addition */
{
    ls_value later = ls_tanh(c->g, ls_layer_norm_op(c->g, c->y, c->row, c->b, 1e-5));
    add_output(c, "1", ls_add(c->g, c->q, later));
    add_output(c, "2", later);
}
static void residual_of_the_product(parts *c) { add_output(c, "1", ls_add(c->g, c->p, ls_tanh(c->g, c->p))); }
static void gelu_twice(parts *c)
{
    add_output(c, "1", ls_gelu(c->g, c->p));
    add_output(c, "2", ls_gelu(c->g, c->p));
}
static void two_activations(parts *c)
{
    ls_value a = ls_gelu(c->g, c->p), r = ls_relu(c->g, c->p);
    add_output(c, "1", ls_mul(c->g, a, r));
}
static void product_is_an_output(parts *c)
{
    add_output(c, "1", c->p);
    add_output(c, "2", ls_add(c->g, c->p, c->x));
    add_output(c, "3", c->q);
    add_output(c, "4", ls_gelu(c->g, c->q));
}
static void gelu_then_residual(parts *c) { add_output(c, "1", ls_add(c->g, ls_gelu(c->g, c->p), c->x)); }
static void product_read_before_activation(parts *c)
{
    ls_value t = ls_tanh(c->g, c->p);
    add_output(c, "1", ls_add(c->g, ls_gelu(c->g, c->p), t));
}
static void broadcast_addend(parts *c)
{
    add_output(c, "1", ls_add(c->g, c->p, c->row));
    ls_value one = ls_slice(c->g, c->q, 0, 2, 1);
    add_output(c, "2", ls_add(c->g, one, c->x)); /* the product's part is the one that is broadcast */
}
static void product_is_broadcast(parts *c)
{
    ls_value thin = ls_matmul_wt(c->g, ls_slice(c->g, c->x, 0, 0, 1), c->w, LS_NONE); /* [1, 32] */
    add_output(c, "1", ls_add(c->g, thin, c->y));
    ls_value row = ls_tanh(c->g, c->row); /* [32] into [6, 32], then on */
    add_output(c, "2", ls_mul(c->g, ls_sub(c->g, c->x, row), c->y));
}
static void across_phases(parts *c)
{
    ls_value a = ls_tanh(c->g, ls_mul_const(c->g, c->x, 0.7));
    c->g->phase = LS_PHASE_BACKWARD;
    add_output(c, "1", ls_neg(c->g, ls_mul(c->g, a, c->y)));
    add_output(c, "2", ls_add(c->g, c->p, c->y));
    c->g->phase = LS_PHASE_FORWARD;
}
static void long_chain(parts *c)
{
    ls_value v = c->x;
    for (int i = 0; i < 41; i++)
        v = i % 3 == 0   ? ls_mul_const(c->g, v, 1.01)
            : i % 3 == 1 ? ls_add_const(c->g, v, 0.013)
                         : ls_tanh(c->g, v);
    add_output(c, "1", v);
}
static void many_operands(parts *c)
{
    ls_value v[24];
    for (int i = 0; i < 24; i++) {
        char name[16];
        snprintf(name, sizeof name, "operand %d", i);
        v[i] = ls_input(c->g, name, LS_TYPE(c->t, 6, 32));
    }
    for (int n = 24; n > 1; n = (n + 1) / 2) /* a balanced tree; a list below */
        for (int i = 0; i < n / 2; i++)
            v[i] = ls_sub(c->g, v[i], v[n - 1 - i]);
    add_output(c, "1", v[0]);
    ls_value sum = c->x;
    for (int i = 1; i < 24; i++)
        sum = ls_add(c->g, ls_mul_const(c->g, v[i], 0.5), sum);
    add_output(c, "2", sum);
}
static void same_operand_often(parts *c)
{
    ls_value a = ls_mul(c->g, c->x, c->x), b = ls_add(c->g, a, c->x), d = ls_mul(c->g, c->x, b);
    add_output(c, "1", ls_sub(c->g, d, c->x));
}
static void mixed_types(parts *c)
{
    ls_dtype other = c->t == LS_BF16 ? LS_F32 : LS_BF16;
    ls_value narrow = ls_cast(c->g, ls_mul(c->g, c->x, c->y), other);
    ls_value back = ls_cast(c->g, ls_add(c->g, ls_mul_const(c->g, narrow, 1.7), ls_cast(c->g, c->y, other)),
                            c->t);
    add_output(c, "1", ls_mul(c->g, back, c->x));
    add_output(c, "2", ls_cast(c->g, ls_exp(c->g, c->x), other));
    ls_value pixels = ls_input(c->g, "pixels", LS_TYPE(LS_U8, 6, 32));
    add_output(c, "3", ls_sub(c->g, ls_div_const(c->g, ls_cast(c->g, pixels, c->t), 255.0), c->y));
    ls_value big = ls_input(c->g, "big", LS_TYPE(LS_I32, 6, 32));
    /* truncates */
    add_output(
        c, "4",
        ls_cast(c->g, ls_cast(c->g, ls_mul_const(c->g, ls_cast(c->g, big, c->t), 2.6), LS_I32), LS_F32));
}
static void gradient_epilogues(parts *c)
{
    ls_value dx = ls_linear_dx(c->g, c->y, c->w);
    add_output(c, "1", ls_graph_apply(c->g, &ls_op_gelu_grad, 2, (ls_value[]){ dx, c->x }, NULL));
    ls_value again = ls_linear_dx(c->g, c->y, c->u); /* twice: no epilogue may swallow it */
    add_output(c, "2", ls_graph_apply(c->g, &ls_op_relu_grad, 2, (ls_value[]){ again, c->x }, NULL));
    add_output(c, "3", ls_add(c->g, again, c->x));
    ls_value sum = ls_linear_dx(c->g, c->x, c->u);
    add_output(c, "4", ls_add(c->g, sum, ls_linear_dx(c->g, c->x, c->w)));
    /* dx stands where the value before the activation is wanted */
    ls_value as_x = ls_linear_dx(c->g, c->x, c->w);
    add_output(c, "5", ls_graph_apply(c->g, &ls_op_gelu_grad, 2, (ls_value[]){ c->y, as_x }, NULL));
}
static void norm_gradient(parts *c)
{
    ls_value n = ls_layer_norm_op(c->g, c->x, c->row, c->b, 1e-5), mean = ls_nth(c->g, n, 1),
             rstd = ls_nth(c->g, n, 2);
    ls_value in[5] = { c->y, c->x, c->row, mean, rstd };
    ls_value a = ls_graph_apply(c->g, &ls_op_layer_norm_grad, 5, in, NULL);
    ls_value later = ls_tanh(c->g, c->y);
    add_output(c, "1", ls_add(c->g, a, later)); /* its addend comes after it, and dgain only after that */
    ls_value dgain = ls_nth(c->g, a, 1);
    add_output(c, "2", ls_neg(c->g, dgain));
    ls_value b = ls_graph_apply(c->g, &ls_op_layer_norm_grad, 5,
                                (ls_value[]){ c->x, c->x, c->row, mean, rstd }, NULL);
    ls_value early = ls_exp(c->g, ls_nth(c->g, b, 2)); /* dbias is read in between: it cannot wait */
    add_output(c, "3", ls_add(c->g, b, ls_mul(c->g, c->y, early)));
}
static void norm_gradient_as_addend(
    parts *c) /* dgain of one that waits is the addend of a product before that */
{
    ls_value n = ls_layer_norm_op(c->g, c->x, c->row, c->b, 1e-5), mean = ls_nth(c->g, n, 1),
             rstd = ls_nth(c->g, n, 2);
    ls_value a = ls_graph_apply(c->g, &ls_op_layer_norm_grad, 5,
                                (ls_value[]){ c->y, c->x, c->row, mean, rstd }, NULL);
    ls_value product = ls_matmul_wt(c->g, c->row, c->w, LS_NONE); /* [32] like dgain */
    add_output(c, "1", ls_add(c->g, a, ls_tanh(c->g, c->y)));
    add_output(c, "2", ls_add(c->g, product, ls_nth(c->g, a, 1)));
}
static void norm_gradient_of_rms(parts *c)
{
    ls_value n = ls_rms_norm_op(c->g, c->x, c->row, 1e-5), later = ls_tanh(c->g, c->y);
    ls_value a = ls_graph_apply(c->g, &ls_op_rms_norm_grad, 4,
                                (ls_value[]){ c->y, c->x, c->row, ls_nth(c->g, n, 1) },
                                &(ls_norm_attrs){ .eps = 1e-5 });
    add_output(c, "1", ls_add(c->g, a, later));
    add_output(c, "2", ls_neg(c->g, ls_nth(c->g, a, 1)));
}
static void table_gradient(parts *c) /* of a table that is a matrix, too: both gradients are added */
{
    ls_value ids = ls_input(c->g, "ids", LS_TYPE(LS_I32, 6));
    ls_value a = ls_graph_apply(c->g, &ls_op_embedding_grad, 2, (ls_value[]){ c->x, ids },
                                &(ls_embedding_attrs){ .rows = 32 });
    add_output(c, "1", ls_add(c->g, ls_linear_dw(c->g, c->x, c->y, false), a));
}
static void gated(parts *c)
{
    add_output(c, "1", ls_swiglu(c->g, c->x, c->y));
    c->g->phase = LS_PHASE_BACKWARD;
    add_output(c, "2", ls_mul(c->g, c->p, ls_silu(c->g, c->x)));
    add_output(
        c, "3",
        ls_graph_apply(c->g, &ls_op_silu_grad, 2, (ls_value[]){ ls_mul(c->g, c->p, c->y), c->x }, NULL));
    c->g->phase = LS_PHASE_FORWARD;
}
static ls_value batch_norm(parts *c, ls_value x) { return ls_batch_norm_op(c->g, x, c->row, c->b, 1e-5); }
static void norm_relu(parts *c) { add_output(c, "1", ls_relu(c->g, batch_norm(c, c->x))); }
static void norm_residual(parts *c) /* the mean is read before the addition stands */
{
    ls_value n = batch_norm(c, c->x);
    add_output(c, "1", ls_neg(c->g, ls_nth(c->g, n, 1)));
    add_output(c, "2", ls_relu(c->g, ls_add(c->g, c->y, n)));
    add_output(c, "3", ls_add(c->g, batch_norm(c, c->y), c->x));
}
static void norm_two(parts *c)
{
    ls_value a = batch_norm(c, c->x), b = batch_norm(c, c->y);
    add_output(c, "1", ls_relu(c->g, ls_add(c->g, a, b)));
    ls_value e = ls_batch_norm_eval(c->g, c->x, c->row, c->b, ls_nth(c->g, a, 1), ls_nth(c->g, b, 3), 1e-5);
    add_output(c, "2", ls_relu(c->g, ls_add(c->g, e, c->y)));
}
static void norm_waits_for_nothing(parts *c)
{
    ls_value n = batch_norm(c, c->x), later = ls_tanh(c->g, ls_nth(c->g, n, 1)); /* [32], into [6, 32] */
    ls_value wide = ls_layer_norm_op(c->g, ls_mul(c->g, c->x, ls_cast(c->g, later, c->t)), c->row, c->b,
                                     1e-5);
    add_output(c, "1", ls_relu(c->g, ls_add(c->g, n, wide)));
}
static void norm_read_twice(parts *c)
{
    ls_value n = batch_norm(c, c->x), sum = ls_add(c->g, batch_norm(c, c->y), c->x), r = ls_relu(c->g, n);
    add_output(c, "1", ls_mul(c->g, n, r));
    add_output(c, "2", ls_relu(c->g, sum));
    add_output(c, "3", sum);
    add_output(c, "4", ls_gelu(c->g, batch_norm(c, c->y)));
}
static void norm_mask(parts *c)
{
    ls_value n = batch_norm(c, c->x), mean = ls_nth(c->g, n, 1), rstd = ls_nth(c->g, n, 2),
             y = ls_relu(c->g, n);
    ls_value once = ls_graph_apply(c->g, &ls_op_relu_grad, 2, (ls_value[]){ c->y, y }, NULL);
    ls_value twice = ls_graph_apply(c->g, &ls_op_relu_grad, 2, (ls_value[]){ ls_exp(c->g, c->y), y }, NULL);
    const ls_batch_norm_attrs attrs = { .eps = 1e-5 };
    ls_value dx = ls_graph_apply(c->g, &ls_op_batch_norm_grad, 5,
                                 (ls_value[]){ once, c->x, c->row, mean, rstd }, &attrs);
    add_output(c, "1", dx);
    add_output(c, "2", ls_neg(c->g, ls_nth(c->g, dx, 1)));
    add_output(c, "3",
               ls_graph_apply(c->g, &ls_op_batch_norm_grad, 5,
                              (ls_value[]){ twice, c->x, c->row, mean, rstd }, &attrs));
    add_output(c, "4", ls_add(c->g, twice, c->x));
}
static void second_output_added(parts *c) /* dw's bias gradient and statistics are not products */
{
    ls_value dw = ls_linear_dw(c->g, c->x, c->y, true);
    add_output(c, "1", ls_add(c->g, ls_nth(c->g, dw, 1), c->row));
    add_output(c, "2", ls_add(c->g, dw, c->w));
}
static void fill_and_scalar(parts *c)
{
    ls_value s = ls_fill(c->g, LS_SCALAR(c->t), 3);
    ls_value f = ls_div(c->g, s, ls_add_const(c->g, ls_mul(c->g, s, s), 1e-3));
    add_output(c, "1", ls_mul(c->g, ls_mul(c->g, c->x, f), ls_neg(c->g, constant_of(c, 0.3))));
    add_output(c, "2", ls_max(c->g, f, ls_neg(c->g, f)));
}

static void dropped(parts *c)
{
    ls_value d = ls_dropout(c->g, "a", c->p, 0.4), other = ls_dropout(c->g, "b", c->q, 0.4),
             twice = ls_dropout(c->g, "c", c->q, 0.4);
    add_output(c, "1", ls_add(c->g, c->x, d));
    add_output(c, "2", ls_add(c->g, other, ls_gelu(c->g, other))); /* it is read twice: no addend */
    add_output(c, "3", ls_add(c->g, ls_dropout(c->g, "d", twice, 0.5), twice));
}

static const struct {
    const char *name;
    void (*build)(parts *c);
} CASES[] = {
#define CASE(f) \
    {           \
#f, f   \
    }
    CASE(add_same_twice),
    CASE(add_two_products),
    CASE(add_two_products_swapped),
    CASE(residual_before),
    CASE(residual_after),
    CASE(residual_of_the_product),
    CASE(gelu_twice),
    CASE(two_activations),
    CASE(product_is_an_output),
    CASE(gelu_then_residual),
    CASE(product_read_before_activation),
    CASE(broadcast_addend),
    CASE(product_is_broadcast),
    CASE(across_phases),
    CASE(long_chain),
    CASE(many_operands),
    CASE(same_operand_often),
    CASE(mixed_types),
    CASE(gradient_epilogues),
    CASE(norm_gradient),
    CASE(norm_gradient_as_addend),
    CASE(norm_gradient_of_rms),
    CASE(table_gradient),
    CASE(gated),
    CASE(norm_relu),
    CASE(norm_residual),
    CASE(norm_two),
    CASE(norm_waits_for_nothing),
    CASE(norm_read_twice),
    CASE(norm_mask),
    CASE(second_output_added),
    CASE(fill_and_scalar),
    CASE(dropped),
};

static parts begin(ls_dtype t)
{
    parts c = { .t = t };
    ASSERT_OK(ls_graph_create(&c.g, "fuse"));
    c.x = ls_input(c.g, "x", LS_TYPE(t, 6, 32));
    c.y = ls_input(c.g, "y", LS_TYPE(t, 6, 32));
    c.row = ls_input(c.g, "row", LS_TYPE(t, 32));
    c.w = ls_input(c.g, "w", LS_TYPE(t, 32, 32));
    c.u = ls_input(c.g, "u", LS_TYPE(t, 32, 32));
    c.b = ls_input(c.g, "b", LS_TYPE(t, 32));
    c.p = ls_matmul_wt(c.g, c.x, c.w, c.b);
    c.q = ls_matmul_wt(c.g, c.x, c.u, LS_NONE);
    return c;
}

static void made_to_break_it(void **state)
{
    (void)state;
    static const ls_dtype types[] = { LS_F32, LS_BF16, LS_F16, LS_F64 };
    for (int t = 0; t < 4; t++)
        for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++) {
            parts c = begin(types[t]);
            CASES[k].build(&c);
            ASSERT_OK(ls_pass_dce(&c.g));
            compare_fused(c.g, types[t], CASES[k].name);
            ls_graph_destroy(&c.g);
        }
}

/* What must have become one node, and what must not. */
static void what_is_fused(void **state)
{
    (void)state;
    static const struct {
        void (*build)(parts *c);
        const char *op;
        int before, after;
    } cases[] = {
        { residual_before, "add", 1, 0 },
        { residual_after, "add", 1, 0 },
        { add_same_twice, "add", 1, 1 },
        { add_two_products, "add", 1, 0 },
        { add_two_products, "linear", 2, 2 },
        { gelu_then_residual, "gelu", 1, 0 },
        { gelu_twice, "gelu", 2, 1 },
        { product_is_an_output, "add", 1, 1 },
        { product_is_an_output, "gelu", 1, 0 },
        { gradient_epilogues, "gelu_grad", 2, 1 },
        { gradient_epilogues, "relu_grad", 1, 1 },
        { gradient_epilogues, "add", 2, 1 },
        { norm_gradient, "add", 2, 0 },
        { norm_gradient, "layer_norm_grad", 2, 2 },
        { norm_gradient, "fused", 0, 1 },
        { long_chain, "fused", 0, 3 },
        { same_operand_often, "fused", 0, 1 },
        { broadcast_addend, "add", 2, 2 },
        { norm_gradient_as_addend, "add", 2, 0 },
        { norm_relu, "relu", 1, 0 },
        { norm_residual, "relu", 1, 0 },
        { norm_residual, "add", 2, 0 },
        { norm_two, "relu", 2, 0 },
        { norm_two, "add", 2, 0 },
        { norm_waits_for_nothing, "batch_norm", 1, 1 },
        { norm_read_twice, "relu", 2, 1 },
        { norm_read_twice, "add", 1, 0 },
        { norm_mask, "relu_grad", 2, 0 },
        { norm_mask, "fused", 0, 1 },
        { norm_gradient_of_rms, "add", 1, 0 },
        { table_gradient, "add", 1, 0 },
        { gated, "fused", 0, 2 },
        { gated, "swiglu", 1, 1 },
        { across_phases, "tanh", 1, 0 },
        { across_phases, "fused", 0, 2 },
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        parts c = begin(LS_F32);
        cases[k].build(&c);
        ASSERT_OK(ls_pass_dce(&c.g));
        assert_int_equal(count_ops(c.g, cases[k].op), cases[k].before);
        ASSERT_OK(ls_pass_fuse(&c.g));
        ASSERT_OK(ls_pass_dce(&c.g));
        if (count_ops(c.g, cases[k].op) != cases[k].after) {
            char *text = ls_graph_print(c.g, false);
            fail_msg("case %zu: %d %s left, expected %d\n%s", k, count_ops(c.g, cases[k].op), cases[k].op,
                     cases[k].after, text);
        }
        for (int i = 0; i < c.g->n_nodes; i++)
            if (c.g->nodes[i]->op == &ls_op_fused) {
                assert_true(((const ls_fused_attrs *)c.g->nodes[i]->attrs)->numbers.n <= 16);
                assert_true(c.g->nodes[i]->n_in <= 8);
            }
        ls_graph_destroy(&c.g);
    }
}

/* Each element-wise op becomes part of one fused node with what is before and behind it, with the same bits.
 */
static void every_element_wise_op_is_fused(void **state)
{
    (void)state;
    int n = 0;
    for (const ls_op *const *op = ls_ops; *op; op++) {
        if (!((*op)->flags & LS_OP_ELEMENTWISE) || *op == &ls_op_fused)
            continue;
        parts c = begin(LS_F32);
        const ls_number_attrs number = { 0.4 };
        const ls_cast_attrs cast = { .to = LS_F32 };
        const ls_value positive = ls_square(c.g, c.x);
        ls_value v = ls_graph_apply(c.g, *op, (*op)->max_in, (ls_value[]){ positive, c.y },
                                    (*op)->ew == LS_EW_CAST ? (const void *)&cast : &number);
        add_output(&c, "1", ls_sub(c.g, v, c.y));
        ASSERT_OK(ls_pass_dce(&c.g));
        const int before = c.g->n_nodes;
        compare_fused(c.g, LS_F32, (*op)->name);
        ASSERT_OK(ls_pass_fuse(&c.g));
        ASSERT_OK(ls_pass_dce(&c.g));
        if (count_ops(c.g, "fused") != 1 || c.g->n_nodes != before - 2)
            fail_msg("%s: %d nodes, %d before:\n%s", (*op)->name, c.g->n_nodes, before,
                     ls_graph_print(c.g, false));
        ls_graph_destroy(&c.g);
        n++;
    }
    assert_true(n > 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_to_break_it),
        cmocka_unit_test(every_element_wise_op_is_fused),
        cmocka_unit_test(what_is_fused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
