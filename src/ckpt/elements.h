/* elements.h - copies tensors by name. */
#pragma once
#include "lockstep/weights.h"

/* Fills `to` from the tensors of `from` with the same names and shapes, which may have another float type:
 * converted, rounding to nearest even. LS_E_SHAPE if one is missing. */
ls_status ls_tensors_copy(int64_t n, const ls_named_tensor *to, int64_t n_from, const ls_named_tensor *from);
