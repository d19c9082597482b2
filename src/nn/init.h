/* init.h - initial values: a pure function of (seed, parameter name, element), so any part can be made
 * anywhere. */
#pragma once
#include "lockstep/graph.h"

/* Fills n elements of a parameter (f32, bf16 or f64), starting with element `first` of it. Local. */
void ls_init_values(void *data, ls_dtype dtype, int64_t first, int64_t n, ls_init init, uint64_t seed,
                    const char *name, int threads);
