/* test_units.c - units of parameters: the layout of their buffers, gradients that stay the same, element
 * types, what is refused. */
#include <math.h>

#include "device/device.h"
#include "lockstep/nn.h"
#include "ops/rules.h"
#include "passes/evaluate.h"
#include "plan/plan.h"
#include "support/support.h"
#include "passes/models.h"

static const ls_precision F32 = { LS_PRECISION_DEFAULTS };

/* ---- units */

static void unit_layout(void **state)
{
    (void)state;
    ls_units u;
    ls_graph *g = training(vit(&VIT, 3), LS_F32, LS_F32, &u);
    assert_string_equal(u.units[0].state, "unit root");
    assert_int_equal(count_ops(g, "param"), 0);
    assert_int_equal(count_ops(g, "cast"), 1); /* pixels */
    int64_t end = 0, parameters = 0;
    for (int i = 0; i < u.n_slots; i++) {
        assert_int_equal(u.slots[i].offset % 16, 0);
        assert_true(u.slots[i].offset >= end && u.slots[i].offset < end + 16);
        end = u.slots[i].offset + ls_type_count(&u.slots[i].type);
        parameters += ls_type_count(&u.slots[i].type);
    }
    assert_int_equal(parameters, u.parameters);
    assert_int_equal(u.elements, (end + 15) / 16 * 16);
    assert_string_equal(u.slots[0].name, "class_token");
    ls_units_release(&u);
    ls_graph_destroy(&g);
}

/* The flat gradient is the parameters' gradients side by side, and the loss is the same. */
static void units_give_the_same_gradients(void **state)
{
    (void)state;
    for (int model = 0; model < 2; model++) {
        ls_graph *plain = model ? mlp() : vit(&VIT, 3), *g = model ? mlp() : vit(&VIT, 3);
        only_loss(plain);
        only_loss(g);
        ls_units u;
        ASSERT_OK(ls_pass_units(&g, &F32, NULL, NULL, &u));
        add_gradients(plain);
        ls_output(g, "grad", grad_of_unit(g, &u));
        const char *device;
        int isa;
        for (int k = 0; evaluate_device(k, &device, &isa); k++) {
            evaluated a = evaluate(plain, device, isa, 1, NULL), b = evaluate(g, device, isa, 2, &u);
            assert_int_equal(a.n, u.n_slots + 1);
            assert_true(evaluated_number(&a, 0, 0) == evaluated_number(&b, 0, 0));
            for (int i = 0; i < u.n_slots; i++) {
                assert_string_equal(a.name[i + 1] + 5, u.slots[i].name);
                assert_memory_equal(a.data[i + 1], (float *)b.data[1] + u.slots[i].offset,
                                    ls_type_bytes(&u.slots[i].type));
            }
            evaluated_release(&a);
            evaluated_release(&b);
        }
        ls_units_release(&u);
        ls_graph_destroy(&g);
        ls_graph_destroy(&plain);
    }
}

/* Loss and every parameter's gradient within `relative` of that gradient's largest element. */
static void expect_close_slots(const evaluated *a, const ls_units *ua, const evaluated *b, const ls_units *ub,
                               double relative, const char *what)
{
    double x = evaluated_number(a, 0, 0), y = evaluated_number(b, 0, 0);
    assert_true(x > 0.1 && fabs(x - y) <= relative * x);
    for (int i = 0; i < ua->n_slots; i++) {
        double largest = 0, worst = 0;
        for (int64_t k = 0; k < ls_type_count(&ua->slots[i].type); k++) {
            double p = evaluated_number(a, 1, ua->slots[i].offset + k),
                   q = evaluated_number(b, 1, ub->slots[i].offset + k);
            largest = fmax(largest, fabs(p));
            worst = fmax(worst, fabs(p - q));
        }
        if (!(worst <= relative * largest))
            fail_msg("%s: gradient of %s is off by %.3g of %.3g", what, ua->slots[i].name, worst, largest);
    }
}

static void precision(void **state)
{
    (void)state;
    static const struct {
        ls_dtype param, output;
        double tolerance;
    } cases[] = {
        { LS_F64, LS_F32, 1e-4 },
        { LS_BF16, LS_F32, 0.06 },
        { LS_BF16, LS_BF16, 0.06 },
        { LS_F16, LS_F32, 0.01 },
    };
    ls_units u, u32;
    ls_graph *g = training(vit(&VIT, 3), LS_F32, LS_F32, &u32);
    evaluated f32 = evaluate(g, "ref", -1, 1, &u32);
    ls_graph_destroy(&g);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        g = training(vit(&VIT, 3), cases[k].param, cases[k].output, &u);
        const ls_dtype master = cases[k].param == LS_F64 ? LS_F64 : LS_F32;
        assert_int_equal(u.dtype, master);
        /* gradients arrive in the master's type */
        assert_int_equal(ls_type_of(g, g->outputs[1].value)->dtype, master);
        int products = 0;
        for (int i = 0; i < g->n_nodes; i++) {
            const ls_node *n = g->nodes[i];
            if (n->op == &ls_op_linear || n->op == &ls_op_attention || n->op == &ls_op_linear_dw) {
                products++;
                assert_int_equal(ls_type_of(g, n->out[0])->dtype, cases[k].param);
            } else if (n->op == &ls_op_cross_entropy) {
                /* no wider copy of the logits */
                assert_int_equal(ls_type_of(g, n->in[0])->dtype, cases[k].param);
                assert_int_equal(ls_type_of(g, n->out[0])->dtype, master);
            }
        }
        assert_true(products > 20);
        const char *device;
        int isa;
        for (int d = 0; evaluate_device(d, &device, &isa) && !(d && master == LS_F64); d++) {
            evaluated e = evaluate(g, device, isa, 2, &u);
            expect_close_slots(&f32, &u32, &e, &u, cases[k].tolerance, ls_dtype_name(cases[k].param));
            evaluated_release(&e);
        }
        ls_units_release(&u);
        ls_graph_destroy(&g);
    }
    evaluated_release(&f32);
    ls_units_release(&u32);
}

static void units_refuse(void **state)
{
    (void)state;
    ls_units u;
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "empty"));
    ls_output(g, "y", ls_input(g, "x", LS_SCALAR(LS_F32)));
    ASSERT_FAILS(ls_pass_units(&g, &F32, NULL, NULL, &u), LS_E_ARG, "empty", "no parameters");
    ls_param(g, "a", LS_TYPE(LS_F32, 4), (ls_init){ 0 });
    ls_param(g, "odd", LS_TYPE(LS_F64, 4), (ls_init){ 0 });
    ASSERT_FAILS(ls_pass_units(&g, &F32, NULL, NULL, &u), LS_E_UNSUPPORTED, "odd is f64, and a is f32",
                 "one type");
    ls_graph_destroy(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unit_layout),
        cmocka_unit_test(units_give_the_same_gradients),
        cmocka_unit_test(precision),
        cmocka_unit_test(units_refuse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
