/* models.c - see models.h. */
#include "device/cpu/isa.h"
#include "passes/models.h"
#include <stdio.h>
#include <string.h>

#include "passes/autodiff.h"
#include "support/small_vit.h"
#include "support/support.h"
#include "support/lowered.h"

const ls_vit_config VIT = { SMALL_VIT, .layers = 3, .hidden_size = 32, .mlp_size = 48 };
const ls_vit_config TUTORIAL = { TUTORIAL_VIT };
const ls_mlp_config MLP = { .image_size = 6,
                            .in_channels = 1,
                            .classes = 5,
                            .n_hidden = 2,
                            .hidden = { 24, 16 },
                            .act = LS_MLP_ACT_GELU,
                            .mean = 0.5,
                            .std = 0.5 };

ls_graph *vit(const ls_vit_config *c, int64_t batch)
{
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "vit"));
    ASSERT_OK(ls_vit_build(g, c, batch));
    lowered(g, batch);
    return g;
}

ls_graph *mlp(void)
{
    ls_graph *g;
    ASSERT_OK(ls_graph_create(&g, "mlp"));
    ASSERT_OK(ls_mlp_build(g, &MLP, 3));
    lowered(g, 3);
    return g;
}

void expect_unchanged(const ls_graph *before, const ls_graph *after, const ls_units *units, bool f64,
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

void only_loss(ls_graph *g)
{
    for (int i = 0; i < g->n_outputs; i++)
        if (!strcmp(g->outputs[i].name, "loss"))
            g->outputs[0] = g->outputs[i];
    g->n_outputs = 1;
    assert_string_equal(g->outputs[0].name, "loss");
}

ls_value grad_of_unit(ls_graph *g, const ls_units *u)
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

ls_graph *training(ls_graph *g, ls_dtype param, ls_dtype output, ls_units *u)
{
    if (param == LS_F64)
        ASSERT_OK(ls_pass_to_float(&g, LS_F64));
    only_loss(g);
    ASSERT_OK(ls_pass_slices_up(&g));
    ASSERT_OK(ls_pass_dce(&g));
    ASSERT_OK(ls_pass_narrow(&g));
    ASSERT_OK(ls_pass_units(&g, &(ls_precision){ LS_PRECISION_DEFAULTS, .param = param, .output = output },
                            NULL, NULL, u));
    ls_output(g, "grad", grad_of_unit(g, u));
    ASSERT_OK(ls_pass_dce(&g));
    ASSERT_OK(ls_graph_verify(g));
    return g;
}
