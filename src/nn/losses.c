/* losses.c - losses as rows, with PyTorch's definitions. Their nodes keep the file and line of the model. */
#define LS_NO_CALL_SITES
#include "base/argument.h"
#include "graph/graph.h"
#include "lockstep/nn.h"

/* softplus(z) - z t = -t log p - (1 - t) log(1 - p) with p = sigmoid(z), and no logarithm of 0 */
static ls_value bce(ls_graph *g, ls_value z, ls_value t)
{
    return ls_sub(g, ls_softplus(g, z), ls_mul(g, z, t));
}

/* with a = |d| and m = min(a, delta): m^2 / 2 + delta (a - m) */
static ls_value huber(ls_graph *g, ls_value d, double delta)
{
    const ls_value a = ls_abs(g, d), m = ls_clamp(g, a, 0, delta);
    return ls_add(g, ls_mul_const(g, ls_square(g, m), 0.5), ls_mul_const(g, ls_sub(g, a, m), delta));
}

static ls_value cross_entropy(ls_graph *g, ls_value logits, ls_value labels)
{
    const ls_type t = ls_value_type(g, logits);
    const int64_t classes = t.ndim ? t.dims[t.ndim - 1] : 1;
    return ls_cross_entropy(g, ls_reshape_dims(g, logits, 2, (int64_t[]){ -1, classes }),
                            ls_reshape_dims(g, labels, 1, (int64_t[]){ -1 }));
}

ls_value(ls_loss_rows)(ls_graph *g, ls_loss_kind kind, ls_value output, ls_value target, double delta)
{
    LS_ARG_OR(g, ((ls_value){ .id = -1 }));
    LS_BUILD_ENUM(g, ls_loss_kind, kind, LS_LOSS_CROSS_ENTROPY, ((ls_value){ .id = -1 }));
    ls_value rows = { .id = -1 };
    ls_wide_begin(g);
    switch (kind) {
    case LS_LOSS_MSE: rows = ls_square(g, ls_sub(g, output, target)); break;
    case LS_LOSS_MAE: rows = ls_abs(g, ls_sub(g, output, target)); break;
    case LS_LOSS_HUBER: rows = huber(g, ls_sub(g, output, target), delta); break;
    case LS_LOSS_BCE: rows = bce(g, output, target); break;
    case LS_LOSS_CROSS_ENTROPY: rows = cross_entropy(g, output, target); break;
    case LS_LOSS_IN_BATCH: break;
    }
    ls_wide_end(g);
    return rows;
}
