/* outputs_command.h - what a model computes: of a whole split in a file, or numbers of pictures as a table.
 */
#pragma once
#include "saved_model.h"

/* `predict --out FILE.npy|.csv|.jsonl`; without --out a table of the samples, or of the picture files, on the
 * terminal. The saved model is open. Local. */
ls_status ls_outputs_command(const ls_predict_opts *o, ls_saved_model *saved, const ls_ui *ui);
