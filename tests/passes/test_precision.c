/* test_precision.c - policies of modules: which type every operation computes in, where casts stand, units of
 * one type each, and what is refused. */
#include <string.h>

#include "graph/graph.h"
#include "lockstep/nn.h"
#include "ops/rules.h"
#include "passes/models.h"
#include "support/support.h"

/* inner: ReLU, a Linear and a LayerNorm inside a Block; what they give is read by two Linears and a GELU. */
static ls_graph *model(void)
{
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "policies"));
    const ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 2, 8));
    ls_value y;
    {
        LS_SCOPE(g, "inner", "Block");
        y = ls_linear(g, "a", ls_relu(g, x), 8);
        y = ls_layer_norm(g, "norm", y, 1e-5);
    }
    const ls_value z = ls_linear(g, "outer", y, 8), w = ls_linear(g, "other", y, 8);
    ls_output(g, "out", ls_add(g, z, ls_add(g, w, y)));
    ls_output(g, "alone", ls_gelu(g, y));
    ASSERT_OK(ls_graph_finish(g));
    return g;
}

static ls_graph *passed(const char *modules, ls_dtype param, ls_units *u)
{
    ls_graph *g = model();
    const ls_precision p = { LS_PRECISION_DEFAULTS, .param = param, .modules = modules };
    ASSERT_OK(ls_pass_units(&g, &p, NULL, NULL, u));
    ASSERT_OK(ls_graph_verify(g));
    return g;
}

/* Type of the result of the op of that name in that module. */
static ls_dtype computes(const ls_graph *g, const char *module, const char *op)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (!strcmp(g->nodes[i]->scope->path, module) && !strcmp(g->nodes[i]->op->name, op))
            return ls_type_of(g, g->nodes[i]->out[0])->dtype;
    fail_msg("no %s in %s", op, module);
    return LS_F32;
}

static void the_inner_module_counts(void **state)
{
    (void)state;
    static const struct {
        const char *modules;
        ls_dtype param, relu, a, norm, gelu, outer;
        int units, casts;
    } CASES[] = {
        { NULL, LS_BF16, LS_F32, LS_BF16, LS_BF16, LS_BF16, LS_BF16, 1,
          2 }, /* casts: of the unit, and of x */
        /* y becomes f32 and, once for its three readers, bf16 */
        { "class:LayerNorm=f32", LS_BF16, LS_F32, LS_BF16, LS_F32, LS_F32, LS_BF16, 2, 4 },
        { "class:LayerNorm=f32,output=bf16", LS_BF16, LS_F32, LS_BF16, LS_F32, LS_BF16, LS_BF16, 2, 4 },
        { "pattern:inner=f16 class:LayerNorm=f32", LS_BF16, LS_F16, LS_F16, LS_F32, LS_F32, LS_BF16, 3, 5 },
        { "class:Block=f16,output=f32", LS_F32, LS_F16, LS_F16, LS_F16, LS_F32, LS_F32, 2, 3 },
        /* of words for one module the first counts */
        { "pattern:inner.norm=f16 class:LayerNorm=bf16", LS_F32, LS_F32, LS_F32, LS_F16, LS_F16, LS_F32, 2,
          3 },
        { "class:LayerNorm=bf16,reduce=bf16", LS_BF16, LS_F32, LS_BF16, LS_BF16, LS_BF16, LS_BF16, 2, 3 },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        ls_units u;
        ls_graph *g = passed(CASES[i].modules, CASES[i].param, &u);
        assert_int_equal(computes(g, "inner.a", "linear"), CASES[i].a);
        assert_int_equal(computes(g, "inner.norm", "layer_norm"), CASES[i].norm);
        assert_int_equal(computes(g, "inner", "relu"), CASES[i].relu);
        assert_int_equal(computes(g, "", "gelu"), CASES[i].gelu);
        assert_int_equal(computes(g, "outer", "linear"), CASES[i].outer);
        assert_int_equal(computes(g, "other", "linear"), CASES[i].outer);
        assert_int_equal(u.n, CASES[i].units);
        assert_int_equal(count_ops(g, "cast"), CASES[i].casts);
        assert_int_equal(u.units[u.slots[0].unit].param, CASES[i].a);    /* inner.a.weight */
        assert_int_equal(u.units[u.slots[2].unit].param, CASES[i].norm); /* inner.norm.weight */
        ls_units_release(&u);
        ls_graph_destroy(&g);
    }
    ls_units u;
    ls_graph *g = passed("class:LayerNorm=f32,reduce=bf16", LS_BF16, &u);
    assert_string_equal(u.units[u.slots[2].unit].state, "unit root in f32 reduced in bf16");
    assert_int_equal(u.units[u.slots[2].unit].reduce, LS_BF16);
    assert_int_equal(u.units[u.slots[0].unit].reduce, LS_F32);
    ls_units_release(&u);
    ls_graph_destroy(&g);
}

/* What is wide computes in f32 whatever the model computes in, and never rounds an operand that is f32. */
static void what_is_wide_is_not_rounded(void **state)
{
    (void)state;
    static const ls_dtype TYPES[] = { LS_BF16, LS_F16, LS_F32 };
    for (int i = 0; i < 3; i++) {
        ls_units u;
        ls_graph *g;
        ASSERT_OK(ls_graph_create(&g, "wide"));
        const ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, 2, 8)), y = ls_linear(g, "a", x, 8);
        ls_wide_begin(g);
        ls_value d = ls_sub(g, y, ls_input(g, "t", LS_TYPE(LS_F32, 2, 8)));
        {
            LS_SCOPE(g, "inside", "");
            d = ls_square(g, d);
        }
        ls_output(g, "narrow", ls_exp(g, y)); /* one operand, of 16 bits */
        ls_wide_end(g);
        ls_output(g, "loss", d);
        ls_output(g, "back", ls_add(g, ls_tanh(g, y), d)); /* computes as the model does again */
        ASSERT_OK(ls_graph_finish(g));
        const ls_precision p = { LS_PRECISION_DEFAULTS, .param = TYPES[i] };
        ASSERT_OK(ls_pass_units(&g, &p, NULL, NULL, &u));
        ASSERT_OK(ls_graph_verify(g));
        assert_int_equal(computes(g, "a", "linear"), TYPES[i]);
        assert_int_equal(computes(g, "", "sub"), LS_F32);
        assert_int_equal(computes(g, "inside", "square"), LS_F32);
        assert_int_equal(computes(g, "", "exp"), LS_F32);
        assert_int_equal(computes(g, "", "tanh"), TYPES[i]);
        assert_int_equal(computes(g, "", "add"), TYPES[i]);
        for (int k = 0; k < g->n_nodes; k++)
            if (!strcmp(g->nodes[k]->op->name, "sub"))
                assert_ptr_equal(ls_node_of(g, g->nodes[k]->in[1])->op, &ls_op_input);
        ls_units_release(&u);
        ls_graph_destroy(&g);
    }
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "wide"));
    ls_wide_end(g);
    ASSERT_FAILS(ls_graph_finish(g), LS_E_ARG, "no ls_wide_begin");
    ls_graph_destroy(&g);
}

/* Without casts the model must bring what each module wants. */
static void inputs_may_be_left_alone(void **state)
{
    (void)state;
    ls_units u;
    ls_graph *g = model();
    ls_precision p = { LS_PRECISION_DEFAULTS, .param = LS_BF16, .cast_forward_inputs = false };
    ASSERT_FAILS(ls_pass_units(&g, &p, NULL, NULL, &u), LS_E_USAGE, "cast_forward_inputs: false",
                 "linear of module inner.a", "say true");
    p = (ls_precision){ LS_PRECISION_DEFAULTS, .modules = "class:LayerNorm=bf16,cast_forward_inputs=false" };
    ASSERT_FAILS(ls_pass_units(&g, &p, NULL, NULL, &u), LS_E_USAGE, "layer_norm of module inner.norm");
    p.modules = "class:Block=bf16,cast_forward_inputs=false";
    ASSERT_FAILS(ls_pass_units(&g, &p, NULL, NULL, &u), LS_E_USAGE, "inner.a");
    ls_graph_destroy(&g);
    ASSERT_OK(ls_graph_create(&g, "casts"));
    const ls_value ids = ls_input(g, "ids", LS_TYPE(LS_I32, 2)),
                   table = ls_param(g, "table", LS_TYPE(LS_F32, 5, 8), (ls_init){ 0 });
    ls_output(g, "out",
              ls_mul(g, ls_linear(g, "a", ls_embedding_op(g, ids, table), 8),
                     ls_fill(g, LS_SCALAR(LS_F32), 2))); /* a constant has no type of its own */
    ASSERT_OK(ls_graph_finish(g));
    p = (ls_precision){ LS_PRECISION_DEFAULTS, .param = LS_BF16, .cast_forward_inputs = false };
    ASSERT_OK(ls_pass_units(&g, &p, NULL, NULL, &u));
    ls_units_release(&u);
    ls_graph_destroy(&g);
}

static void what_is_no_policy_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *modules, *says;
    } WRONG[] = {
        { "LayerNorm=f32", "a word is class:NAME=TYPE" },
        { "class:LayerNorm", "a word is" },
        { "class:=f32", "a word is" },
        { "class:LayerNorm=f64", "a word is" },
        { "class:LayerNorm=i32", "a word is" },
        { "class:LayerNorm=f32,input=bf16", "a word is" },
        { "class:LayerNorm=f32,output", "a word is" },
        { "class:LayerNorm=f32,output=u8", "a word is" },
        { "class:LayerNorm=f32,cast_forward_inputs=no", "a word is" },
        { "class:LayerNorm=f32,", "a word is" },
        { "class:LayerNorm=bf16", "changes nothing" },
        { "class:LayerNorm=bf16,output=bf16", "changes nothing" },
        { "class:BatchNorm2d=f32", "no module that matches" },
        { "pattern:inner.b=f32", "no module that matches" },
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        ls_units u;
        ls_graph *g = model();
        const ls_precision p = { LS_PRECISION_DEFAULTS, .param = LS_BF16, .modules = WRONG[i].modules };
        ASSERT_FAILS(ls_pass_units(&g, &p, NULL, NULL, &u), LS_E_USAGE, "modules: ", WRONG[i].says);
        ls_graph_destroy(&g);
    }
    const ls_precision f64 = { LS_PRECISION_DEFAULTS, .param = LS_F64, .modules = "class:Linear=f32" };
    ASSERT_FAILS(ls_precision_check(&f64), LS_E_USAGE, "f64");
    const ls_precision f16 = { LS_PRECISION_DEFAULTS, .modules = "class:Linear=f16" };
    assert_true(ls_precision_has_f16(&f16));
    const ls_precision bf16 = { LS_PRECISION_DEFAULTS, .param = LS_BF16, .modules = "class:Linear=f32" };
    assert_false(ls_precision_has_f16(&bf16));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(the_inner_module_counts),
                                        cmocka_unit_test(what_is_wide_is_not_rounded),
                                        cmocka_unit_test(inputs_may_be_left_alone),
                                        cmocka_unit_test(what_is_no_policy_is_refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
