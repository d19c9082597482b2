/* evaluate.h - loss and accuracy of a whole split: every target counted exactly once, the ragged last batch
 * padded and masked. */
#pragma once
#include "lockstep/data.h"
#include "lockstep/trainer.h"
#include "base/ui.h"

typedef struct ls_eval_result {
    double loss, accuracy, seconds;
    int64_t samples, count /* of targets */, correct;
} ls_eval_result;

/* Every rank of the trainer's group runs ceil(n / (ranks * batch)) batches, the last ones partly or wholly
 * masked. The loss is the mean over targets; its sum is exact (each term rounded once to 2^-60, then
 * integers), so it does not depend on how the samples were batched or dealt. Every rank gets the same result,
 * and LS_E_NUMERIC naming the same sample if a loss is not finite. Collective over the group; local without
 * one. */
ls_status ls_evaluate(ls_trainer *t, const ls_dataset *set, int64_t batch, const ls_ui *ui,
                      ls_eval_result *out);
