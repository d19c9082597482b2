/* burst.h - the fastest rate at which the processor multiplies and adds numbers at this moment. Matrix
 * products are compared with it. */
#pragma once
#include "device/device.h"

/* FLOP/s of f32 numbers, or of bf16 where the level has instructions for them, with all threads busy: the
 * best of `attempts` bursts, 2 to 20 ms each. Not reentrant. */
double ls_burst(ls_isa isa, ls_dtype type, int threads, int attempts);
