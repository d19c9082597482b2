/* peak_rate.h - the fastest rate at which the processor multiplies and adds numbers at this moment. */
#pragma once
#include "device/device.h"

/* `peak` of ls_device_ops. A burst takes 2 to 20 ms. */
double ls_cpu_peak_rate(const ls_arch *arch, ls_dtype type, int threads, int attempts);
