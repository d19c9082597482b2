/* elements.h - compares two stored tensors; copies lists of tensors by name, and writes one as a file. */
#pragma once
#include "ckpt/checkpoint.h"

/* Both have the same type, shape and bits; their elements may be stored differently (strides, parts). False
 * when either cannot be loaded. */
bool ls_weight_equal(const ls_weight *a, const ls_weight *b);

/* Fills the ranges of `to` from the tensors of `from` with the same names and shapes, which are there whole
 * and may have another float type: converted, rounding to nearest even. LS_E_SHAPE if one is missing. */
ls_status ls_tensors_copy(const ls_tensor_list *to, const ls_tensor_list *from);
/* save.c: ls_weights_save of a list with whole tensors. */
ls_status ls_tensors_save(const char *path, const ls_tensor_list *l);
