/* export_adapter.h - `lockstep export` of adapters. */
#pragma once
#include "commands.h"
#include "lockstep/weights.h"

/* Exports the weights of `from`, a checkpoint with adapters or a folder of PEFT: merged into their base with
 * --merge, else as a folder for PEFT. *n: how many tensors. */
ls_status ls_export_adapter(const ls_export_opts *o, const char *from, const ls_weights_export_opts *opts,
                            int64_t *n);
