/* autodiff.h - reverse-mode differentiation, as a pass that appends ordinary nodes (phase backward) to the
 * graph. */
#pragma once
#include "graph/graph.h"

/* Appends the gradients of the scalar `loss` with respect to wrt[0 .. n-1] and writes their values to grads.
 * `seed` is d(objective)/d(loss), a scalar of the loss's type: 1, or a loss scale. If the loss does not
 * depend on a value, its gradient is zeros. Contributions to one value are added in reverse order of its
 * uses. Contributions that fill disjoint ranges of one dimension (the gradients of slices and flat views)
 * become one `pack` instead. Local. */
ls_status ls_backward(ls_graph *g, ls_value loss, ls_value seed, int n, const ls_value *wrt, ls_value *grads);
