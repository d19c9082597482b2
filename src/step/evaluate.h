/* evaluate.h - the losses and metrics of a whole split. Every sample counts exactly once; an incomplete last
 * batch is padded, and the padding does not count. */
#pragma once
#include "lockstep/data.h"
#include "lockstep/trainer.h"
#include "base/confusion.h"
#include "base/metric_list.h"
#include "base/ui.h"
#include "comm/rounds.h"

typedef struct ls_eval_result {
    /* "loss", which is minimised; each loss, if there are several; then the metrics of the model. Owned */
    ls_metric_list metrics;
    double loss, seconds;
    double accuracy;                 /* the metric of that name; NaN: the model has none */
    int64_t samples, count, correct; /* count: the divisor of accuracy, or of the first loss */
    /* of each of these metrics that is NaN: why it is undefined; else NULL */
    const char *why[LS_MOST_METRICS];
    ls_confusions confusions; /* of the accuracies of classes, in their order; none of text. Owned */
} ls_eval_result;
void ls_eval_result_release(ls_eval_result *e); /* harmless after an error, and twice */

/* Evaluates all samples of `set`. Every rank runs ceil(n / (ranks * eval_batch)) batches; samples of the last
 * ones may be padding. Sums are exact, so they do not depend on batches or ranks. Every rank gets the same
 * result. LS_E_NUMERIC names the first sample with a row that is not finite. LS_E_STOPPED, before the next
 * batch and on all ranks, if a rank is asked to stop (rounds NULL: never). Collective over the trainer's
 * group; local without one. */
ls_status ls_evaluate(ls_trainer *t, const ls_dataset *set, const ls_ui *ui, ls_rounds *rounds,
                      ls_eval_result *out);
/* What ls_evaluate checks before it begins: LS_E_SHAPE as ls_trainer_check_data; LS_E_USAGE: the last batch
 * would have padding, and a loss or a metric of the model depends on the other samples of its batch. Local.
 */
ls_status ls_evaluate_check(const ls_trainer *t, const ls_dataset *set);
bool ls_dataset_is_text(const ls_dataset *set);
/* exp of a language model's loss, or of its cross-entropy where another loss is added to that. */
double ls_evaluate_perplexity(const ls_eval_result *e);
/* Why the metric of this name is undefined. */
const char *ls_evaluate_why(const ls_eval_result *e, const char *name);
