/* export_optimizer.h - weights with the state of their optimizer as a DCP directory of PyTorch. */
#pragma once
#include "ckpt/checkpoint.h"

typedef struct ls_export_target {
    const char *dir, *prefix; /* prefix NULL: none */
    const ls_weights_export_opts *opts;
} ls_export_target;

/* Of a checkpoint. LS_E_UNSUPPORTED if it has no optimizer state, or none that PyTorch knows. */
ls_status ls_export_optimizer(const ls_checkpoint *c, const ls_export_target *to);
/* Of a DCP directory, of which `w` has the tensors to export. prefix: what its names begin with; NULL:
 * nothing. */
ls_status ls_export_dcp_optimizer(const ls_weights *w, const char *from, const char *prefix,
                                  const ls_export_target *to);
