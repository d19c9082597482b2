/* totals.h - rows of totals_sums.c that the table in totals.c has, and what else it uses of it. */
#pragma once
#include "gpu.h"

/* *sum = the sum of all rows / *divisor, which may be absent. */
void ls_gpu_sum_rows(const ls_kernel_args *a, const ls_tensor *rows, const ls_tensor *divisor,
                     const ls_tensor *sum);
size_t ls_gpu_sum_rows_workspace(int64_t n);

void ls_gpu_row_sum(const ls_kernel_args *a);
void ls_gpu_row_sum_grad(const ls_kernel_args *a);
void ls_gpu_max_abs(const ls_kernel_args *a);
void ls_gpu_sum_squares(const ls_kernel_args *a);
void ls_gpu_norm_from_squares(const ls_kernel_args *a);
void ls_gpu_is_finite(const ls_kernel_args *a);
size_t ls_gpu_row_sum_workspace(const ls_kernel_args *a);
size_t ls_gpu_max_abs_workspace(const ls_kernel_args *a);
size_t ls_gpu_sum_squares_workspace(const ls_kernel_args *a);
