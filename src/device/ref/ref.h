/* ref.h - what the reference kernels share: reading any element of a float or integer tensor as a double, and
 * storing one.
 *
 * The reference device is what other devices are tested against. Each kernel follows the formula of
 * docs/ops.md in double, takes any strides, and rounds once, when an element is stored. It is written to be
 * read, not to be fast. */
#pragma once
#include <math.h>
#include "device/device.h"

/* the element at this distance (in elements) from t->data */
double ls_ref_get(const ls_tensor *t, int64_t offset);
/* rounds to nearest even; integers saturate, and NaN becomes 0 */
void ls_ref_put(const ls_tensor *t, int64_t offset, double x);
double ls_ref_round(double x, ls_dtype t); /* what storing and reading again would give */

/* The distance of element number `index`, in row-major order of the first `dims` dimensions (the others are
 * 0). */
int64_t ls_ref_offset(const ls_tensor *t, int dims, int64_t index);
/* The same if `index` counts in `shape`, to which t is broadcast. */
int64_t ls_ref_broadcast(const ls_tensor *t, const ls_type *shape, int64_t index);

/* One row: the last dimension is the columns, all others are rows. */
typedef struct ls_ref_row {
    const ls_tensor *t;
    int64_t start, step;
} ls_ref_row;

static inline ls_ref_row ref_row(const ls_tensor *t, int64_t row)
{
    const int last = t->type.ndim - 1;
    return (ls_ref_row){ t, last > 0 ? ls_ref_offset(t, last, row) : 0, last >= 0 ? t->strides[last] : 0 };
}
static inline double row_get(ls_ref_row r, int64_t k) { return ls_ref_get(r.t, r.start + k * r.step); }
static inline void row_put(ls_ref_row r, int64_t k, double x) { ls_ref_put(r.t, r.start + k * r.step, x); }

/* Element number i in row-major order. */
static inline double flat_get(const ls_tensor *t, int64_t i)
{
    return ls_ref_get(t, ls_ref_offset(t, t->type.ndim, i));
}
static inline void flat_put(const ls_tensor *t, int64_t i, double x)
{
    ls_ref_put(t, ls_ref_offset(t, t->type.ndim, i), x);
}
static inline double scalar_get(const ls_tensor *t) { return ls_ref_get(t, 0); }

static inline int64_t columns(const ls_type *t) { return t->ndim > 0 ? t->dims[t->ndim - 1] : 1; }
static inline bool given(const ls_kernel_args *a, int j) { return j < a->n_in && a->in[j].type.ndim >= 0; }
static inline bool wanted(const ls_kernel_args *a, int j) { return j < a->n_out && a->out[j].type.ndim >= 0; }

/* Activations and their gradients. relu'(0) = 0, as in PyTorch. */
double ls_ref_act(ls_act act, double x);
double ls_ref_act_grad(ls_act act, double dy, double x); /* dy * act'(x) */

/* Number k of a row of a weight of 4 bits (dequantize.c). */
double ls_ref_nf4_at(const ls_tensor *codes, const ls_tensor *scales, int64_t row, int64_t k);

/* The kernels, by file. */
#define REF_RUN(name) void ls_ref_##name(const ls_kernel_args *a)
#define REF_WORKSPACE(name) size_t ls_ref_##name##_workspace(const ls_kernel_args *a)
/* clang-format off */
#define ELEMENTWISE(opcode, name) REF_RUN(name);
#include "graph/elementwise.list"
#undef ELEMENTWISE
REF_RUN(cast); /* elementwise.c */
REF_RUN(fused); REF_WORKSPACE(fused);
REF_RUN(dequantize_scales); REF_RUN(dequantize); /* dequantize.c */
REF_RUN(fill); REF_RUN(broadcast_to); REF_RUN(permute); REF_RUN(pack);
REF_RUN(sum_to); REF_RUN(max_to); /* shape.c */
REF_RUN(cumsum); REF_RUN(gather); REF_RUN(scatter_add); REF_WORKSPACE(scatter_add); /* index.c */
REF_RUN(random_key); REF_RUN(dropout); /* dropout.c */
REF_RUN(linear); REF_RUN(linear_dx); REF_RUN(linear_dw); /* linear.c */
REF_WORKSPACE(linear); REF_WORKSPACE(linear_dx); REF_WORKSPACE(linear_dw);
REF_RUN(top_k); REF_RUN(group_order); REF_RUN(dispatch); REF_RUN(combine); /* grouped.c */
REF_RUN(received_groups);
REF_RUN(grouped_linear); REF_RUN(grouped_linear_dx); REF_RUN(grouped_linear_dw);
REF_RUN(batch_matmul); /* batch_matmul.c */
REF_RUN(group_norm); REF_RUN(group_norm_grad); REF_WORKSPACE(group_norm_grad); /* group_norm.c */
REF_RUN(lstm); REF_RUN(lstm_grad); REF_WORKSPACE(lstm_grad); /* recurrent.c */
REF_RUN(gru); REF_RUN(gru_grad); REF_WORKSPACE(gru_grad);
REF_RUN(conv2d); REF_RUN(conv2d_dx); REF_RUN(conv2d_dw); /* conv.c */
REF_WORKSPACE(conv2d); REF_WORKSPACE(conv2d_dx); REF_WORKSPACE(conv2d_dw);
REF_RUN(max_pool2d); REF_RUN(max_pool2d_grad); REF_WORKSPACE(max_pool2d_grad); /* pool.c */
REF_RUN(avg_pool2d); REF_RUN(avg_pool2d_grad);
REF_RUN(resize2d); REF_RUN(resize2d_grad); REF_WORKSPACE(resize2d_grad); /* resize.c */
/* batch_norm.c */
REF_RUN(batch_norm); REF_RUN(batch_norm_grad); REF_RUN(batch_norm_eval); REF_RUN(batch_norm_update);
REF_RUN(layer_norm); REF_RUN(layer_norm_grad); REF_WORKSPACE(layer_norm_grad); /* norm.c */
REF_RUN(rms_norm); REF_RUN(rms_norm_grad); REF_WORKSPACE(rms_norm_grad);
/* tokens.c */
REF_RUN(embedding); REF_RUN(embedding_grad); REF_WORKSPACE(embedding_grad); REF_RUN(rope);
    REF_RUN(shift_right);
REF_RUN(position_bias); REF_RUN(position_bias_grad); REF_WORKSPACE(position_bias_grad);
/* attention.c */
REF_RUN(attention); REF_RUN(attention_grad); REF_WORKSPACE(attention); REF_WORKSPACE(attention_grad);
/* cache.c */
REF_RUN(cache_write); REF_RUN(cache_reorder); REF_WORKSPACE(cache_reorder);
REF_RUN(attention_cached); REF_WORKSPACE(attention_cached);
/* loss.c */
REF_RUN(softmax); REF_RUN(softmax_grad); REF_RUN(log_softmax); REF_RUN(log_softmax_grad);
REF_RUN(cross_entropy); REF_RUN(cross_entropy_grad); REF_RUN(argmax);
REF_RUN(row_sum); REF_RUN(row_sum_grad);
REF_RUN(linear_cross_entropy); REF_WORKSPACE(linear_cross_entropy);
REF_RUN(cross_entropy_part); REF_RUN(argmax_part); REF_RUN(argmax_join);
REF_RUN(max_abs); REF_RUN(sum_squares); REF_RUN(norm_from_squares); REF_RUN(is_finite); /* reduce.c */
REF_RUN(count_step); REF_RUN(adam); REF_RUN(sgd); REF_RUN(loss_scale_update); /* update.c */
REF_RUN(group_rate); REF_RUN(lion); REF_RUN(ema); /* optimizers.c */
REF_RUN(muon_momentum); REF_RUN(muon); REF_RUN(adafactor); /* whole_parameters.c */
size_t ls_ref_muon_workspace(const ls_kernel_args *a);
size_t ls_ref_adafactor_workspace(const ls_kernel_args *a);
/* clang-format on */
