/* skips.h - what the loop says of steps that changed no weight because a number of theirs was not finite. */
#pragma once
#include "loop.h"

/* A step has failed, and `r` says why. If its numbers were the reason, completes the checkpoint that is still
 * being written, and adds to the message where the run continues, and what can be done. Collective then. */
ls_status ls_skips_failed(ls_loop *l, ls_status s, int64_t epoch, const ls_step_result *r);

/* Says that a step was skipped because a number was not finite, and counts it; else does nothing. */
void ls_skips_note(ls_loop *l, int64_t epoch, const ls_step_result *r);

/* At the end of a run: LS_E_NUMERIC if none of its steps changed a weight, or if the last train.max_skips or
 * more changed none. */
ls_status ls_skips_end(const ls_loop *l);
