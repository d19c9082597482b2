/* order.h - the keys of the random changes of samples. */
#pragma once
#include "lockstep/data.h"

/* The `draw` of sample i in an epoch, and of micro-batch m of a step: what ls_order_fill gives the data set.
 */
uint64_t ls_order_draw(const ls_order *o, int64_t epoch, int64_t i);
uint64_t ls_order_mix(const ls_order *o, int64_t epoch, int64_t step, int64_t m);
