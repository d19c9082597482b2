/* outputs_command.h - what a model computes: of a whole split in a file, or numbers of pictures as a table.
 */
#pragma once
#include "target.h"

/* `predict --out FILE.npy|.csv|.jsonl`; without --out a table of the samples, or of the picture files, on the
 * terminal. The target is open. Local. */
ls_status ls_outputs_command(const ls_predict_opts *o, ls_target *target, const ls_ui *ui);
