/* order.h - the keys of the random changes of samples. */
#pragma once
#include "lockstep/data.h"

/* The `draw` of sample i, in that row of micro-batch m of a step, and of the micro-batch: what ls_order_fill
 * gives the data set. A sample that an epoch draws twice changes in two ways. */
uint64_t ls_order_draw(const ls_order *o, int64_t epoch, int64_t i, int64_t step, int64_t m, int64_t row);
uint64_t ls_order_mix(const ls_order *o, int64_t epoch, int64_t step, int64_t m);
