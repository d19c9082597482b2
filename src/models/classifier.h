/* classifier.h - what image classifiers share: inputs and loss. */
#pragma once
#include "lockstep/graph.h"

/* Input "images", u8 [batch, channels, size, size]. Returns f32 of that shape: (p / 255 - mean) / std. */
ls_value ls_image_input(ls_graph *g, int64_t batch, int64_t channels, int64_t size, double mean, double std);
/* `logits` [batch, classes]. Adds the input "labels", the loss, the metric "accuracy" and the output
 * "logits". */
void ls_classifier_outputs(ls_graph *g, ls_value logits);
/* The same of a language model: `logits` [batch * tokens, vocabulary]; `targets` is the input of that name.
 */
void ls_language_outputs(ls_graph *g, ls_value logits, ls_value targets);
