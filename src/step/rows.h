/* rows.h - samples of a field or an output that lie in the caller's memory: their shape, and copying them. */
#pragma once
#include "lockstep/types.h"

/* Checks that `x` has the type of samples of `name`, of which `batch` have the type `own`: [n, ..]. f32 and
 * f64 stand for each other. *n: how many they are. `call` is the function's name in the message. */
ls_status ls_rows_check(const char *call, const char *name, const ls_tensor *x, const ls_type *own,
                        int64_t batch, int64_t *n);
/* Copies between contiguous elements of `type` and a tensor with any strides, and converts floats. */
void ls_rows_take(void *to, ls_dtype type, const ls_tensor *from);
void ls_rows_give(const ls_tensor *to, const void *from, ls_dtype type);
