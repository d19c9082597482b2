/* classifier.h - what image classifiers share: inputs and loss. */
#pragma once
#include "lockstep/graph.h"

/* normalised f32 */
ls_value ls_image_input(ls_graph *g, int64_t batch, int64_t channels, int64_t size, double mean, double std);
void ls_classifier_outputs(ls_graph *g, ls_value logits);
