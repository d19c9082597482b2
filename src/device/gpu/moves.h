/* moves.h - rows of moves.c whose functions are in sums.c. */
#pragma once
#include "gpu.h"

void ls_gpu_sum_to(const ls_kernel_args *a);
void ls_gpu_max_to(const ls_kernel_args *a);
size_t ls_gpu_sum_to_workspace(const ls_kernel_args *a);
void ls_gpu_cumsum(const ls_kernel_args *a);
void ls_gpu_scatter_add(const ls_kernel_args *a);
size_t ls_gpu_scatter_add_workspace(const ls_kernel_args *a);
