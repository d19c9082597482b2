/* products.h - the products of products.c, for rows that a library makes (device/cuda/cublaslt.c). */
#pragma once
#include "tiles.h"

/* The product of an op's row, with all that follows it. */
ls_gpu_product ls_gpu_linear(const ls_kernel_args *a);
ls_gpu_product ls_gpu_linear_dx(const ls_kernel_args *a);
ls_gpu_product ls_gpu_linear_dw(const ls_kernel_args *a); /* dw alone */
ls_gpu_product ls_gpu_batch_matmul(const ls_kernel_args *a);
const char *ls_gpu_product_supports(const ls_kernel_args *a);

/* Makes it, by the tile that takes the least time. */
void ls_gpu_product_make(ls_gpu_product *p);
/* db of linear_dw, if it is wanted; `sums` has as many bytes of workspace as the second function says */
void ls_gpu_linear_db(const ls_kernel_args *a, gpu_address sums);
size_t ls_gpu_linear_db_workspace(const ls_kernel_args *a);
