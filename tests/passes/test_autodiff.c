/* test_autodiff.c - the chain rule over whole graphs: how contributions to a gradient are added. tests/ops
 * tests the gradient of each op. Gradients are compared with central differences on ref in f64. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/autodiff.h"
#include "lockstep/nn.h"
#include "ops/rules.h"
#include "passes/evaluate.h"
#include "support/values.h"
#include "support/support.h"

typedef ls_value (*build_fn)(ls_graph *g, ls_value a, ls_value b);

static ls_value total_of(ls_graph *g, ls_value x) { return ls_sum_to(g, x, 0, NULL); }

static ls_value used_again(ls_graph *g, ls_value a, ls_value b)
{
    ls_value s = ls_mul(g, a, a); /* twice in one op, and by three ops */
    return ls_add(g, ls_mul(g, s, b), ls_exp(g, ls_mul(g, ls_add(g, s, a), b)));
}

static ls_value apart(ls_graph *g, ls_value a, ls_value b) /* slices that cover a, in another order */
{
    ls_value x = ls_slice(g, a, 1, 4, 2), y = ls_slice(g, a, 1, 0, 3), z = ls_slice(g, a, 1, 3, 1);
    ls_value parts[3] = { ls_square(g, x), ls_exp(g, y), ls_neg(g, z) };
    return ls_mul(g, ls_concat(g, 1, 3, parts), b);
}

static ls_value with_gap(ls_graph *g, ls_value a, ls_value b) /* columns 2 and 3 reach nothing */
{
    ls_value parts[2] = { ls_square(g, ls_slice(g, a, 1, 4, 2)), ls_exp(g, ls_slice(g, a, 1, 0, 2)) };
    return ls_mul(g, ls_concat(g, 1, 2, parts), ls_slice(g, b, 1, 1, 4));
}

static ls_value overlapping(ls_graph *g, ls_value a, ls_value b)
{
    ls_value x = ls_square(g, ls_slice(g, a, 1, 0, 4)), y = ls_exp(g, ls_slice(g, a, 1, 2, 4));
    return ls_mul(g, ls_mul(g, x, y), ls_slice(g, b, 1, 0, 4));
}

static ls_value two_dimensions(ls_graph *g, ls_value a, ls_value b)
{
    ls_value row = ls_slice(g, a, 0, 1, 1), column = ls_slice(g, a, 1, 2, 1);
    return ls_mul(g, ls_mul(g, ls_exp(g, row), ls_square(g, column)), b);
}

static ls_value sliced_and_whole(ls_graph *g, ls_value a, ls_value b)
{
    ls_value part = ls_exp(g, ls_slice(g, a, 1, 0, 1)), other = ls_square(g, ls_slice(g, a, 1, 1, 1));
    return ls_mul(g, ls_mul(g, ls_mul(g, a, part), other), b);
}

static ls_value slice_of_slice(ls_graph *g, ls_value a, ls_value b)
{
    ls_value wide = ls_slice(g, a, 1, 1, 5), one = ls_slice(g, wide, 1, 0, 2),
             two = ls_slice(g, wide, 1, 3, 2);
    return ls_mul(g, ls_mul(g, ls_exp(g, one), ls_square(g, two)), ls_slice(g, b, 1, 4, 2));
}

static ls_value through_shapes(ls_graph *g, ls_value a, ls_value b)
{
    ls_value t = ls_permute(g, ls_reshape(g, a, 3, 2, 3), 1, 0, 2),
             s = ls_reshape(g, ls_permute(g, t, 1, 0, 2), 3, 6);
    return ls_mul(g, ls_matmul_wt(g, s, b, LS_NONE), ls_matmul_wt(g, b, s, LS_NONE));
}

static ls_value second_output(ls_graph *g, ls_value a,
                              ls_value b) /* an output other than the first is read as well */
{
    ls_value count = ls_fill(g, LS_SCALAR(LS_F64), 3),
             labels = ls_cast(g, ls_fill(g, LS_TYPE(LS_F64, 3), 1), LS_I32);
    ls_value loss = ls_cross_entropy_sum(g, ls_mul(g, a, b), labels, count, &(ls_loss_attrs){ -100, 0 });
    return ls_add(g, ls_square(g, loss), loss);
}

static const struct {
    const char *name;
    build_fn build;
} MODELS[] = {
    { "used again", used_again },
    { "slices apart", apart },
    { "slices with a gap", with_gap },
    { "overlapping slices", overlapping },
    { "two dimensions", two_dimensions },
    { "sliced and whole", sliced_and_whole },
    { "slice of a slice", slice_of_slice },
    { "through shapes", through_shapes },
    { "loss", second_output },
};

typedef struct machine {
    ls_graph *g;
    ls_plan *plan;
    ls_session *session;
} machine;

static machine start(build_fn build)
{
    machine m;
    ls_device d;
    ASSERT_OK(ls_graph_create(&m.g, "autodiff"));
    ls_value p[2] = { ls_param(m.g, "a", LS_TYPE(LS_F64, 3, 6), (ls_init){ 0 }),
                      ls_param(m.g, "b", LS_TYPE(LS_F64, 3, 6), (ls_init){ 0 }) };
    ls_output(m.g, "loss", total_of(m.g, build(m.g, p[0], p[1])));
    add_gradients(m.g);
    ASSERT_OK(ls_graph_finish(m.g));
    ASSERT_OK(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    ASSERT_OK(ls_plan_create(&m.plan, m.g, &d, NULL));
    ASSERT_OK(ls_session_create(&m.session, 1, &m.plan, NULL));
    return m;
}

/* The loss with element i of a parameter moved by h. */
static double loss_at(machine *m, const char *parameter, int i, double h)
{
    const double old = value_number(m->session, parameter, i);
    value_set(m->session, parameter, i, old + h);
    ASSERT_OK(ls_session_run(m->session, 0, false));
    value_set(m->session, parameter, i, old);
    return value_number(m->session, "loss", 0);
}

static void gradients_are_the_differences(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof MODELS / sizeof *MODELS; k++) {
        machine m = start(MODELS[k].build);
        for (int i = 0; i < 18; i++) {
            value_set(m.session, "a", i, 0.3 * sin(1 + i) + 0.1);
            value_set(m.session, "b", i, 0.4 * cos(2 * i) + 0.2);
        }
        ASSERT_OK(ls_session_run(m.session, 0, false));
        double grads[2][18];
        value_get(m.session, "grad.a", grads[0], sizeof grads[0]);
        value_get(m.session, "grad.b", grads[1], sizeof grads[1]);
        for (int p = 0; p < 2; p++)
            for (int i = 0; i < 18; i++) {
                const char *name = p ? "b" : "a";
                const double h = 1e-5, slope = (loss_at(&m, name, i, h) - loss_at(&m, name, i, -h)) / (2 * h);
                if (!(fabs(slope - grads[p][i]) <= 1e-8 * fmax(1, fabs(slope))))
                    fail_msg("%s: gradient of %s[%d] is %.12g, the difference is %.12g", MODELS[k].name, name,
                             i, grads[p][i], slope);
            }
        ls_session_destroy(&m.session);
        ls_plan_destroy(&m.plan);
        ls_graph_destroy(&m.g);
    }
}

static int backward_ops(const ls_graph *g, const ls_op *op)
{
    int n = 0;
    for (int i = 0; i < g->n_nodes; i++)
        n += g->nodes[i]->phase == LS_PHASE_BACKWARD && g->nodes[i]->op == op;
    return n;
}

/* Gradients of slices that do not overlap are laid side by side, not added as full-size tensors; overlapping
 * ones must be added. */
static void slices_are_packed(void **state)
{
    (void)state;
    static const struct {
        build_fn build;
        int packs, adds;
    } cases[] = { { apart, 1, 0 }, { with_gap, 2, 0 }, { overlapping, 3, 1 } };
    for (int k = 0; k < 3; k++) {
        machine m = start(cases[k].build);
        ASSERT_OK(ls_pass_dce(&m.g));
        assert_int_equal(backward_ops(m.g, &ls_op_pack), cases[k].packs);
        assert_int_equal(backward_ops(m.g, &ls_op_add), cases[k].adds);
        ls_session_destroy(&m.session);
        ls_plan_destroy(&m.plan);
        ls_graph_destroy(&m.g);
    }
}

/* Floating-point sums depend on their order: what was found first, by the last reader, is added first. */
static void contributions_meet_in_their_order(void **state)
{
    (void)state;
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "order"));
    ls_value a = ls_param(g, "a", LS_TYPE(LS_F64, 4), (ls_init){ 0 });
    ls_value first = ls_square(g, a), second = ls_exp(g, a), third = ls_neg(g, a);
    ls_output(g, "loss", total_of(g, ls_add(g, ls_add(g, first, second), third)));
    add_gradients(g);
    const ls_node *outer = ls_node_of(g, g->outputs[1].value);
    assert_ptr_equal(outer->op, &ls_op_add);
    const ls_node *inner = ls_node_of(g, outer->in[0]);
    assert_ptr_equal(inner->op, &ls_op_add);
    assert_ptr_equal(ls_node_of(g, inner->in[0])->op, &ls_op_neg);
    assert_true(inner->in[0].id < inner->in[1].id && inner->in[1].id < outer->in[1].id);
    ls_graph_destroy(&g);
}

/* x^0 is 1 everywhere: its gradient is 0 also where 0 x^-1 is not a number. */
static void power_of_zero(void **state)
{
    (void)state;
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "power"));
    ls_value a = ls_param(g, "a", LS_TYPE(LS_F32, 4), (ls_init){ 0 });
    ls_output(g, "loss", total_of(g, ls_pow_const(g, ls_mul_const(g, a, 0), 0)));
    add_gradients(g);
    evaluated e = evaluate(g, "ref", -1, 1, NULL);
    assert_string_equal(e.name[1], "grad.a");
    for (int i = 0; i < 4; i++)
        assert_true(evaluated_number(&e, 1, i) == 0);
    evaluated_release(&e);
    ls_graph_destroy(&g);
}

/* What does not reach the loss has the gradient 0 and costs nothing else. */
static void unused_parameter(void **state)
{
    (void)state;
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "unused"));
    ls_value a = ls_param(g, "a", LS_TYPE(LS_F32, 4), (ls_init){ 0 }),
             b = ls_param(g, "b", LS_TYPE(LS_F32, 2, 3), (ls_init){ 0 });
    ls_output(g, "other", ls_square(g, b));
    ls_output(g, "loss", total_of(g, ls_square(g, a)));
    add_gradients(g);
    evaluated e = evaluate(g, "ref", -1, 1, NULL);
    assert_int_equal(e.n, 4);
    assert_string_equal(e.name[3], "grad.b");
    assert_true(ls_type_equal(&e.type[3], &LS_TYPE(LS_F32, 2, 3)));
    for (int i = 0; i < 6; i++)
        assert_true(evaluated_number(&e, 3, i) == 0);
    assert_true(evaluated_number(&e, 2, 0) != 0);
    evaluated_release(&e);
    ls_graph_destroy(&g);
}

/* New nodes belong to the backward phase, the scope and the line of the op that they differentiate; the
 * graph's own are as they were. */
static void gradients_stand_where_their_op_does(void **state)
{
    (void)state;
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "scopes"));
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 3, 4));
    int line;
    {
        LS_SCOPE(g, "block", "Block");
        x = ls_square(g, ls_linear(g, "mlp", x, 2));
        line = __LINE__ - 1;
    }
    ls_output(g, "loss", total_of(g, x));
    const int forward = g->n_nodes;
    add_gradients(g);
    assert_ptr_equal(g->scope, &g->root);
    bool found = false;
    for (int i = forward; i < g->n_nodes; i++) {
        assert_int_equal(g->nodes[i]->phase, LS_PHASE_BACKWARD);
        if (g->nodes[i]->op != &ls_op_linear_dw)
            continue;
        found = true;
        assert_string_equal(g->nodes[i]->scope->path, "block.mlp");
        assert_int_equal(g->nodes[i]->line, line);
    }
    assert_true(found);
    ls_graph_destroy(&g);
}

static void refusals(void **state)
{
    (void)state;
    ls_graph *g;
    ls_value grad;
    ASSERT_OK(ls_graph_create(&g, "refused"));
    ls_value a = ls_param(g, "a", LS_TYPE(LS_F32, 4), (ls_init){ 0 }),
             seed = ls_fill(g, LS_SCALAR(LS_F32), 1);
    ASSERT_FAILS(ls_backward(g, ls_square(g, a), seed, 1, &a, &grad), LS_E_ARG, "refused",
                 "the loss must be a scalar");
    /* before: arguments are evaluated in any order, and the last call site counts */
    ls_value zero = ls_fill(g, LS_TYPE(LS_F32, 4), 0);
    ls_value m = ls_graph_apply(ls_at(g, "model.c", 7), &ls_op_gelu_grad, 2, (ls_value[]){ a, zero }, NULL);
    ASSERT_FAILS(ls_backward(g, total_of(g, m), seed, 1, &a, &grad), LS_E_UNSUPPORTED, "model.c:7",
                 "gelu_grad has no gradient");
    ls_graph_destroy(&g);

    ASSERT_OK(ls_graph_create(&g, "not on the path")); /* the same op beside the path changes nothing */
    a = ls_param(g, "a", LS_TYPE(LS_F32, 4), (ls_init){ 0 });
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 4));
    ls_value loss = total_of(
        g, ls_mul(g, a, ls_graph_apply(g, &ls_op_gelu_grad, 2, (ls_value[]){ x, x }, NULL)));
    ASSERT_OK(ls_backward(g, loss, ls_fill(g, LS_SCALAR(LS_F32), 1), 1, &a, &grad));
    ls_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power_of_zero),     cmocka_unit_test(gradients_are_the_differences),
        cmocka_unit_test(slices_are_packed), cmocka_unit_test(contributions_meet_in_their_order),
        cmocka_unit_test(unused_parameter),  cmocka_unit_test(gradients_stand_where_their_op_does),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
