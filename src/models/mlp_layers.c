/* mlp_layers.c - see mlp_layers.h. */
#include "mlp_layers.h"

#include <stdio.h>

#include "lockstep/nn.h"

ls_value ls_mlp_layers(ls_graph *g, ls_value x, int n, const int64_t *hidden, ls_mlp_activation act,
                       double dropout)
{
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "layers.%d", i);
        x = ls_linear(g, name, x, hidden[i]);
        x = act == LS_MLP_ACT_RELU   ? ls_relu(g, x)
            : act == LS_MLP_ACT_GELU ? ls_gelu(g, x)
                                     : ls_gelu_tanh(g, x);
        snprintf(name, sizeof name, "dropout.%d", i);
        x = ls_dropout(g, name, x, dropout);
    }
    return x;
}
