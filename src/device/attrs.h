/* attrs.h - the constants of each op, shared by its row (src/ops) and its kernels (src/device).
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
/* input, param, state. name: the input's name, or the parameter's full name. */
/* How a parameter is cut: for each axis of the mesh, 1 + the dimension that it cuts into equal blocks; 0: it
 * cuts none. `type` is the type of one block. */
typedef struct ls_cuts { int8_t dim[8]; } ls_cuts;
/* What a source or an output means to the programs of a step (graph/identity.h). NAMED: only its name
 * tells, as a model or a caller declares it. UNIT, WEIGHTS, MOMENT, GRADIENT, GATHERED: the parameters of
 * unit number `unit`, the same in the type of computation, a moment of them, their gradient, and the whole
 * unit where it is a mapping. LOSS, DIVISOR, ROWS, TARGETS: of the loss (in an evaluation also the metric)
 * number `unit`. PREDICTED, PROBABILITY: what follows from the model's logits. REAL: how many samples of the
 * micro-batch are no padding; TRACK: whether it is number 0; PLACES: which samples of the step they are;
 * SEED: of random masks. The others are the numbers of a step, of which there is one each. */
typedef enum ls_what { LS_IS_NAMED, LS_IS_UNIT, LS_IS_WEIGHTS, LS_IS_MOMENT, LS_IS_GRADIENT, LS_IS_GATHERED,
    LS_IS_STEP, LS_IS_RATE, LS_IS_LOSS_SCALE, LS_IS_GOOD_STEPS, LS_IS_GRAD_NORM, LS_IS_APPLIED, LS_IS_LOSS,
    LS_IS_DIVISOR, LS_IS_ROWS, LS_IS_TARGETS, LS_IS_PREDICTED, LS_IS_PROBABILITY, LS_IS_REAL, LS_IS_TRACK,
    LS_IS_PLACES, LS_IS_SEED } ls_what;
/* in the order of their names */
typedef enum ls_moment { LS_EXP_AVG, LS_EXP_AVG_SQ, LS_MOMENTUM_BUFFER, LS_MOMENTS } ls_moment;
typedef struct ls_identity { int64_t what, unit, moment; } ls_identity;
typedef struct ls_source_attrs { const char *name; ls_type type; int64_t init; double init_a, init_b;
    ls_cuts cuts; ls_identity is; } ls_source_attrs;
/* row_sum. each: rows of a sample in dimension 0; ignore_index: integer weight of rows that do not count */
typedef struct ls_row_sum_attrs { int64_t each, ignore_index; } ls_row_sum_attrs;
typedef struct ls_fill_attrs { ls_type type; double value; } ls_fill_attrs;                  /* fill */
typedef struct ls_cast_attrs { int64_t to; } ls_cast_attrs;                                  /* cast */
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
/* resize2d, and its gradient: the output's sizes; mode: ls_resize */
typedef struct ls_resize_attrs { int64_t height, width, mode; } ls_resize_attrs;
/* attention, attention_grad. pad: the id of keys that must not be seen. dropout, purpose: as in dropout */
typedef struct ls_attention_attrs { int64_t head_dim; int64_t causal; double scale; int64_t pad;
    double dropout; uint64_t purpose; } ls_attention_attrs;
/* position_bias and its gradient. both 1: keys after the query have buckets of their own */
typedef struct ls_position_bias_attrs { int64_t queries, keys, buckets, max_distance, both;
    } ls_position_bias_attrs;
/* shift_right: the first id of a row; the id that replaces ids below 0 */
typedef struct ls_shift_attrs { int64_t start, pad; } ls_shift_attrs;
/* embedding_grad: of the table */
typedef struct ls_embedding_attrs { int64_t rows; } ls_embedding_attrs;
/* rope. inverse 1: rotates in the opposite direction, which is the gradient */
typedef struct ls_rope_attrs { int64_t head_dim, inverse; double theta; } ls_rope_attrs;
/* cross_entropy, its gradient and its part. smoothing: share of a target that lies on all classes alike */
typedef struct ls_loss_attrs { int64_t ignore_index; double smoothing; } ls_loss_attrs;
/* decoupled 1: AdamW */
typedef struct ls_adam_attrs { double beta1, beta2, eps, weight_decay; int64_t decoupled; } ls_adam_attrs;
typedef struct ls_sgd_attrs { double momentum, dampening, weight_decay; int64_t nesterov; } ls_sgd_attrs;
/* dynamic loss scaling */
typedef struct ls_scale_update_attrs { double growth, backoff; int64_t interval; } ls_scale_update_attrs;
/* dropout. purpose: hash of the layer's scope path */
typedef struct ls_dropout_attrs { double p; uint64_t purpose; } ls_dropout_attrs;

/* Collectives. group: name of a group of ranks (lockstep/mesh.h); ranks: how many they are; unit: what is
 * communicated, for people. */
/* all_gather: type of the result; type in which its gradient is added; 1: it is a mapping */
typedef struct ls_gather_attrs { const char *group, *unit; int64_t ranks, to, via, map; ls_identity is; }
    ls_gather_attrs;
/* reduce_scatter, all_reduce: type of the result; type to which sums are rounded */
typedef struct ls_reduce_attrs { const char *group, *unit; int64_t ranks, to, via, how; } ls_reduce_attrs;
/* replicate: its gradient is summed over the group */
typedef struct ls_replicate_attrs { const char *group, *unit; int64_t ranks, via; } ls_replicate_attrs;
/* clang-format on */
/* to: the operand's own type, also if a pass changes it */
enum { LS_TO_SAME = 31 };
/* all_reduce. wide: adds 128-bit integers, each two i64. shared: all ranks use the sum as one value, so its
 * gradient is complete on each rank. */
enum { LS_HOW_SUM, LS_HOW_MAX, LS_HOW_WIDE, LS_HOW_SHARED };

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
