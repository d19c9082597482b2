/* attrs.h - the constants of each op, shared by its row (src/ops) and its kernels (src/device). Those of ops
 * without kernels are in source_attrs.h and collective_attrs.h.
 *
 * Each op with constants has a struct. The op's field table (graph/op.h) lists every field, and serves
 * printing, comparing, copying and hashing; so a struct must be zeroed before it is filled. An attribute
 * never contains a size that splitting a tensor over ranks would change: it has head_dim and not the number
 * of heads. Where a size is needed, -1 means "what is left". */
#pragma once
#include "lockstep/types.h"

typedef struct ls_i64_list {
    int64_t n;
    const int64_t *v;
} ls_i64_list; /* owned by the graph's arena */
typedef struct ls_f64_list {
    int64_t n;
    const double *v;
} ls_f64_list;

/* Activations that a matrix product can apply while its tile is in registers. gelu is the erf form, PyTorch's
 * default. */
typedef enum ls_act { LS_ACT_NONE, LS_ACT_RELU, LS_ACT_GELU, LS_ACT_GELU_TANH } ls_act;

/* clang-format off */
/* row_sum. each: rows of a sample in dimension 0; ignore_index: integer weight of rows that do not count */
typedef struct ls_row_sum_attrs { int64_t each, ignore_index; } ls_row_sum_attrs;
typedef struct ls_fill_attrs { ls_type type; double value; } ls_fill_attrs;                  /* fill */
typedef struct ls_cast_attrs { int64_t to; } ls_cast_attrs;                      /* cast, dequantize */
/* mul_const, add_const, max_const */
typedef struct ls_number_attrs { double value; } ls_number_attrs;
/* reshape: one -1 allowed */
typedef struct ls_reshape_attrs { ls_i64_list dims; } ls_reshape_attrs;
/* permute (a copy) */
typedef struct ls_permute_attrs { ls_i64_list perm; } ls_permute_attrs;
/* slice (a view) along one dim */
typedef struct ls_slice_attrs { int64_t dim, start, count; } ls_slice_attrs;
/* view of a flat buffer at `offset` elements */
typedef struct ls_flat_view_attrs { int64_t offset; ls_i64_list dims; } ls_flat_view_attrs;
/* pack: input i begins at starts[i] along dim, where the result has the size extent; the rest is zero */
typedef struct ls_pack_attrs { int64_t dim, extent; ls_i64_list starts; } ls_pack_attrs;
/* broadcast_to, sum_to: numpy rules; -1 keeps */
typedef struct ls_broadcast_attrs { ls_i64_list dims; } ls_broadcast_attrs;
/* linear, linear_dx */
typedef struct ls_linear_attrs { int64_t act; } ls_linear_attrs;
/* linear_dw: 1 = also the bias gradient */
typedef struct ls_linear_dw_attrs { int64_t bias; } ls_linear_dw_attrs;
/* layer_norm, rms_norm and their gradients */
typedef struct ls_norm_attrs { double eps; } ls_norm_attrs;
/* batch_norm, its gradient, batch_norm_eval; relu or none */
typedef struct ls_batch_norm_attrs { double eps; int64_t act; } ls_batch_norm_attrs;
/* conv2d, conv2d_dx, conv2d_dw. height and width: the sizes that the operands' shapes do not tell: the
 * picture's for conv2d_dx, and the kernel's for conv2d_dw. bias 1: conv2d_dw also computes the bias
 * gradient. */
typedef struct ls_conv_attrs { int64_t stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups,
    height, width, bias; } ls_conv_attrs;
typedef struct ls_batch_norm_update_attrs { double momentum; } ls_batch_norm_update_attrs;
/* max_pool2d and its gradient, which needs the picture's height and width */
typedef struct ls_max_pool_attrs { int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, height,
    width; } ls_max_pool_attrs;
/* avg_pool2d, and its gradient: the output's sizes. kernel 0: windows cover the picture evenly. whole 1:
 * means count padding */
typedef struct ls_avg_pool_attrs { int64_t height, width, kernel_h, kernel_w, stride_h, stride_w, pad_h,
    pad_w, whole; } ls_avg_pool_attrs;
/* resize2d, and its gradient: the output's sizes; mode: LS_BY_NEAREST, ... below */
typedef struct ls_resize_attrs { int64_t height, width, mode; } ls_resize_attrs;
/* attention, attention_grad. pad: the id of keys that must not be seen. dropout, purpose: as in dropout.
 * window: how many keys a causal query sees, itself and those before it; 0: all */
typedef struct ls_attention_attrs { int64_t head_dim; int64_t causal; double scale; int64_t pad;
    double dropout; uint64_t purpose; int64_t window; } ls_attention_attrs;
/* position_bias and its gradient. both 1: keys after the query have buckets of their own */
typedef struct ls_position_bias_attrs { int64_t queries, keys, buckets, max_distance, both;
    } ls_position_bias_attrs;
/* shift_right: the first id of a row; the id that replaces ids below 0 */
typedef struct ls_shift_attrs { int64_t start, pad; } ls_shift_attrs;
/* embedding_grad: of the table */
typedef struct ls_embedding_attrs { int64_t rows; } ls_embedding_attrs;
/* rope. inverse 1: rotates in the opposite direction, which is the gradient. scaling: ls_rope_scaling's
 * numbers: none, factor, or factor, low, high, original (device/position.h) */
typedef struct ls_rope_attrs { int64_t head_dim, inverse; double theta; ls_f64_list scaling;
    } ls_rope_attrs;
/* cross_entropy, its gradient and its part. smoothing: share of a target that lies on all classes alike */
typedef struct ls_loss_attrs { int64_t ignore_index; double smoothing; } ls_loss_attrs;
/* decoupled 1: AdamW */
typedef struct ls_adam_attrs { double beta1, beta2, eps, weight_decay; int64_t decoupled; } ls_adam_attrs;
typedef struct ls_sgd_attrs { double momentum, dampening, weight_decay; int64_t nesterov; } ls_sgd_attrs;
/* dynamic loss scaling */
typedef struct ls_scale_update_attrs { double growth, backoff; int64_t interval; } ls_scale_update_attrs;
/* dropout. purpose: hash of the layer's scope path */
typedef struct ls_dropout_attrs { double p; uint64_t purpose; } ls_dropout_attrs;
/* clang-format on */

/* ls_resize_attrs.mode, the values of ls_resize (lockstep/graph.h) */
enum { LS_BY_NEAREST, LS_BY_CENTRES, LS_BY_CORNERS };

/* fused: an element-wise program. Registers 0 .. n_in-1 are the inputs, broadcast to the output's shape. Each
 * instruction makes another register; the last one is the result. An instruction is four numbers: opcode
 * (ls_ew), register a, register b (or -1), and the type that the result is rounded to, which is the type that
 * the unfused graph would store. numbers[i] is the constant of instruction i. */
/* clang-format off */
typedef struct ls_fused_attrs { ls_i64_list code; ls_f64_list numbers; int64_t to; } ls_fused_attrs;
/* clang-format on */

/* Opcodes of element-wise ops, which have rows of the same names. They compute in f32, or in f64 if an
 * operand is f64. */
typedef enum ls_ew {
#define ELEMENTWISE(opcode, name) LS_EW_##opcode,
#include "elementwise.list"
#undef ELEMENTWISE
    LS_EW_CAST,
    LS_EW_COUNT
} ls_ew;
