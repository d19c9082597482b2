/* mlp_layers.c - see mlp_layers.h. */
#include "mlp_layers.h"

#include <stdio.h>

#include "lockstep/nn.h"

static ls_value activate(ls_graph *g, ls_value x, ls_mlp_activation act)
{
    switch (act) {
    case LS_MLP_ACT_GELU: return ls_gelu(g, x);
    case LS_MLP_ACT_GELU_TANH: return ls_gelu_tanh(g, x);
    case LS_MLP_ACT_TANH: return ls_tanh(g, x);
    case LS_MLP_ACT_SIGMOID: return ls_sigmoid(g, x);
    case LS_MLP_ACT_SILU: return ls_silu(g, x);
    case LS_MLP_ACT_LEAKY_RELU: return ls_leaky_relu(g, x, 0.01);
    case LS_MLP_ACT_ELU: return ls_elu(g, x, 1);
    default: return ls_relu(g, x);
    }
}

ls_value ls_mlp_layers(ls_graph *g, ls_value x, int n, const int64_t *hidden, ls_mlp_activation act,
                       double dropout)
{
    for (int i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "layers.%d", i);
        x = ls_linear(g, name, x, hidden[i]);
        x = activate(g, x, act);
        snprintf(name, sizeof name, "dropout.%d", i);
        x = ls_dropout(g, name, x, dropout);
    }
    return x;
}
