/* rules.h - shared by the files of this folder: helpers for shape rules, and builders of ops that only
 * gradients use. */
#pragma once
#ifndef LS_NO_CALL_SITES
#define LS_NO_CALL_SITES /* gradients and layers keep the call site of the model's line */
#endif
#include <stddef.h>
#include "graph/op.h"
#include "rule.h"

extern const ls_op *const ls_ops[]; /* ended by NULL */
const ls_op *ls_op_find(const char *name);

#define LS_RULE_CHECK(i, e, ...)                    \
    do {                                            \
        if (!(e))                                   \
            return ls_infer_fail((i), __VA_ARGS__); \
    } while (0)

ls_status ls_infer_same(ls_infer *i); /* output 0 has the type of input 0 */
/* Output 0 is the NumPy broadcast of all present inputs, which must have one float type. */
ls_status ls_infer_broadcast(ls_infer *i);
/* Fails unless input j has exactly this type. */
ls_status ls_infer_expect(const ls_infer *i, int j, const ls_type *t, const char *what);
/* Fails unless the operand whose box is i->at has the sizes of type t. */
ls_status ls_infer_at(const ls_infer *i, const ls_type *t);
/* Of ops that reduce the dimensions that broadcasting would expand (ls_broadcast_attrs): shape, loops,
 * fields, `local`. */
ls_status ls_infer_sum_to(ls_infer *i);
ls_status ls_dims_sum_to(ls_rule *r, const ls_infer *i);
void ls_local_broadcast(ls_arena *a, void *attrs, const ls_type *out);
extern const ls_attr_field ls_broadcast_fields[];
ls_dtype ls_stat_dtype(ls_dtype data);   /* type of statistics: f64 for f64, else f32 */
ls_cost ls_cost_move(const ls_infer *i); /* no arithmetic: each operand and the result is moved once */
extern const ls_attr_field ls_cast_fields[];
/* *whole: the type `to` [N, K] of a weight of 4 bits, whose codes [N, K/2] and scales [N, K/64] are these
 * operands. Fails if they do not fit. */
ls_status ls_infer_nf4(ls_type *whole, const ls_infer *i, int codes, int scales, ls_dtype to);
/* For `local` of a row: sets `dims` to those of `out`. The list is in the arena's memory. */
void ls_local_dims(ls_arena *a, ls_i64_list *dims, const ls_type *out);
ls_type ls_type_drop_last(const ls_type *t, ls_dtype dtype);

/* Sums v to the shape of `like`; returns v itself if it has that shape. */
ls_value ls_sum_like(ls_graph *g, ls_value v, ls_value like);
ls_value ls_reshape_like(ls_graph *g, ls_value v, ls_value like);
ls_value ls_pack(ls_graph *g, int n, const ls_value *parts, int dim, int64_t extent, const int64_t *starts);
ls_value ls_flat_view(ls_graph *g, ls_value flat, int64_t offset, const ls_type *shape);
/* cross_entropy with all its results: the sum over valid rows / count, log-sum-exp, the loss of each row. */
ls_value ls_cross_entropy_sum(ls_graph *g, ls_value logits, ls_value labels, ls_value count,
                              const ls_loss_attrs *attrs);
/* weights, real and divisor may be absent. */
ls_value ls_row_sum(ls_graph *g, ls_value rows, ls_value weights, ls_value real, ls_value divisor,
                    int64_t each);
/* The gradient of a norm of x, gain and bias, whose outputs 1 and 2 are the mean and its reciprocal
 * deviation. `grad` makes the three gradients. */
void ls_grad_norm(ls_grad *c, const ls_op *grad);
/* A frozen weight f32 [N, K] of 4 bits a number: codes u8 [N, K/2], their scales as bytes [N, K/64], an f32
 * for 256 of these, and the scales' offset [1] (base/nf4.h). */
ls_value ls_dequantize(ls_graph *g, ls_value codes, ls_value bytes, ls_value nested, ls_value offset);
/* The k largest of the last dimension, and as output 1 their numbers (of equals the first). */
ls_value ls_top_k(ls_graph *g, ls_value a, int64_t k);
/* index i32 [tokens, k]: the groups of each token's k rows. The order of all rows, by group and then by row,
 * i32 [tokens * k]; outputs 1 and 2: the place of each row in it, and where each group begins, [groups + 1].
 */
ls_value ls_group_order(ls_graph *g, ls_value index, int64_t groups);
/* From rows of tokens [tokens, ..] to those in the order, and back to their sums. */
ls_value ls_dispatch(ls_graph *g, ls_value x, ls_value order, ls_value place);
ls_value ls_combine(ls_graph *g, ls_value x, ls_value order, ls_value place, int64_t tokens);
ls_value ls_linear_dx(ls_graph *g, ls_value dy, ls_value w);
ls_value ls_linear_dw(ls_graph *g, ls_value dy, ls_value x, bool bias);

/* Collectives of a group (comm/comm.h defines them). Operands are flat buffers, and so are results of
 * all_gather. */
ls_value ls_all_gather(ls_graph *g, ls_value slice, const ls_gather_attrs *a);
ls_value ls_reduce_scatter(ls_graph *g, ls_value flat, const ls_reduce_attrs *a);
ls_value ls_all_reduce(ls_graph *g, ls_value v, const ls_reduce_attrs *a);
ls_value ls_replicate(ls_graph *g, ls_value v, const ls_replicate_attrs *a);
/* v, for readers whose gradients are summed before those of others, in type `to`. */
ls_value ls_fork(ls_graph *g, ls_value v, int64_t to);
/* n forks of v in out[0], out[stride], ..: their gradients are added in a balanced tree. (Autodiff alone adds
 * one after the other.) */
void ls_fork_tree(ls_graph *g, ls_value v, int64_t to, int n, ls_value *out, int stride);

/* The gradients of all_gather and replicate, given their results' gradient dy. to: the type of the slice that
 * was gathered. */
ls_value ls_gather_gradient(ls_graph *g, ls_value dy, const ls_gather_attrs *a, ls_dtype to);
ls_value ls_replicate_gradient(ls_graph *g, ls_value dy, const ls_replicate_attrs *a);

/* chain.c: a unit's slice becomes its whole buffer. The slice may rest in host memory (offload). `shards`
 * ranks have a slice each, and `replicas` ranks have the same slice. */
enum { LS_UNIT_LINKS = 3 };
typedef struct ls_chain_link {
    const ls_op *op;
    union {
        ls_replicate_attrs replicate;
        ls_gather_attrs gather;
    };
} ls_chain_link;
typedef struct ls_unit_use {
    const char *unit, *shard, *replicate; /* the unit's name, and the names of two groups */
    int number;                           /* the unit's number */
    int shards, replicas;
    bool offload, map; /* map: the gather maps the ranks' slices instead of copying them */
    int64_t to, via;   /* type of what is gathered, and type in which its gradients are added */
} ls_unit_use;
int ls_unit_chain(ls_chain_link out[LS_UNIT_LINKS], const ls_unit_use *u); /* returns how many links */
ls_value ls_chain_use(ls_graph *g, ls_value slice, int n, const ls_chain_link *links);
ls_value ls_chain_gradient(ls_graph *g, ls_value dy, int n, const ls_chain_link *links, ls_dtype to);

/* The rows of the table, by the file that defines them. */
extern const ls_op ls_op_input, ls_op_param, ls_op_state, ls_op_buffer, ls_op_fill;
extern const ls_op ls_op_copy, ls_op_reshape, ls_op_slice, ls_op_flat_view, ls_op_permute, ls_op_pack,
    ls_op_broadcast_to, ls_op_sum_to, ls_op_max_to, ls_op_cumsum, ls_op_gather, ls_op_scatter_add;
#define ELEMENTWISE(opcode, name) extern const ls_op ls_op_##name;
#include "graph/elementwise.list"
#undef ELEMENTWISE
extern const ls_op ls_op_cast, ls_op_fused, ls_op_dequantize, ls_op_dequantize_scales;
extern const ls_op ls_op_random_key, ls_op_dropout;
extern const ls_op ls_op_linear, ls_op_linear_dx, ls_op_linear_dw, ls_op_batch_matmul;
extern const ls_op ls_op_top_k, ls_op_group_order, ls_op_dispatch, ls_op_combine, ls_op_grouped_linear,
    ls_op_grouped_linear_dx, ls_op_grouped_linear_dw, ls_op_received_groups;
extern const ls_op ls_op_group_norm, ls_op_group_norm_grad;
extern const ls_op ls_op_lstm, ls_op_lstm_grad, ls_op_gru, ls_op_gru_grad;
extern const ls_op ls_op_conv2d, ls_op_conv2d_dx, ls_op_conv2d_dw;
extern const ls_op ls_op_batch_norm, ls_op_batch_norm_grad, ls_op_batch_norm_eval, ls_op_batch_norm_update;
extern const ls_op ls_op_max_pool2d, ls_op_max_pool2d_grad, ls_op_avg_pool2d, ls_op_avg_pool2d_grad,
    ls_op_resize2d, ls_op_resize2d_grad;
extern const ls_op ls_op_layer_norm, ls_op_layer_norm_grad, ls_op_rms_norm, ls_op_rms_norm_grad;
extern const ls_op ls_op_embedding, ls_op_embedding_grad, ls_op_rope, ls_op_shift_right, ls_op_position_bias,
    ls_op_position_bias_grad;
extern const ls_op ls_op_attention, ls_op_attention_grad, ls_op_cache_write, ls_op_cache_reorder,
    ls_op_attention_cached;
extern const ls_op ls_op_softmax, ls_op_softmax_grad, ls_op_log_softmax, ls_op_log_softmax_grad,
    ls_op_cross_entropy, ls_op_cross_entropy_grad, ls_op_argmax, ls_op_row_sum, ls_op_row_sum_grad;
extern const ls_op ls_op_cross_entropy_part, ls_op_argmax_part, ls_op_argmax_join;
extern const ls_op ls_op_max_abs, ls_op_sum_squares, ls_op_norm_from_squares, ls_op_is_finite;
extern const ls_op ls_op_count_step, ls_op_adam, ls_op_sgd, ls_op_loss_scale_update;
extern const ls_op ls_op_group_rate, ls_op_lion, ls_op_ema, ls_op_muon_momentum, ls_op_muon, ls_op_adafactor;
extern const ls_op ls_op_send, ls_op_receive, ls_op_all_to_all;
extern const ls_op ls_op_all_gather, ls_op_reduce_scatter, ls_op_all_reduce, ls_op_replicate, ls_op_fork,
    ls_op_to_device, ls_op_to_host;
