/* burst.h - the fastest rate at which the processor multiplies and adds f32 numbers at this moment. Matrix
 * products are compared with it. */
#pragma once
#include "device/device.h"

/* FLOP/s with all threads busy: the best of `attempts` bursts, 5 to 20 ms each. Not reentrant. */
double ls_burst(ls_isa isa, int threads, int attempts);
