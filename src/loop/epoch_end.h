/* epoch_end.h - what follows the steps of an epoch: evaluation, rows, the best one, early stopping, a
 * checkpoint. */
#pragma once
#include "stand.h"

/* Whether the epoch ends with an evaluation if it ends after `step`. `last`: training ends with it. */
bool ls_epoch_evaluates(const ls_loop *l, int64_t epoch, int64_t step, bool last);
/* Whether an evaluation of eval.every_steps follows this step. */
bool ls_epoch_is_due(const ls_loop *l, int64_t step);
/* That evaluation, within an epoch: a row, and a checkpoint if it is the best one so far (*saved).
 * LS_E_STOPPED after a request in it: then the next attempt begins with it. Collective. */
ls_status ls_epoch_within(ls_loop *l, int64_t epoch, ls_epoch_sum *sum, bool *saved);

/* Ends an epoch: evaluates if it is due, writes the epoch's row, and saves if it is due. `whole`: all of its
 * steps are done, so it does not go on in a run with more train.steps. LS_E_STOPPED after a request in the
 * evaluation: it is saved that the end of the epoch is still to come, and nothing of it has happened.
 * Collective. */
ls_status ls_epoch_end(ls_loop *l, int64_t epoch, const ls_epoch_sum *sum, bool whole, bool last);

/* "loss 0.1234", or "no loss" where it has no value. */
const char *ls_loss_text(char out[32], double loss);
int ls_digits(int64_t n); /* of a number from 0 on */
