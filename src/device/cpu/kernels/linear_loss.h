/* linear_loss.h - linear and cross_entropy in one kernel (linear_loss.c), and what it takes from others. */
#pragma once
#include "graph/loss_attrs.h"
#include "table.h"

KERNEL(linear_cross_entropy);
KERNEL_WORKSPACE(linear_cross_entropy);
KERNEL_SUPPORTS(linear_cross_entropy);

/* *loss = the sum of n rows / count, in f64 in a fixed order (loss.c) */
void LS_NAME(ls_loss_total)(float *loss, const float *rows, int64_t n, float count);
/* linear_dw with dw in f32, whose columns are a multiple of VF_LANES. add: dw is added to what is there. So
 * the products of LS_LOSS_BLOCK rows after LS_LOSS_BLOCK rows have the bits of one product of all rows
 * (gemm.c). */
void LS_NAME(ls_gemm_add_dw)(const ls_kernel_args *a, bool add);
