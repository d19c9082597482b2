/* rows.h - checks and copies samples of a field or an output in the caller's memory. */
#pragma once
#include "lockstep/types.h"

/* Checks that `x` has the type of samples of `name`: [n, ..], where `own` is the type of `batch` samples.
 * f32 and f64 may stand for each other. *n: the number of samples. `call`: the function's name for the
 * message. */
ls_status ls_rows_check(const char *call, const char *name, const ls_tensor *x, const ls_type *own,
                        int64_t batch, int64_t *n);
/* Copies between contiguous elements of `type` and a tensor with any strides, and converts floats. */
void ls_rows_take(void *to, ls_dtype type, const ls_tensor *from);
void ls_rows_give(const ls_tensor *to, const void *from, ls_dtype type);
