/* test_recurrent.c - layers of LSTM and GRU against PyTorch's modules, with PyTorch's weights under PyTorch's
 * names: outputs, last states and all gradients. On ref in f64, on cpu in f32 at every level, fused. */
#include <stdio.h>
#include <string.h>

#include "golden/values.h"
#include "lockstep/nn.h"
#include "ops/rules.h"
#include "passes/autodiff.h"
#include "passes/passes.h"
#include "support/levels.h"
#include "support/support.h"

enum { BATCH = 3, TOKENS = 7, IN = 5, HIDDEN = 6, MAX_WRT = 24 };

typedef struct layer_case {
    const char *name;
    bool lstm, deep; /* deep: two layers in both directions, with bias and states */
} layer_case;
static const layer_case CASES[] = {
    { "lstm_deep", true, true },
    { "lstm_plain", true, false },
    { "gru_deep", false, true },
    { "gru_plain", false, false },
};

/* sum of v * (input "dNAME") */
static ls_value weighted(ls_graph *g, const char *name, ls_value v)
{
    ls_output(g, name, v);
    char weight[8];
    snprintf(weight, sizeof weight, "d%s", name);
    return ls_sum(g, ls_mul(g, v, ls_input(g, weight, ls_value_type(g, v))), LS_ALL_DIMS, false);
}

static ls_graph *build(const layer_case *c)
{
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, c->name));
    ls_value x = ls_input(g, "x", LS_TYPE(LS_F32, BATCH, TOKENS, IN));
    ls_recurrent_opts o = { LS_RECURRENT_DEFAULTS, .bias = c->deep };
    if (c->deep) {
        o.layers = 2;
        o.bidirectional = true;
        o.h0 = ls_input(g, "h0", LS_TYPE(LS_F32, BATCH, 4, HIDDEN));
        if (c->lstm)
            o.c0 = ls_input(g, "c0", LS_TYPE(LS_F32, BATCH, 4, HIDDEN));
    }
    const ls_recurrent r = (c->lstm ? ls_lstm_with : ls_gru_with)(g, "rnn", x, HIDDEN, &o);
    ls_value loss = ls_add(g, weighted(g, "y", r.y), weighted(g, "h", r.h));
    if (c->lstm)
        loss = ls_add(g, loss, weighted(g, "c", r.c));
    ls_output(g, "loss", loss);
    ASSERT_OK(ls_graph_finish(g));
    return g;
}

/* A parameter; or the layer's input, or a state. */
static bool has_gradient(const ls_node *n)
{
    const char *name = n->op == &ls_op_param || n->op == &ls_op_input
                           ? ((const ls_source_attrs *)n->attrs)->name
                           : "d";
    return name[0] != 'd';
}

/* The golden name of a source: parameters have the layer's name in front. */
static const char *golden_name(const char *name) { return strncmp(name, "rnn.", 4) ? name : name + 4; }

static void differentiate(ls_graph **gp, ls_dtype type)
{
    ls_value wrt[MAX_WRT], gradients[MAX_WRT], loss = LS_NONE;
    const char *names[MAX_WRT];
    int n = 0;
    if (type == LS_F64)
        ASSERT_OK(ls_pass_to_float(gp, LS_F64));
    ls_graph *g = *gp;
    for (int i = 0; i < g->n_outputs; i++)
        if (!strcmp(g->outputs[i].name, "loss"))
            loss = g->outputs[i].value;
    for (int i = 0; i < g->n_nodes; i++)
        if (has_gradient(g->nodes[i])) {
            assert_true(n < MAX_WRT);
            names[n] = ((const ls_source_attrs *)g->nodes[i]->attrs)->name;
            wrt[n++] = g->nodes[i]->out[0];
        }
    ASSERT_OK(ls_backward(g, loss, ls_fill(g, LS_SCALAR(type), 1.0), n, wrt, gradients));
    for (int i = 0; i < n; i++)
        ls_output(g, ls_arena_printf(&g->arena, "grad.%s", names[i]), gradients[i]);
    ASSERT_OK(ls_graph_finish(g));
    if (type == LS_F32) {
        ASSERT_OK(ls_pass_cse(gp));
        ASSERT_OK(ls_pass_fuse(gp));
        ASSERT_OK(ls_pass_dce(gp));
    }
}

static void check(const ls_weights *golden, const layer_case *c, const ls_device *d, ls_dtype type,
                  double tolerance)
{
    ls_graph *g = build(c);
    ls_plan *p;
    ls_session *s;
    char what[64];
    differentiate(&g, type);
    ASSERT_OK(ls_plan_create(&p, g, d, NULL));
    ASSERT_OK(ls_session_create(&s, 1, &p, NULL));
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_param || g->nodes[i]->op == &ls_op_input) {
            const char *name = ((const ls_source_attrs *)g->nodes[i]->attrs)->name;
            golden_put(s, name, golden_get(golden, "%s.%s", c->name, golden_name(name)));
        }
    ASSERT_OK(ls_session_run(s, 0, true));
    snprintf(what, sizeof what, "%s %s, %d threads", d->ops->name, d->arch->name, d->threads);
    int compared = 0;
    for (int i = 0; i < g->n_outputs; i++) {
        const char *output = g->outputs[i].name, *of = strncmp(output, "grad.", 5) ? NULL : output + 5;
        char name[64];
        if (!strcmp(output, "loss"))
            continue;
        if (!of)
            snprintf(name, sizeof name, "%s", output);
        else
            snprintf(name, sizeof name, "%s%s", strncmp(of, "rnn.", 4) ? "d" : "grad.", golden_name(of));
        golden_expect_value(what, s, output, golden_get(golden, "%s.%s", c->name, name), tolerance);
        compared++;
    }
    /* y, states, and gradients of x, weights and states */
    assert_int_equal(compared, c->deep ? (c->lstm ? 3 + 1 + 16 + 2 : 2 + 1 + 16 + 1) : c->lstm ? 6 : 5);
    ls_session_destroy(&s);
    ls_plan_destroy(&p);
    ls_graph_destroy(&g);
}

static void layers(void **state)
{
    (void)state;
    ls_weights *golden = golden_open("recurrent");
    for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++) {
        ls_device d;
        ASSERT_OK(ls_device_open(&d, "ref", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
        check(golden, &CASES[k], &d, LS_F64, 1e-12);
        for (int isa = next_level(-1); isa < LS_ISA_COUNT; isa = next_level(isa))
            for (int threads = 1; threads <= 2; threads++) {
                ASSERT_OK(ls_device_open(
                    &d, "cpu",
                    &(ls_device_opts){ LS_DEVICE_DEFAULTS, .isa = level_name(isa), .threads = threads }));
                check(golden, &CASES[k], &d, LS_F32, 2e-6);
            }
    }
    ls_weights_close(&golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(layers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
