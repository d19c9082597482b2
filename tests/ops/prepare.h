/* prepare.h - fills the operands of a case that an earlier op computes (FILL_RESULT), with ref. The comments
 * list the operands in order. */
#pragma once
#include "cases.h"

/* layer_norm_grad: dy, x, gain, mean, rstd, addend? */
void prepare_norm(const op_case *c, ls_tensor *in);
/* rms_norm_grad: dy, x, gain, rstd, addend? */
void prepare_rms_norm(const op_case *c, ls_tensor *in);
void prepare_padding(const op_case *c, ls_tensor *in);
/* attention_grad: dy, q, k, v, bias?, y, lse, ids?, key?, positions? */
void prepare_attention(const op_case *c, ls_tensor *in);
/* softmax_grad, log_softmax_grad: dy, y */
void prepare_softmax(const op_case *c, ls_tensor *in);
void prepare_log_softmax(const op_case *c, ls_tensor *in);
/* group_norm_grad: dy, x, gain, mean, rstd */
void prepare_group_norm(const op_case *c, ls_tensor *in);
/* lstm_grad: dy?, dcells?, w, cells, gates, c0? (of a random layer); gru_grad: dy, w, y, gates, h0? */
void prepare_lstm(const op_case *c, ls_tensor *in);
void prepare_gru(const op_case *c, ls_tensor *in);
/* dispatch, combine: x, order, place; of some groups */
void prepare_order(const op_case *c, ls_tensor *in);
/* grouped_linear, its gradients: the offsets of groups of more and more rows, the first of none */
void prepare_offsets(const op_case *c, ls_tensor *in);
/* received_groups: where the rows of some ranks begin, of more and more for each group */
void prepare_begins(const op_case *c, ls_tensor *in);
/* cross_entropy_grad: logits, labels, lse, count, dloss */
void prepare_cross_entropy(const op_case *c, ls_tensor *in);
/* sum_squares: max, tensors; norm_from_squares: max, total, with a third operand beyond n_in that is summed
 */
void prepare_squares(const op_case *c, ls_tensor *in);
void prepare_norm_from_squares(const op_case *c, ls_tensor *in);
/* max_pool2d_grad: dy, where; the positions of the largest of a random picture */
void prepare_max_pool(const op_case *c, ls_tensor *in);
/* batch_norm_grad: dy, x, gain, mean, rstd */
void prepare_batch_norm(const op_case *c, ls_tensor *in);
