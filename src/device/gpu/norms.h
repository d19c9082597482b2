/* norms.h - rows of norms_channels.c that the table in norms.c has. */
#pragma once
#include "gpu.h"

const char *ls_gpu_channels_supports(const ls_kernel_args *a);
void ls_gpu_batch_norm(const ls_kernel_args *a);
void ls_gpu_batch_norm_grad(const ls_kernel_args *a);
void ls_gpu_batch_norm_eval(const ls_kernel_args *a);
void ls_gpu_batch_norm_update(const ls_kernel_args *a);
void ls_gpu_group_norm(const ls_kernel_args *a);
void ls_gpu_group_norm_grad(const ls_kernel_args *a);
size_t ls_gpu_batch_norm_workspace(const ls_kernel_args *a);
size_t ls_gpu_batch_norm_grad_workspace(const ls_kernel_args *a);
size_t ls_gpu_group_norm_workspace(const ls_kernel_args *a);
size_t ls_gpu_group_norm_grad_workspace(const ls_kernel_args *a);
