/* tensor_ops.h - the kernels of table.c over dimensions, by index and over time, by the files that define
 * them. */
#pragma once
#include "table.h"

/* cumsum.c */
KERNEL(cumsum);
/* index.c */
KERNEL(gather);
KERNEL(scatter_add);
KERNEL_WORKSPACE(scatter_add);
/* batch_matmul.c */
KERNEL(batch_matmul);
KERNEL_WORKSPACE(batch_matmul);
/* groups.c */
KERNEL(top_k);
KERNEL(group_order);
KERNEL(received_groups);
KERNEL(dispatch);
KERNEL(combine);
/* grouped_linear.c */
KERNEL(grouped_linear);
KERNEL_WORKSPACE(grouped_linear);
KERNEL(grouped_linear_dx);
KERNEL_WORKSPACE(grouped_linear_dx);
KERNEL(grouped_linear_dw);
KERNEL_WORKSPACE(grouped_linear_dw);
/* log_softmax.c */
KERNEL(log_softmax);
KERNEL(log_softmax_grad);
/* group_norm.c */
KERNEL(group_norm);
KERNEL(group_norm_grad);
KERNEL_WORKSPACE(group_norm_grad);
/* recurrent.c, recurrent_grad.c */
KERNEL(lstm);
KERNEL_WORKSPACE(lstm);
KERNEL(lstm_grad);
KERNEL_WORKSPACE(lstm_grad);
KERNEL(gru);
KERNEL_WORKSPACE(gru);
KERNEL(gru_grad);
KERNEL_WORKSPACE(gru_grad);
