/* plateau.h - schedule plateau: the learning rate is cut when the metric of checkpoint.best has not improved
 * for more than `patience` evaluations, by the rule of PyTorch's ReduceLROnPlateau with a relative threshold.
 * What it counts is part of the metrics of a run, so a checkpoint has it and a run that continues counts on.
 */
#pragma once
#include "lockstep/recipe.h"
#include "record/rundir.h"

/* Notes the metric at the end of an epoch. An epoch that has not measured it does not count; an undefined
 * value (NAN) does not improve it. Returns whether the rate is cut. */
bool ls_plateau_note(ls_run_metrics *m, const ls_recipe *r, bool measured, double value);
