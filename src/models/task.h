/* task.h - the losses of a recipe for a model that has outputs and declares no loss of its own. */
#pragma once
#include "lockstep/models.h"

/* Declares a loss of cross-entropy by the weights of classes, as PyTorch's CrossEntropyLoss(weight=w,
 * label_smoothing=e). logits [batch, .., classes]; of each target: labels i32, its rows of
 * ls_cross_entropy_smooth, and its weight, the input `field`. With smoothing there is another input, of that
 * name and an s, f32 [batch, classes]: the weights of all classes. */
void ls_smooth_weighted_loss(ls_graph *g, const char *name, double factor, ls_value logits, ls_value labels,
                             ls_value rows, ls_value weight, const char *field, double smoothing);

/* Declares them, unscaled, with the metrics of their outputs, and finishes the graph. A target, weight or
 * mask that is not an input yet becomes one. LS_E_USAGE: `of` names no output [batch, ..]. */
ls_status ls_task_declare(ls_graph *g, int n, const ls_task_loss *losses, int64_t batch);
