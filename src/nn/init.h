/* init.h - initial values. Each is a pure function of (seed, parameter name, element), so every rank can
 * compute the part that it has. */
#pragma once
#include "lockstep/graph.h"

/* Fills the elements first .. first + n - 1 of a parameter (f32, bf16 or f64). Local. */
void ls_init_values(void *data, ls_dtype dtype, int64_t first, int64_t n, ls_init init, uint64_t seed,
                    const char *name, int threads);
