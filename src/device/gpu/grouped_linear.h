/* grouped_linear.h - the functions of grouped_linear.c, for the tables in products.c. _tf32: products of f32
 * on tensor cores. */
#pragma once
#include "device/device.h"

void ls_gpu_grouped_linear(const ls_kernel_args *a);
void ls_gpu_grouped_linear_dx(const ls_kernel_args *a);
void ls_gpu_grouped_linear_dw(const ls_kernel_args *a);
void ls_gpu_grouped_linear_tf32(const ls_kernel_args *a);
void ls_gpu_grouped_linear_dx_tf32(const ls_kernel_args *a);
void ls_gpu_grouped_linear_dw_tf32(const ls_kernel_args *a);
