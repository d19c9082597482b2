/* early_stopping.h - train.early_stopping: training ends when the metric of checkpoint.best has not improved
 * for `patience` epochs in which it was measured. The count is part of the metrics of a run, so a checkpoint
 * has it and a run that continues counts on. */
#pragma once
#include "lockstep/recipe.h"
#include "record/rundir.h"

/* Notes the metric at the end of an epoch. An epoch that has not measured it does not count; one in which it
 * is undefined (NAN) counts as one without improvement. */
void ls_early_stopping_note(ls_run_metrics *m, const ls_recipe *r, bool measured, double value);
/* Whether training ends here. */
bool ls_early_stopping_due(const ls_run_metrics *m, const ls_recipe *r);
/* "early stopping: eval_loss has not improved by more than 0.01 for 3 epochs; the best value is 0.25", or
 * "early stopping: eval_auc has been undefined for 3 epochs" */
void ls_early_stopping_text(char *out, size_t size, const ls_run_metrics *m, const ls_recipe *r);
