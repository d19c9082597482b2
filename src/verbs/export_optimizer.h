/* export_optimizer.h - a checkpoint with the state of its optimizer as a DCP directory of PyTorch. */
#pragma once
#include "ckpt/checkpoint.h"

/* LS_E_UNSUPPORTED for a checkpoint without optimizer state, or without a recipe: your own program wrote it,
 * and the settings are not known. */
ls_status ls_export_optimizer(const ls_checkpoint *c, const char *dir, const ls_weights_export_opts *o);
