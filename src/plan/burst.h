/* burst.h - the fastest that the processor can multiply and add f32 numbers right now: what a matrix product
 * is measured against. */
#pragma once
#include "device/device.h"

/* FLOP/s with all threads busy, the best of `attempts` bursts of 5 to 20 ms. Not reentrant. */
double ls_burst(ls_isa isa, int threads, int attempts);
