/* order_fill.h - parts of ls_order_fill, for the threads of a loader. */
#pragma once
#include "lockstep/data.h"

/* Fills rows [first, first + rows) of a micro-batch. `to` is as of ls_order_fill; `at` is room for a pointer
 * to each field. */
ls_status ls_order_fill_rows(const ls_order *o, const ls_dataset *set, int64_t epoch, int64_t step, int64_t m,
                             int64_t first, int64_t rows, void *const *to, void **at);
/* What follows when all rows of the micro-batch are filled: the set's `mix`. */
void ls_order_fill_end(const ls_order *o, const ls_dataset *set, int64_t epoch, int64_t step, int64_t m,
                       void *const *to);
