/* lora.h - low-rank adapters of linear layers. */
#pragma once
#include "lockstep/nn.h"

/* In the scope of a linear layer x -> y of `out` features: y with the adapter's part, or y itself where the
 * graph's adapters are not for this layer. */
ls_value ls_lora_adapt(ls_graph *g, ls_value x, ls_value y, int64_t out);
