/* finite.h - numbers that are none. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "lockstep/types.h"

/* The number of the first of n elements that is NaN or, unless `infinite` allows it, infinite. -1: there is
 * none, as in all types that are not floats. */
int64_t ls_first_wild(ls_dtype d, const void *data, int64_t n, bool infinite);
