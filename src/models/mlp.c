/* mlp.c - multi-layer perceptron over the flattened image, with torch.nn.Linear's initial values. */
#include <stdio.h>

#include "classifier.h"
#include "lockstep/models.h"
#include "lockstep/nn.h"
#include "base/argument.h"
#include "mlp_layers.h"

ls_value ls_mlp_layers(ls_graph *g, ls_value x, int n, const int64_t *hidden, ls_mlp_activation act)
{
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "layers.%d", i);
        x = ls_linear(g, name, x, hidden[i]);
        x = act == LS_MLP_ACT_RELU   ? ls_relu(g, x)
            : act == LS_MLP_ACT_GELU ? ls_gelu(g, x)
                                     : ls_gelu_tanh(g, x);
    }
    return x;
}

ls_status ls_mlp_build(ls_graph *g, const ls_mlp_config *c, int64_t batch)
{
    LS_ARG(g);
    LS_ARG(c);
    ls_value x = LS_IMAGE_INPUT(g, batch, c);
    x = ls_reshape(g, x, batch, -1);
    x = ls_mlp_layers(g, x, c->n_hidden, c->hidden, c->act);
    ls_classifier_outputs_with(g, ls_linear(g, "head", x, c->classes), &c->loss);
    return ls_graph_finish(g);
}
