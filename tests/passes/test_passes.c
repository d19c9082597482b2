/* test_passes.c - dead code, common subexpressions, slices, narrow products, units and precision, recompute:
 * each really happens, and leaves the same bits; on the ViT and the MLP as the trainer compiles them, on ref
 * and on cpu at every level. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "passes/autodiff.h"
#include "lockstep/models.h"
#include "lockstep/nn.h"
#include "ops/rules.h"
#include "passes/evaluate.h"
#include "plan/plan.h"
#include "support/support.h"

static const ls_vit_config VIT = { .image_size = 8,
                                   .patch_size = 4,
                                   .in_channels = 1,
                                   .layers = 3,
                                   .heads = 2,
                                   .hidden_size = 32,
                                   .mlp_size = 48,
                                   .classes = 5,
                                   .mean = 0.5,
                                   .std = 0.5 };
static const ls_vit_config TUTORIAL = { .image_size = 28,
                                        .patch_size = 7,
                                        .in_channels = 1,
                                        .layers = 10,
                                        .heads = 2,
                                        .hidden_size = 128,
                                        .mlp_size = 128,
                                        .classes = 10,
                                        .mean = 0.5,
                                        .std = 0.5 };
static const ls_mlp_config MLP = { .image_size = 6,
                                   .in_channels = 1,
                                   .classes = 5,
                                   .n_hidden = 2,
                                   .hidden = { 24, 16 },
                                   .act = LS_MLP_ACT_GELU,
                                   .mean = 0.5,
                                   .std = 0.5 };

static ls_graph *vit(const ls_vit_config *c, int64_t batch)
{
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "vit"));
    ASSERT_OK(ls_vit_build(g, c, batch));
    return g;
}

static ls_graph *mlp(void)
{
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "mlp"));
    ASSERT_OK(ls_mlp_build(g, &MLP, 3));
    return g;
}

/* after = pass(before): the same bits everywhere. Both may be used afterwards. */
static void expect_unchanged(const ls_graph *before, const ls_graph *after, const ls_units *units, bool f64,
                             const char *what)
{
    const char *device;
    int isa;
    for (int k = 0; evaluate_device(k, &device, &isa) && !(f64 && k); k++) {
        char text[120];
        snprintf(text, sizeof text, "%s on %s %s", what, device, k ? ls_isa_name((ls_isa)isa) : "");
        evaluated a = evaluate(before, device, isa, 1, units), b = evaluate(after, device, isa, 2, units);
        expect_same_bits(&a, &b, text);
        evaluated_release(&a);
        evaluated_release(&b);
    }
}

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

static void only_loss(ls_graph *g)
{
    g->n_outputs = 1;
    assert_string_equal(g->outputs[0].name, "loss");
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
    for (int kind = 0; kind < 12; kind++) {
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
        default: { /* the bias of attention is cut by query */
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
    ls_output(g, "rows", ls_slice(g, all, 0, 1, 2)); /* a slice of rows is no reason */
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

/* ---- units */

static ls_value grad_of_unit(ls_graph *g, const ls_units *u)
{
    ls_value state = LS_NONE, grad = LS_NONE;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_state &&
            !strcmp(((const ls_source_attrs *)g->nodes[i]->attrs)->name, u->units[0].state))
            state = g->nodes[i]->out[0];
    ASSERT_OK(ls_backward(g, g->outputs[0].value, ls_fill(g, ls_value_type(g, g->outputs[0].value), 1), 1,
                          &state, &grad));
    return grad;
}

/* As the trainer does: forward, units, backward, dce. Output "grad" is the flat gradient. */
static ls_graph *training(ls_graph *g, ls_dtype param, ls_dtype output, ls_units *u)
{
    if (param == LS_F64)
        ASSERT_OK(ls_pass_to_float(&g, LS_F64));
    only_loss(g);
    ASSERT_OK(ls_pass_slices_up(&g));
    ASSERT_OK(ls_pass_dce(&g));
    ASSERT_OK(ls_pass_narrow(&g));
    ASSERT_OK(ls_pass_units(&g, param, output, NULL, NULL, u));
    ls_output(g, "grad", grad_of_unit(g, u));
    ASSERT_OK(ls_pass_dce(&g));
    ASSERT_OK(ls_graph_verify(g));
    return g;
}

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
        ASSERT_OK(ls_pass_units(&g, LS_F32, LS_F32, NULL, NULL, &u));
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
    ASSERT_FAILS(ls_pass_units(&g, LS_F32, LS_F32, NULL, NULL, &u), LS_E_ARG, "empty", "no parameters");
    ls_param(g, "a", LS_TYPE(LS_F32, 4), (ls_init){ 0 });
    ls_param(g, "odd", LS_TYPE(LS_F64, 4), (ls_init){ 0 });
    ASSERT_FAILS(ls_pass_units(&g, LS_F32, LS_F32, NULL, NULL, &u), LS_E_UNSUPPORTED,
                 "odd is f64, and a is f32", "one type");
    ls_graph_destroy(&g);
}

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
        ASSERT_OK(ls_pass_recompute(&again, "EncoderBlock"));
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

static void recompute_refuses(void **state)
{
    (void)state;
    ls_units u;
    ls_graph *g = training(mlp(), LS_F32, LS_F32, &u);
    int n = g->n_nodes;
    ASSERT_FAILS(ls_pass_recompute(&g, "EncoderBlock"), LS_E_USAGE, "recompute: ", "\"mlp\"",
                 "no block of class \"EncoderBlock\"");
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
    ASSERT_OK(ls_pass_recompute(&g, "Block"));
    assert_true(clones(g) > 0);
    expect_unchanged(before, g, NULL, false, "odd blocks");
    clean(&g);
    expect_unchanged(before, g, NULL, false, "odd blocks, fused");
    ls_graph_destroy(&before);
    ls_graph_destroy(&g);
}

/* Tutorial 1's model: what is left of it, and what recompute saves. */
static void tutorial_vit(void **state)
{
    (void)state;
    ls_device d;
    ASSERT_OK(ls_device_open(
        &d, "cpu",
        &(ls_device_opts){ LS_DEVICE_DEFAULTS, .isa = LS_ISA_AVX2, .elsewhere = true, .threads = 2 }));
    size_t peak[2];
    for (int again = 0; again < 2; again++) {
        ls_units u;
        ls_plan *p;
        ls_graph *g = training(vit(&TUTORIAL, 64), LS_F32, LS_F32, &u);
        assert_int_equal(u.parameters, 1006090);
        if (again)
            ASSERT_OK(ls_pass_recompute(&g, "EncoderBlock"));
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
        cmocka_unit_test(dead_code),
        cmocka_unit_test(common_subexpressions),
        cmocka_unit_test(vit_head_reads_one_token),
        cmocka_unit_test(slices_that_stay),
        cmocka_unit_test(narrow_products),
        cmocka_unit_test(unit_layout),
        cmocka_unit_test(units_give_the_same_gradients),
        cmocka_unit_test(precision),
        cmocka_unit_test(units_refuse),
        cmocka_unit_test(recompute_and_fuse),
        cmocka_unit_test(recompute_refuses),
        cmocka_unit_test(recompute_odd_blocks),
        cmocka_unit_test(tutorial_vit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
