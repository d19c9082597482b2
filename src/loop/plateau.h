/* plateau.h - schedule plateau: the learning rate is cut when the metric of checkpoint.best has not improved
 * for more than `patience` evaluations, by the rule of PyTorch's ReduceLROnPlateau with a relative threshold.
 * The counters are part of the run's metrics. A checkpoint stores them, so a run that continues goes on with
 * the same counters. */
#pragma once
#include "lockstep/recipe.h"
#include "record/rundir.h"

/* Notes the metric after an evaluation or at the end of an epoch. Without a measurement nothing is counted;
 * an undefined value (NAN) does not improve it. Returns whether the rate is cut. */
bool ls_plateau_note(ls_run_metrics *m, const ls_recipe *r, bool measured, double value);
