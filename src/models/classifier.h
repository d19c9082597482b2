/* classifier.h - what image classifiers share: inputs and loss. */
#pragma once
#include "lockstep/models.h"

/* Input "images", u8 [batch, channels, size, size]. Returns f32 of that shape: (p / 255 - mean) / std.
 * `means` and `stds` [channels] have a number for each channel; NULL: `mean` and `std` are of all. */
ls_value ls_image_input(ls_graph *g, int64_t batch, int64_t channels, int64_t size, double mean, double std,
                        const double *means, const double *stds);
/* The same for a configuration that has these members. */
#define LS_IMAGE_INPUT(g, batch, c) \
    ls_image_input(g, batch, (c)->in_channels, (c)->image_size, (c)->mean, (c)->std, (c)->means, (c)->stds)
/* The loss of each row [batch]: of its label or, in training with `loss->mixed`, of the two labels of a
 * mixture, which become inputs. */
ls_value ls_classifier_rows(ls_graph *g, ls_value logits, ls_value labels, const ls_classifier_loss *loss);
/* `logits` [batch, classes]. Adds the input "labels", the loss, the metric "accuracy" and the output
 * "logits". loss NULL: cross-entropy without smoothing. */
void ls_classifier_outputs(ls_graph *g, ls_value logits, const ls_classifier_loss *loss);
/* The same of a language model: `logits` [batch * tokens, vocabulary]; `targets` is the input of that name.
 * `balance` [batch]: rows of a loss that is added, times `factor`, or with factor 0 of a metric; LS_NONE:
 * there are none. */
void ls_language_outputs(ls_graph *g, ls_value logits, ls_value targets, ls_value balance, double factor);
