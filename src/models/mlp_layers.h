/* mlp_layers.h - the hidden layers that multi-layer perceptrons of images and of fields share. */
#pragma once
#include "lockstep/models.h"

/* Layers "layers.0", ... of these widths, each with its activation and dropout. x [batch, features]. */
ls_value ls_mlp_layers(ls_graph *g, ls_value x, int n, const int64_t *hidden, ls_mlp_activation act,
                       double dropout);
