/* evaluate.h - loss and accuracy of a whole split. Every target counts exactly once; an incomplete last batch
 * is padded and masked. */
#pragma once
#include "lockstep/data.h"
#include "lockstep/trainer.h"
#include "base/ui.h"

typedef struct ls_eval_result {
    double loss, accuracy, seconds;
    int64_t samples, count /* of targets */, correct;
} ls_eval_result;

/* Every rank runs ceil(n / (ranks * batch)) batches; samples of the last ones may be masked. The loss is the
 * mean over targets. Each term is rounded once to a multiple of 2^-60 and then added as an integer, so the
 * sum is exact and does not depend on batches or ranks. Every rank gets the same result. LS_E_NUMERIC names
 * the first sample whose loss is not finite. Collective over the trainer's group; local without one. */
ls_status ls_evaluate(ls_trainer *t, const ls_dataset *set, int64_t batch, const ls_ui *ui,
                      ls_eval_result *out);
