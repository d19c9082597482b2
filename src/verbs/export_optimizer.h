/* export_optimizer.h - a checkpoint with the state of its optimizer as a directory of PyTorch's distributed
 * checkpoint. */
#pragma once
#include "ckpt/checkpoint.h"

/* LS_E_UNSUPPORTED for a checkpoint without optimizer state, or of a program of its own: its settings are in
 * no recipe. */
ls_status ls_export_optimizer(const ls_checkpoint *c, const char *dir, const ls_weights_export_opts *o);
