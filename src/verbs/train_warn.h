/* train_warn.h - what a run does that is legal and yet is seldom meant. */
#pragma once
#include "loop/loop.h"

/* Logs, before the first step, a line if the model has classes of which the training data has no sample, one
 * if images in files are seen in the default size or without colours, and one if the learning rate jumps,
 * because the schedule has changed since the checkpoint. `classes`: the labels of the training images are
 * below it; -1: not known. `continues`: from a checkpoint. `changed`: with
 * --allow-change. */
void ls_train_warn(const ls_loop *l, int64_t classes, bool continues, bool changed);
