/* elements.h - compares two stored tensors, and copies tensors by name. */
#pragma once
#include "lockstep/weights.h"

/* Both have the same type, shape and bits; their elements may be stored differently (strides, parts). False
 * when either cannot be loaded. */
bool ls_weight_equal(const ls_weight *a, const ls_weight *b);

/* Fills `to` from the tensors of `from` with the same names and shapes, which may have another float type:
 * converted, rounding to nearest even. LS_E_SHAPE if one is missing. */
ls_status ls_tensors_copy(int64_t n, const ls_named_tensor *to, int64_t n_from, const ls_named_tensor *from);
