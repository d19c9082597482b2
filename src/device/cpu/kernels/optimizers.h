/* optimizers.h - the kernels of optimizers.c, for the table of kernels. */
#pragma once
#include "table.h"

KERNEL(group_rate);
KERNEL(lion);
KERNEL(ema);
KERNEL_SUPPORTS(lion);
KERNEL_SUPPORTS(ema);
