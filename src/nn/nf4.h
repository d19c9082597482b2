/* nf4.h - weights of linear layers in 4 bits. */
#pragma once
#include "lockstep/nn.h"

/* In the scope of a linear layer: its weight [out, in], frozen, made of its codes. */
ls_value ls_nf4_weight(ls_graph *g, int64_t out, int64_t in, ls_init init);
