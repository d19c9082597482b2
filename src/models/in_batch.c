/* in_batch.c - embeddings of texts, and the loss that compares those of a micro-batch. */
#include "models/in_batch.h"

#include "graph/graph.h"
#include "passes/objective.h"

#define SCALE 20.0

ls_value ls_sentence_embedding(ls_graph *g, ls_value x, ls_value ids, int64_t pad)
{
    const ls_type t = ls_value_type(g, ids);
    const int64_t batch = t.ndim ? t.dims[0] : 1;
    ls_wide_begin(g);
    const ls_value other = ls_add_const(g, ls_cast(g, ids, LS_F32), -(double)pad), /* 0: padding */
        real = ls_reshape(g, ls_sign(g, ls_abs(g, other)), batch, -1, 1),
                   sum = ls_sum(g, ls_mul(g, x, real), 1, false),
                   mean = ls_div(g, sum, ls_sum(g, real, 1, false)),
                   /* as PyTorch's normalize: a length below 1e-12 counts as 1e-12 */
        square = ls_clamp(g, ls_sum(g, ls_square(g, mean), 1, true), 1e-24, 1e38),
                   y = ls_div(g, mean, ls_sqrt(g, square));
    ls_wide_end(g);
    return y;
}

static void declare(ls_graph *g, const char *name, ls_value rows, bool loss)
{
    ls_graph_declare(g, (ls_declared){ .name = name,
                                       .rows = rows,
                                       .factor = 1,
                                       .weigh = LS_BY_SAMPLE,
                                       .how = LS_MEAN,
                                       .loss = loss,
                                       .among = true });
}

void ls_in_batch_loss(ls_graph *g, ls_value a, ls_value b)
{
    const ls_type t = ls_value_type(g, a);
    const int64_t batch = t.ndim ? t.dims[0] : 1;
    ls_wide_begin(g);
    const ls_value number = ls_cumsum(g, ls_fill(g, LS_TYPE(LS_F32, batch), 1), 0), /* 1, 2, .. */
        row = ls_reshape(g, number, batch, 1), column = ls_reshape(g, number, 1, batch),
                   real = ls_reshape(g, ls_cast(g, ls_objective_real(g), LS_F32), 1, 1),
                   /* 0, and for columns of padding so little that its exponential is 0 */
        hidden = ls_mul_const(g, ls_add_const(g, ls_ge(g, real, column), -1), 1e9),
                   own = ls_eq(g, row, column),
                   scores = ls_add(g, ls_mul_const(g, ls_matmul(g, a, b, false, true), SCALE), hidden);
    declare(g, "in_batch_negatives",
            ls_neg(g, ls_sum(g, ls_mul(g, ls_log_softmax(g, scores), own), 1, false)), true);
    declare(g, "accuracy",
            ls_ge(g, ls_sum(g, ls_mul(g, scores, own), 1, false), ls_amax(g, scores, 1, false)), false);
    ls_wide_end(g);
}
