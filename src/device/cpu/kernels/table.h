/* table.h - the kernels of table.c, by the files that define them. */
#pragma once
#include "level.h"

#define KERNEL(name) void LS_NAME(ls_##name)(const ls_kernel_args *a)
#define KERNEL_WORKSPACE(name) size_t LS_NAME(ls_##name##_workspace)(const ls_kernel_args *a)
#define KERNEL_SUPPORTS(name) const char *LS_NAME(ls_##name##_supports)(const ls_kernel_args *a)

/* move.c */
KERNEL(fill);
KERNEL(copy);
KERNEL(permute);
KERNEL(pack);
KERNEL(broadcast_to);
/* sum_to.c */
KERNEL(sum_to);
KERNEL(max_to);
/* dequantize.c */
KERNEL(dequantize_scales);
KERNEL(dequantize);
/* elementwise.c */
KERNEL(cast);
KERNEL(fused);
KERNEL_SUPPORTS(fused);
#define ELEMENTWISE(opcode, name) KERNEL(name);
#include "graph/elementwise.list"
#undef ELEMENTWISE
/* dropout.c */
KERNEL(random_key);
KERNEL(dropout);
/* conv.c, conv_dw.c */
KERNEL(conv2d);
KERNEL_WORKSPACE(conv2d);
KERNEL(conv2d_dx);
KERNEL_WORKSPACE(conv2d_dx);
KERNEL(conv2d_dw);
KERNEL_WORKSPACE(conv2d_dw);
/* resize.c */
KERNEL(resize2d);
KERNEL_WORKSPACE(resize2d);
KERNEL(resize2d_grad);
KERNEL_WORKSPACE(resize2d_grad);
/* pool.c */
KERNEL(max_pool2d);
KERNEL_WORKSPACE(max_pool2d);
KERNEL(max_pool2d_grad);
KERNEL_WORKSPACE(max_pool2d_grad);
KERNEL(avg_pool2d);
KERNEL_WORKSPACE(avg_pool2d);
KERNEL(avg_pool2d_grad);
KERNEL_WORKSPACE(avg_pool2d_grad);
/* batch_norm.c */
KERNEL(batch_norm);
KERNEL(batch_norm_grad);
KERNEL(batch_norm_eval);
KERNEL(batch_norm_update);
/* layer_norm.c */
KERNEL(layer_norm);
KERNEL(layer_norm_grad);
KERNEL_WORKSPACE(layer_norm_grad);
/* rms_norm.c */
KERNEL(rms_norm);
KERNEL(rms_norm_grad);
KERNEL_WORKSPACE(rms_norm_grad);
/* embedding.c */
KERNEL(embedding);
KERNEL(embedding_grad);
KERNEL_WORKSPACE(embedding_grad);
KERNEL_SUPPORTS(embedding_grad);
/* rope.c */
KERNEL(rope);
KERNEL_SUPPORTS(rope);
/* positions.c */
KERNEL(shift_right);
KERNEL(position_bias);
KERNEL(position_bias_grad);
KERNEL_WORKSPACE(position_bias_grad);
/* rows.c */
KERNEL(row_sum);
KERNEL(row_sum_grad);
/* softmax.c */
KERNEL(softmax);
KERNEL(softmax_grad);
/* attention.c, attention_grad.c */
KERNEL(attention);
KERNEL_WORKSPACE(attention);
KERNEL(attention_grad);
KERNEL_WORKSPACE(attention_grad);
/* attention_cached.c */
KERNEL(cache_write);
KERNEL(cache_reorder);
KERNEL_WORKSPACE(cache_reorder);
KERNEL(attention_cached);
KERNEL_WORKSPACE(attention_cached);
/* loss.c */
KERNEL(cross_entropy);
KERNEL(cross_entropy_grad);
KERNEL(argmax);
KERNEL(cross_entropy_part);
KERNEL(argmax_part);
KERNEL(argmax_join);
/* totals.c */
KERNEL(max_abs);
KERNEL(sum_squares);
KERNEL_WORKSPACE(sum_squares);
KERNEL(norm_from_squares);
KERNEL(is_finite);
/* update.c */
KERNEL(count_step);
KERNEL(adam);
KERNEL(sgd);
KERNEL(loss_scale_update);
KERNEL_SUPPORTS(update);
