/* pictures.h - the functions of conv.c, for the tables in pictures.c and products.c. _tf32: products of f32
 * on tensor cores. */
#pragma once
#include "device/device.h"

const char *ls_gpu_conv_supports(const ls_kernel_args *a);
void ls_gpu_conv2d(const ls_kernel_args *a);
void ls_gpu_conv2d_dx(const ls_kernel_args *a);
void ls_gpu_conv2d_dw(const ls_kernel_args *a);
size_t ls_gpu_conv2d_workspace(const ls_kernel_args *a);
size_t ls_gpu_conv2d_dx_workspace(const ls_kernel_args *a);
size_t ls_gpu_conv2d_dw_workspace(const ls_kernel_args *a);
void ls_gpu_conv2d_tf32(const ls_kernel_args *a);
void ls_gpu_conv2d_dx_tf32(const ls_kernel_args *a);
void ls_gpu_conv2d_dw_tf32(const ls_kernel_args *a);
