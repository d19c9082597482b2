/* join_loss.h - a head and its loss become one op. */
#pragma once
#include "passes.h"

/* Joins a linear and the cross_entropy of its result to one op, linear_cross_entropy, which never has all
 * logits in memory: in training with their gradients, in an evaluation with the argmax of the logits. Only
 * where
 *   - the logits have at least most / 16 elements, and nothing else reads them,
 *   - the gradient of the loss is known before the loss: it is a constant or the loss scale,
 *   - no axis splits the classes, and the bias, if there is one, has no gradient,
 *   - a trained weight is f32 or f64, and has a multiple of 16 features. In 16 bits its gradient would need
 *     f32 sums, more than the logits.
 * The op keeps about `most` logits at a time, and at least those of LS_LOSS_BLOCK rows. Results keep their
 * bits. After differentiation, before ls_pass_recompute: there is nothing left to compute again. */
ls_status ls_pass_join_loss(ls_graph **g, int64_t most);
