/* dropout.h - rows of elements.c whose functions are in dropout.c. */
#pragma once
#include "gpu.h"

void ls_gpu_random_key(const ls_kernel_args *a);
void ls_gpu_dropout(const ls_kernel_args *a);
