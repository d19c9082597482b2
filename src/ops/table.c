/* table.c - the table of all ops, in the order of docs/ops.md. */
#include <string.h>

#include "linear_loss.h"
#include "rules.h"

/* clang-format off */
const ls_op *const ls_ops[] = {
    &ls_op_input, &ls_op_param, &ls_op_state, &ls_op_buffer, &ls_op_fill,
    &ls_op_copy, &ls_op_reshape, &ls_op_slice, &ls_op_flat_view, &ls_op_permute, &ls_op_pack,
        &ls_op_broadcast_to, &ls_op_sum_to, &ls_op_max_to, &ls_op_cumsum, &ls_op_gather,
        &ls_op_scatter_add,
#define ELEMENTWISE(opcode, name) &ls_op_##name,
#include "graph/elementwise.list"
#undef ELEMENTWISE
    &ls_op_cast, &ls_op_fused, &ls_op_dequantize_scales, &ls_op_dequantize,
    &ls_op_random_key, &ls_op_dropout,
    &ls_op_linear, &ls_op_linear_dx, &ls_op_linear_dw, &ls_op_batch_matmul,
    &ls_op_top_k, &ls_op_group_order, &ls_op_dispatch, &ls_op_combine, &ls_op_grouped_linear,
        &ls_op_grouped_linear_dx, &ls_op_grouped_linear_dw, &ls_op_received_groups,
    &ls_op_group_norm, &ls_op_group_norm_grad,
    &ls_op_lstm, &ls_op_lstm_grad, &ls_op_gru, &ls_op_gru_grad,
    &ls_op_conv2d, &ls_op_conv2d_dx, &ls_op_conv2d_dw,
    &ls_op_max_pool2d, &ls_op_max_pool2d_grad, &ls_op_avg_pool2d, &ls_op_avg_pool2d_grad,
        &ls_op_resize2d, &ls_op_resize2d_grad,
    &ls_op_batch_norm, &ls_op_batch_norm_grad, &ls_op_batch_norm_eval, &ls_op_batch_norm_update,
    &ls_op_layer_norm, &ls_op_layer_norm_grad, &ls_op_rms_norm, &ls_op_rms_norm_grad,
    &ls_op_embedding, &ls_op_embedding_grad, &ls_op_rope, &ls_op_shift_right, &ls_op_position_bias,
        &ls_op_position_bias_grad,
    &ls_op_attention, &ls_op_attention_grad, &ls_op_cache_write, &ls_op_cache_reorder,
        &ls_op_attention_cached,
    &ls_op_softmax, &ls_op_softmax_grad, &ls_op_log_softmax, &ls_op_log_softmax_grad, &ls_op_cross_entropy,
        &ls_op_cross_entropy_grad, &ls_op_cross_entropy_part, &ls_op_linear_cross_entropy,
    &ls_op_argmax, &ls_op_argmax_part, &ls_op_argmax_join, &ls_op_row_sum, &ls_op_row_sum_grad,
    &ls_op_max_abs, &ls_op_sum_squares, &ls_op_norm_from_squares, &ls_op_is_finite,
    &ls_op_all_gather, &ls_op_reduce_scatter, &ls_op_all_reduce, &ls_op_replicate, &ls_op_fork,
        &ls_op_to_device, &ls_op_to_host,
    &ls_op_send, &ls_op_receive, &ls_op_all_to_all,
    &ls_op_count_step, &ls_op_adam, &ls_op_sgd, &ls_op_loss_scale_update,
    &ls_op_group_rate, &ls_op_lion, &ls_op_ema, &ls_op_muon_momentum, &ls_op_muon, &ls_op_adafactor,
    NULL,
};
/* clang-format on */

const ls_op *ls_op_find(const char *name)
{
    for (const ls_op *const *op = ls_ops; *op; op++)
        if (!strcmp((*op)->name, name))
            return *op;
    return NULL;
}
