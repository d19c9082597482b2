/* table.c - the rows of every kernel of this level, except matrix products (gemm.c). Device ref computes in
 * f64; here only scalars, such as the learning rate, and ops that move bytes take f64. */
#include "kernel.h"
#include "linear_loss.h"
#include "optimizers.h"
#include "table.h"
#include "tensor_ops.h"
#include "whole_parameters.h"

#define ROW(name, ...)                                      \
    {                                                       \
        .op = #name, .run = LS_NAME(ls_##name), __VA_ARGS__ \
    }
#define FLOATS .supports = LS_NAME(ls_no_f64)
#define WORKSPACE(name) .workspace = LS_NAME(ls_##name##_workspace)
#define ALL_INPUTS 0xffffffffu

const ls_kernel LS_NAME(ls_math_kernels)[] = {
    { .op = "fill", .run = LS_NAME(ls_fill) },
    { .op = "pack", .run = LS_NAME(ls_pack) },
    ROW(copy, .any_in = LS_OPERAND(0)),
    ROW(permute, .any_in = LS_OPERAND(0)),
    ROW(broadcast_to, .any_in = LS_OPERAND(0)),
    ROW(sum_to, FLOATS),
    ROW(max_to, FLOATS),
    ROW(cumsum, FLOATS),
    ROW(gather, FLOATS),
    ROW(scatter_add, FLOATS, WORKSPACE(scatter_add)),
#define ELEMENTWISE(opcode, name) ROW(name, FLOATS, .any_in = LS_OPERAND(0) | LS_OPERAND(1)),
#include "graph/elementwise.list"
#undef ELEMENTWISE
    ROW(cast, FLOATS, .any_in = LS_OPERAND(0)),
    ROW(dequantize_scales),
    ROW(dequantize, FLOATS, .rows_in = LS_OPERAND(0) | LS_OPERAND(1), .rows_out = LS_OPERAND(0)),
    ROW(fused, .supports = LS_NAME(ls_fused_supports), .any_in = ALL_INPUTS),
    { .op = "random_key", .run = LS_NAME(ls_random_key) },
    ROW(dropout, FLOATS),
    ROW(batch_matmul, FLOATS, WORKSPACE(batch_matmul)),
    ROW(group_norm, FLOATS),
    ROW(group_norm_grad, FLOATS, WORKSPACE(group_norm_grad)),
    ROW(lstm, FLOATS, WORKSPACE(lstm)),
    ROW(lstm_grad, FLOATS, WORKSPACE(lstm_grad)),
    ROW(gru, FLOATS, WORKSPACE(gru)),
    ROW(gru_grad, FLOATS, WORKSPACE(gru_grad)),
    ROW(conv2d, FLOATS, WORKSPACE(conv2d)),
    ROW(conv2d_dx, FLOATS, WORKSPACE(conv2d_dx)),
    ROW(conv2d_dw, FLOATS, WORKSPACE(conv2d_dw)),
    ROW(resize2d, FLOATS, WORKSPACE(resize2d)),
    ROW(resize2d_grad, FLOATS, WORKSPACE(resize2d_grad)),
    ROW(max_pool2d, FLOATS, WORKSPACE(max_pool2d)),
    ROW(max_pool2d_grad, FLOATS, WORKSPACE(max_pool2d_grad)),
    ROW(avg_pool2d, FLOATS, WORKSPACE(avg_pool2d)),
    ROW(avg_pool2d_grad, FLOATS, WORKSPACE(avg_pool2d_grad)),
    ROW(batch_norm, FLOATS),
    ROW(batch_norm_grad, FLOATS),
    ROW(batch_norm_eval, FLOATS),
    ROW(batch_norm_update, FLOATS),
    ROW(layer_norm, FLOATS, .rows_in = LS_OPERAND(0), .rows_out = LS_OPERAND(0)),
    ROW(layer_norm_grad, FLOATS, WORKSPACE(layer_norm_grad),
        .rows_in = LS_OPERAND(0) | LS_OPERAND(1) | LS_OPERAND(5), .rows_out = LS_OPERAND(0)),
    ROW(rms_norm, FLOATS, .rows_in = LS_OPERAND(0), .rows_out = LS_OPERAND(0)),
    ROW(rms_norm_grad, FLOATS, WORKSPACE(rms_norm_grad),
        .rows_in = LS_OPERAND(0) | LS_OPERAND(1) | LS_OPERAND(4), .rows_out = LS_OPERAND(0)),
    ROW(embedding, FLOATS, .rows_in = LS_OPERAND(1), .rows_out = LS_OPERAND(0)),
    ROW(embedding_grad, .supports = LS_NAME(ls_embedding_grad_supports), WORKSPACE(embedding_grad),
        .rows_in = LS_OPERAND(0)),
    ROW(rope, .supports = LS_NAME(ls_rope_supports), .rows_in = LS_OPERAND(0), .rows_out = LS_OPERAND(0)),
    ROW(shift_right),
    ROW(position_bias, FLOATS),
    ROW(position_bias_grad, FLOATS, WORKSPACE(position_bias_grad)),
    ROW(softmax, FLOATS),
    ROW(softmax_grad, FLOATS),
    ROW(log_softmax, FLOATS),
    ROW(log_softmax_grad, FLOATS),
    ROW(attention, FLOATS, WORKSPACE(attention), .rows_in = LS_OPERAND(0) | LS_OPERAND(1) | LS_OPERAND(2),
        .rows_out = LS_OPERAND(0)),
    ROW(attention_grad, FLOATS, WORKSPACE(attention_grad),
        .rows_in = LS_OPERAND(0) | LS_OPERAND(1) | LS_OPERAND(2) | LS_OPERAND(3) | LS_OPERAND(5),
        .rows_out = LS_OPERAND(0) | LS_OPERAND(1) | LS_OPERAND(2)),
    ROW(cache_write, FLOATS, .rows_in = LS_OPERAND(1)),
    ROW(cache_reorder, FLOATS, WORKSPACE(cache_reorder)),
    ROW(attention_cached, FLOATS, WORKSPACE(attention_cached), .rows_in = LS_OPERAND(0),
        .rows_out = LS_OPERAND(0)),
    ROW(cross_entropy, FLOATS),
    ROW(cross_entropy_grad, FLOATS),
    ROW(linear_cross_entropy, .supports = LS_NAME(ls_linear_cross_entropy_supports),
        WORKSPACE(linear_cross_entropy)),
    ROW(argmax, FLOATS),
    ROW(cross_entropy_part, FLOATS),
    ROW(argmax_part, FLOATS),
    ROW(argmax_join, FLOATS),
    ROW(row_sum, FLOATS),
    ROW(row_sum_grad, FLOATS),
    ROW(max_abs, FLOATS),
    ROW(sum_squares, FLOATS, WORKSPACE(sum_squares)),
    ROW(norm_from_squares, FLOATS),
    ROW(is_finite, FLOATS),
    { .op = "count_step", .run = LS_NAME(ls_count_step) },
    ROW(group_rate),
    ROW(lion, .supports = LS_NAME(ls_lion_supports)),
    ROW(ema, .supports = LS_NAME(ls_ema_supports)),
    ROW(muon_momentum, .supports = LS_NAME(ls_muon_momentum_supports)),
    ROW(muon, .supports = LS_NAME(ls_muon_supports), WORKSPACE(muon)),
    ROW(adafactor, .supports = LS_NAME(ls_adafactor_supports), WORKSPACE(adafactor)),
    ROW(adam, .supports = LS_NAME(ls_update_supports)),
    ROW(sgd, .supports = LS_NAME(ls_update_supports)),
    ROW(loss_scale_update, FLOATS),
    { 0 },
};
