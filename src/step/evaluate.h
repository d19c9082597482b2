/* evaluate.h - the losses and metrics of a whole split. Every sample counts exactly once; an incomplete last
 * batch is padded, and the padding does not count. */
#pragma once
#include "lockstep/data.h"
#include "lockstep/trainer.h"
#include "base/ui.h"

typedef struct ls_eval_result {
    /* "loss", what is minimised; of several losses each; then the metrics, in the order of the model. NaN:
     * nothing counted. The trainer's memory, until its next evaluation. */
    int n;
    const ls_metric *metrics;
    double loss, seconds;
    double accuracy; /* the metric of that name; NaN: the model has none */
    int64_t samples, count /* what the first loss is divided by */, correct;
} ls_eval_result;
double ls_eval_metric(const ls_eval_result *e, const char *name); /* NaN: there is none of that name */

/* Every rank runs ceil(n / (ranks * batch)) batches; samples of the last ones may be padding. Sums are exact,
 * so they do not depend on batches or ranks. Every rank gets the same result. LS_E_NUMERIC names the first
 * sample of which a row is not finite. Collective over the trainer's group; local without one. */
ls_status ls_evaluate(ls_trainer *t, const ls_dataset *set, int64_t batch, const ls_ui *ui,
                      ls_eval_result *out);
