/* outputs_command.h - the predictions of a whole split, in a file. */
#pragma once
#include "target.h"

/* `predict --out FILE.npy|.csv|.jsonl`. The target is open. Local. */
ls_status ls_outputs_command(const ls_predict_opts *o, ls_target *target, const ls_ui *ui);
