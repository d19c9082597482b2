/* mlp.c - multi-layer perceptron over the flattened image, with torch.nn.Linear's initial values. */
#include "classifier.h"
#include "lockstep/models.h"
#include "lockstep/nn.h"
#include "base/argument.h"
#include "mlp_layers.h"

ls_status ls_mlp_build(ls_graph *g, const ls_mlp_config *c, int64_t batch)
{
    LS_ARG(g);
    LS_ARG(c);
    LS_ARG_ENUM(ls_mlp_activation, c->act, LS_MLP_ACT_GELU_TANH);
    ls_value x = LS_IMAGE_INPUT(g, batch, c);
    x = ls_reshape(g, x, batch, -1);
    x = ls_mlp_layers(g, x, c->n_hidden, c->hidden, c->act, c->dropout);
    ls_classifier_outputs(g, ls_linear(g, "head", x, c->classes), &c->loss);
    return ls_graph_finish(g);
}
