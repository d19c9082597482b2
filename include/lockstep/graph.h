/* graph.h - building a model as a graph of typed, static-shaped values.
 *
 * A builder call returns a value; nothing is computed. Errors are sticky: a call with an invalid operand
 * returns an invalid value, and the first error surfaces, with the file and line of the call that made it,
 * from ls_graph_finish (or ls_graph_status). Every call is local. Shapes are written [batch, tokens, hidden].
 */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LS_IGNORE_LABEL (-100) /* an integer that is not a target: no loss, no metric, not counted */

/* One thread at a time uses a graph; different graphs are independent. */
typedef struct ls_graph ls_graph;
/* id 0: absent, negative: the result of a failed call. graph: a number of the graph that made it, so that
 * another graph refuses it; 0: not known. */
typedef struct ls_value {
    int32_t id;
    uint32_t graph;
} ls_value;
#ifdef __cplusplus
#define LS_NONE (ls_value{ 0, 0 })
#else
#define LS_NONE ((ls_value){ 0 })
#endif

LS_API ls_status ls_graph_create(ls_graph **out, const char *name);
LS_API void ls_graph_destroy(ls_graph **g); /* nulls *g; null is fine */
LS_API ls_status ls_graph_status(const ls_graph *g);
/* Checks the finished graph; LS_OK or the first error with its call site. */
LS_API ls_status ls_graph_finish(ls_graph *g);
/* The whole graph as text, one op a line; malloc'ed, NULL: out of memory. `with_sites` adds file:line. */
LS_API char *ls_graph_print(const ls_graph *g, bool with_sites);

/* Layers called from here on are those of evaluation: batch norm uses its running statistics and changes
 * nothing. */
LS_API void ls_graph_evaluate(ls_graph *g);
LS_API bool ls_graph_is_evaluation(const ls_graph *g);

/* How the model's layers split over an axis of tensor parallelism, unless parallel.tensor says otherwise:
 * words "colwise:MODULE" and "rowwise:MODULE", which may name modules that this configuration lacks; one that
 * ends in `?` is for where the ranks divide it. A model without a plan is split by the words of
 * parallel.tensor alone. */
LS_API void ls_tensor_plan(ls_graph *g, const char *words);

LS_API ls_type ls_value_type(const ls_graph *g, ls_value v);
LS_API ls_value ls_nth(ls_graph *g, ls_value v, int n); /* output n of the op that made v */

/* Scopes give parameters their dotted names and blocks their class. */
/* block NULL or "": just a prefix */
LS_API void ls_scope_push(ls_graph *g, const char *name, const char *block);
LS_API void ls_scope_pop(ls_graph *g);

/* What is built in between computes in f32 at least, whatever type the model computes in: 16-bit operands
 * become f32 first. For losses, metrics and other numbers that must not be rounded. */
LS_API void ls_wide_begin(ls_graph *g);
LS_API void ls_wide_end(ls_graph *g);

/* Remembers the call site; the macros below wrap their first argument in it. Bindings call the functions
 * directly. Code that is generated from another language may define LS_FILE to name the source there. */
#ifndef LS_FILE
#define LS_FILE __FILE__
#endif
LS_API ls_graph *ls_at(ls_graph *g, const char *file, int line);

/* Sources. Names must be unique in the graph. */
typedef enum ls_init_kind {
    LS_INIT_ZERO,
    LS_INIT_ONE,
    LS_INIT_CONST,
    LS_INIT_NORMAL,
    LS_INIT_UNIFORM,
    LS_INIT_TRUNC_NORMAL
} ls_init_kind;
/* CONST: a; NORMAL: mean a, deviation b; UNIFORM: [a, b); TRUNC_NORMAL: mean 0, deviation a, cut at +-b
 * (absolute) */
typedef struct ls_init {
    ls_init_kind kind;
    double a, b;
} ls_init;
LS_API ls_value ls_input(ls_graph *g, const char *name, ls_type type);
/* full name: scope path + "." + name */
LS_API ls_value ls_param(ls_graph *g, const char *name, ls_type type, ls_init init);
/* lives between steps, not differentiated */
LS_API ls_value ls_state(ls_graph *g, const char *name, ls_type type, ls_init init);
/* State of the model that is not trained but belongs to its weights (running statistics): named as a
 * parameter is. */
LS_API ls_value ls_buffer(ls_graph *g, const char *name, ls_type type, ls_init init);
LS_API ls_value ls_fill(ls_graph *g, ls_type type, double value);
LS_API void ls_output(ls_graph *g, const char *name, ls_value v);

/* Element-wise; shapes broadcast as in NumPy; both operands have the same float type. */
LS_API ls_value ls_add(ls_graph *g, ls_value a, ls_value b);
LS_API ls_value ls_sub(ls_graph *g, ls_value a, ls_value b);
LS_API ls_value ls_mul(ls_graph *g, ls_value a, ls_value b);
LS_API ls_value ls_div(ls_graph *g, ls_value a, ls_value b);
LS_API ls_value ls_max(ls_graph *g, ls_value a, ls_value b);
LS_API ls_value ls_min(ls_graph *g, ls_value a, ls_value b);
LS_API ls_value ls_pow(ls_graph *g, ls_value a, ls_value b);
/* 1 where a > b, a >= b, a = b, else 0, of floats (ls_cast makes them of integers); no gradient flows through
 * them */
LS_API ls_value ls_gt(ls_graph *g, ls_value a, ls_value b);
LS_API ls_value ls_ge(ls_graph *g, ls_value a, ls_value b);
LS_API ls_value ls_eq(ls_graph *g, ls_value a, ls_value b);
/* a where the condition is not 0, else b */
LS_API ls_value ls_where(ls_graph *g, ls_value condition, ls_value a, ls_value b);
LS_API ls_value ls_neg(ls_graph *g, ls_value a);
LS_API ls_value ls_sqrt(ls_graph *g, ls_value a);
LS_API ls_value ls_exp(ls_graph *g, ls_value a);
LS_API ls_value ls_log_e(ls_graph *g, ls_value a); /* natural logarithm */
LS_API ls_value ls_tanh(ls_graph *g, ls_value a);
LS_API ls_value ls_square(ls_graph *g, ls_value a);
LS_API ls_value ls_abs(ls_graph *g, ls_value a);
LS_API ls_value ls_sign(ls_graph *g, ls_value a); /* 1, 0, -1 */
LS_API ls_value ls_sin(ls_graph *g, ls_value a);
LS_API ls_value ls_cos(ls_graph *g, ls_value a);
LS_API ls_value ls_sigmoid(ls_graph *g, ls_value a);
LS_API ls_value ls_softplus(ls_graph *g, ls_value a); /* log(1 + e^x) */
LS_API ls_value ls_hardswish(ls_graph *g, ls_value a);
LS_API ls_value ls_leaky_relu(ls_graph *g, ls_value a, double slope); /* PyTorch's slope: 0.01 */
LS_API ls_value ls_elu(ls_graph *g, ls_value a, double alpha);        /* PyTorch's alpha: 1 */
LS_API ls_value ls_relu(ls_graph *g, ls_value a);
LS_API ls_value ls_gelu(ls_graph *g, ls_value a); /* x * Phi(x), erf form */
LS_API ls_value ls_gelu_tanh(ls_graph *g, ls_value a);
LS_API ls_value ls_silu(ls_graph *g, ls_value a);                   /* x * sigmoid(x) */
LS_API ls_value ls_swiglu(ls_graph *g, ls_value gate, ls_value up); /* silu(gate) * up */
LS_API ls_value ls_add_const(ls_graph *g, ls_value a, double c);
LS_API ls_value ls_mul_const(ls_graph *g, ls_value a, double c);
LS_API ls_value ls_div_const(ls_graph *g, ls_value a, double c);
LS_API ls_value ls_pow_const(ls_graph *g, ls_value a, double c);
LS_API ls_value ls_clamp(ls_graph *g, ls_value a, double low, double high); /* low .. high */
LS_API ls_value ls_cast(ls_graph *g, ls_value a, ls_dtype to);              /* integers to floats too */

/* Shape. */
LS_API ls_value ls_reshape_dims(ls_graph *g, ls_value a, int ndim, const int64_t *dims); /* one -1 allowed */
#define ls_reshape(g, a, ...) ls_reshape_dims(ls_at(g, LS_FILE, __LINE__), a, LS_LIST(__VA_ARGS__))
LS_API ls_value ls_permute_dims(ls_graph *g, ls_value a, int ndim,
                                const int64_t *perm); /* out dim i is in dim perm[i] */
#define ls_permute(g, a, ...) ls_permute_dims(ls_at(g, LS_FILE, __LINE__), a, LS_LIST(__VA_ARGS__))
LS_API ls_value ls_slice(ls_graph *g, ls_value a, int dim, int64_t start, int64_t count);
LS_API ls_value ls_concat(ls_graph *g, int dim, int n, const ls_value *parts);
LS_API ls_value ls_broadcast_dims(ls_graph *g, ls_value a, int ndim, const int64_t *dims);
#define ls_broadcast(g, a, ...) ls_broadcast_dims(ls_at(g, LS_FILE, __LINE__), a, LS_LIST(__VA_ARGS__))
LS_API ls_value ls_sum_to(ls_graph *g, ls_value a, int ndim,
                          const int64_t *dims); /* the transpose of broadcast */

/* Products. x [..., K], w [N, K], b [N] or LS_NONE -> [..., N]; PyTorch's F.linear. (ls_linear of nn.h makes
 * the parameters too.) */
LS_API ls_value ls_matmul_wt(ls_graph *g, ls_value x, ls_value w, ls_value b);
/* a [.., M, K] times b [.., K, N] -> [.., M, N], for each of the leading dimensions, which broadcast:
 * torch.matmul. transpose_a: a is [.., K, M]; transpose_b: b is [.., N, K]. Both have two dimensions or
 * more. */
LS_API ls_value ls_matmul(ls_graph *g, ls_value a, ls_value b, bool transpose_a, bool transpose_b);
/* x [rows.., dim] normalised over its last dim, y = (x - mean) * rstd * gain + bias; outputs 1, 2 are mean
 * and rstd [rows]. */
LS_API ls_value ls_layer_norm_op(ls_graph *g, ls_value x, ls_value gain, ls_value bias, double eps);
/* x [rows.., dim] -> x * rstd * gain with rstd = 1 / sqrt(mean of x^2 over the last dim + eps); output 1 is
 * rstd [rows]. */
LS_API ls_value ls_rms_norm_op(ls_graph *g, ls_value x, ls_value gain, double eps);
/* ids i32 [..], table [rows, K] -> [.., K]: row ids[i] for each i; NaN where the table has no such row. */
LS_API ls_value ls_embedding_op(ls_graph *g, ls_value ids, ls_value table);
/* Rotary positions, Hugging Face's layout. x [batch, tokens, heads * head_dim]: features i and i + head_dim/2
 * of each head are turned by the angle position * theta^(-2i/head_dim). positions i32 [batch, tokens], or
 * LS_NONE: 0, 1, .. in each sequence. */
LS_API ls_value ls_rope(ls_graph *g, ls_value x, ls_value positions, int64_t head_dim, double theta);
/* The same with slower turns, for texts that are longer than those the model was first trained with. original
 * 0: all angles are divided by `factor` ("linear"). Else ("llama3") the angles of pairs that make fewer than
 * `low` whole turns in `original` tokens are divided by it, those of pairs that make more than `high` stay,
 * and between them lies a mixture. */
typedef struct ls_rope_scaling {
    double factor; /* 0: no scaling */
    double low, high;
    int64_t original;
} ls_rope_scaling;
LS_API ls_value ls_rope_scaled(ls_graph *g, ls_value x, ls_value positions, int64_t head_dim, double theta,
                               const ls_rope_scaling *scaling);
/* Convolutions of pictures, NCHW. x [N, C, H, W], w [O, C/groups, KH, KW], b [O] or LS_NONE -> [N, O, OH,
 * OW]; PyTorch's F.conv2d. Pairs of options are height and width. */
typedef struct ls_conv_opts {
    int64_t stride[2], padding[2], dilation[2], groups;
    int64_t output_padding[2]; /* of transposed convolutions; less than the stride */
    struct {
        int64_t stride, padding, dilation, output_padding;
    } depth; /* of convolutions in three dimensions */
} ls_conv_opts;
#define LS_CONV_DEFAULTS                                                                                    \
    .stride = { 1, 1 }, .padding = { 0, 0 }, .dilation = { 1, 1 }, .groups = 1, .output_padding = { 0, 0 }, \
    .depth = { 1, 0, 1, 0 }
LS_API ls_conv_opts ls_conv_opts_default(void);
LS_API ls_value ls_conv2d_op(ls_graph *g, ls_value x, ls_value w, ls_value b, const ls_conv_opts *o);
/* PyTorch's F.conv_transpose2d, the gradient of a convolution: x [N, C, H, W], w [C, O/groups, KH, KW], b [O]
 * or LS_NONE -> [N, O, OH, OW], OH = (H - 1) * stride - 2 * padding + dilation * (KH - 1) + output_padding +
 * 1. */
LS_API ls_value ls_conv_transpose2d_op(ls_graph *g, ls_value x, ls_value w, ls_value b,
                                       const ls_conv_opts *o);
/* The same in one dimension, x [N, C, L] and w [O, C/groups, K] or (transposed) [C, O/groups, K]: F.conv1d,
 * F.conv_transpose1d. Of each pair of options the first number counts. */
LS_API ls_value ls_conv1d_op(ls_graph *g, ls_value x, ls_value w, ls_value b, const ls_conv_opts *o);
LS_API ls_value ls_conv_transpose1d_op(ls_graph *g, ls_value x, ls_value w, ls_value b,
                                       const ls_conv_opts *o);
/* PyTorch's F.conv3d: x [N, C, D, H, W], w [O, C/groups, KD, KH, KW], KD at most 64 -> [N, O, OD, OH, OW].
 * Computed as one 2-D convolution of KD * C channels, so x is held KD times. */
LS_API ls_value ls_conv3d_op(ls_graph *g, ls_value x, ls_value w, ls_value b, const ls_conv_opts *o);
/* PyTorch's F.conv_transpose3d: x [N, C, D, H, W], w [C, O/groups, KD, KH, KW], b [O] or LS_NONE -> [N, O,
 * OD, OH, OW]. Computed as one transposed 2-D convolution to KD * O channels, which are then added up. */
LS_API ls_value ls_conv_transpose3d_op(ls_graph *g, ls_value x, ls_value w, ls_value b,
                                       const ls_conv_opts *o);
/* Largest element of each window (the first one if several are), padding never counts; output 1 is where in
 * its plane it was, i32. */
typedef struct ls_pool_opts {
    int64_t kernel[2], stride[2], padding[2];
} ls_pool_opts; /* height, width */
LS_API ls_value ls_max_pool2d(ls_graph *g, ls_value x, const ls_pool_opts *o);
/* [N, C, H, W] -> [N, C, height, width]: means over windows that cover the picture evenly (PyTorch's rule).
 */
LS_API ls_value ls_adaptive_avg_pool2d(ls_graph *g, ls_value x, int64_t height, int64_t width);
/* Means of windows, PyTorch's F.avg_pool2d. Padding is zeros, at most half a window; with count_include_pad
 * (PyTorch's default) it counts in the divisor. */
LS_API ls_value ls_avg_pool2d(ls_graph *g, ls_value x, const ls_pool_opts *o, bool count_include_pad);
/* x [N, C, H, W] -> [N, C, height, width], PyTorch's F.interpolate with a size and without antialias:
 * mode="nearest", "bilinear", and "bilinear" with align_corners=True. */
typedef enum ls_resize {
    LS_RESIZE_NEAREST,
    LS_RESIZE_BILINEAR,
    LS_RESIZE_BILINEAR_CORNERS /* the centres of the corner pixels stay where they are */
} ls_resize;
LS_API ls_value ls_resize2d(ls_graph *g, ls_value x, int64_t height, int64_t width, ls_resize mode);
/* x [N, C, ..] normalised by the mean and biased variance of each channel over everything else, y = (x -
 * mean) * rstd * gain + bias; outputs 1, 2, 3 are mean, rstd and unbiased variance [C]. */
LS_API ls_value ls_batch_norm_op(ls_graph *g, ls_value x, ls_value gain, ls_value bias, double eps);
/* The same by given statistics [C]. */
LS_API ls_value ls_batch_norm_eval(ls_graph *g, ls_value x, ls_value gain, ls_value bias, ls_value mean,
                                   ls_value variance, double eps);
/* running += momentum * (batch - running) for mean and variance [C], tracked i64 [] += 1, where they lie,
 * unless apply (i32 [], or LS_NONE) is 0. `normalized` is a batch norm's output. Returns the new running
 * mean; nothing need read it. */
LS_API ls_value ls_batch_norm_update(ls_graph *g, ls_value running_mean, ls_value running_variance,
                                     ls_value tracked, ls_value normalized, ls_value apply, double momentum);
/* x [N, C, ..] normalised by the mean and biased variance of each sample over each of `groups` groups of
 * channels, then times gain [C] plus bias [C] (LS_NONE: neither): PyTorch's F.group_norm. As many groups as
 * channels: instance norm. */
LS_API ls_value ls_group_norm_op(ls_graph *g, ls_value x, int64_t groups, ls_value gain, ls_value bias,
                                 double eps);
/* Scaled dot-product attention. q [batch, Tq, H*head_dim], k, v [batch, Tk, Hkv*head_dim], H a multiple of
 * Hkv (grouped queries); bias LS_NONE, [1 or batch, H, Tq, Tk], or by distance [H, Tq + Tk - 1] (query i and
 * key j: column j - i + Tq - 1), added to the scaled scores; causal masks keys after the query's position
 * (aligned at the end).
 * -> [batch, Tq, H*head_dim]; output 1 is the log-sum-exp of each row of scores, f32 [batch, H, Tq]. */
LS_API ls_value ls_attention(ls_graph *g, ls_value q, ls_value k, ls_value v, ls_value bias, int64_t head_dim,
                             double scale, bool causal);
/* The same, causal and without a bias, of documents that stand side by side in each sample: positions i32
 * [batch, T] has the place of each token in its document, from 0 on. A token attends to tokens of the
 * same document only. Positions LS_NONE: a sample is one document. */
LS_API ls_value ls_packed_attention(ls_graph *g, ls_value q, ls_value k, ls_value v, ls_value positions,
                                    int64_t head_dim, double scale);
/* The same as ls_attention, not causal: a key whose id (i32 [batch, Tk]) is `pad` is not there. */
LS_API ls_value ls_padded_attention(ls_graph *g, ls_value q, ls_value k, ls_value v, ls_value bias,
                                    ls_value ids, int64_t pad, int64_t head_dim, double scale);
/* T5's relative positions (Raffel et al. 2020), as attention takes them: table [buckets, H] -> [H, queries +
 * keys - 1], column j - i + queries - 1 the bucket of that distance: each by itself below half of them, then
 * as its logarithm up to max_distance. both: keys after the query have the second half of the buckets; else
 * they have bucket 0. */
LS_API ls_value ls_position_bias(ls_graph *g, ls_value table, int64_t queries, int64_t keys,
                                 int64_t max_distance, bool both);
/* ids i32 [rows, T] -> the same one place later, from `start` on; ids below 0 become `pad`. A decoder that is
 * trained to say `ids` reads this. */
LS_API ls_value ls_shift_right(ls_graph *g, ls_value ids, int64_t start, int64_t pad);
/* Generation. Rows x [batch, tokens, F] are written into cache [batch, places, F], a state, where positions
 * i32 [batch, tokens] say (nowhere outside of it); returns the cache as it is then. Queries [batch, tokens,
 * H*head_dim] attend to the keys and values of a cache up to their own position. bias [H, places], LS_NONE
 * for none, is added by distance: its last column to the query's own position, the one before to the key
 * before, as ls_position_bias makes it for `places` queries and one key. ls_cache_reorder: sequence b of the
 * cache becomes what sequence from[b] was (from i32 [batch]; beams go on from one another). No gradients. */
LS_API ls_value ls_cache_write(ls_graph *g, ls_value cache, ls_value x, ls_value positions);
LS_API ls_value ls_cache_reorder(ls_graph *g, ls_value cache, ls_value from);
LS_API ls_value ls_attention_cached(ls_graph *g, ls_value q, ls_value k, ls_value v, ls_value positions,
                                    ls_value bias, int64_t head_dim, double scale);
/* y is what ls_attention, causal, or ls_attention_cached returned: the same where each query sees no more
 * than `window` keys, its own position's and those before it. 0: y itself. */
LS_API ls_value ls_attention_window(ls_graph *g, ls_value y, int64_t window);
/* logits [rows, classes], labels i32 [rows] -> -log p[label] of each row, f32 [rows]; 0 where the label is
 * LS_IGNORE_LABEL. */
LS_API ls_value ls_cross_entropy(ls_graph *g, ls_value logits, ls_value labels);
/* The same against targets that have 1 - smoothing at the label and smoothing / classes everywhere, as
 * PyTorch's CrossEntropyLoss(label_smoothing). LS_E_ARG: not from 0 to below 1. */
LS_API ls_value ls_cross_entropy_smooth(ls_graph *g, ls_value logits, ls_value labels, double smoothing);
/* Index of the largest of the last dim, i32 [...]: the first one if several are. */
LS_API ls_value ls_argmax(ls_graph *g, ls_value a);
LS_API ls_value ls_softmax(ls_graph *g, ls_value a);     /* over the last dim */
LS_API ls_value ls_log_softmax(ls_graph *g, ls_value a); /* over the last dim */

/* Losses and metrics. A model declares rows, [batch, ..] or [batch * k, ..], f32 (f64 where all is): numbers
 * of each sample that no other sample changes. The library adds them over the samples of a step, on all
 * ranks, without padding, and divides the sum once, by: */
typedef enum ls_weigh {
    LS_BY_SAMPLE,  /* the samples */
    LS_BY_ELEMENT, /* the rows of all samples */
    LS_BY_VALID,   /* the entries of the i32 input `field`, one for each row, that are not LS_IGNORE_LABEL;
                    * rows of others do not count */
    /* the sum of the float input `field`, [batch] or one for each row, none below 0, by which rows are
     * multiplied */
    LS_BY_FIELD,
    /* the same sum, of rows that are not multiplied: they have their weights already, or those of others. Of
     * losses and ls_measure */
    LS_OVER_FIELD
} ls_weigh;
/* A part of what is minimised: factor * (sum of rows) / divisor. A model has one or more. `field`: NULL where
 * the divisor needs none. */
LS_API void ls_loss(ls_graph *g, const char *name, ls_value rows, double factor, ls_weigh weigh,
                    const char *field);
/* A part that is not a sum over samples: one number of a whole micro-batch, of which a step takes the mean.
 * Micro-batches must be whole: padding is refused, an evaluation leaves the samples of the last one out. */
LS_API void ls_loss_scalar(ls_graph *g, const char *name, ls_value value, double factor);
/* A metric of an evaluation, from rows as ls_loss takes them: LS_MEAN is sum / divisor, LS_SUM the sum,
 * LS_LARGEST and LS_SMALLEST the extreme row that counts, LS_COUNT the divisor: how many count. */
typedef enum ls_how { LS_MEAN, LS_SUM, LS_LARGEST, LS_SMALLEST, LS_COUNT } ls_how;
LS_API void ls_measure(ls_graph *g, const char *name, ls_value rows, ls_how how, ls_weigh weigh,
                       const char *field);
/* Metrics of what the model predicts and what is true: ls_measure_against (nn.h). */
typedef enum ls_metric_kind {
    LS_ACCURACY = 1,
    LS_F1,
    LS_RMSE,
    LS_MAE,
    LS_R2,
    LS_PERPLEXITY,
    LS_AUC
} ls_metric_kind;

/* Reductions over one dimension (from the end if it is negative) or over all. keep: the dimension stays, with
 * size 1. Sums are added in f32 at least, and rounded to the type of `a`. LS_E_SHAPE: no such dimension. */
enum { LS_ALL_DIMS = 1000 };
LS_API ls_value ls_sum(ls_graph *g, ls_value a, int dim, bool keep);
LS_API ls_value ls_mean(ls_graph *g, ls_value a, int dim, bool keep);
/* divides by n - correction; PyTorch's var has 1, its layer norm 0 */
LS_API ls_value ls_variance(ls_graph *g, ls_value a, int dim, bool keep, double correction);
LS_API ls_value ls_amax(ls_graph *g, ls_value a, int dim, bool keep); /* the largest; NaN counts as larger */

/* Index of the largest over a dimension or over all (then in row-major order), i32: the first one if several
 * are. */
LS_API ls_value ls_argmax_over(ls_graph *g, ls_value a, int dim, bool keep);
/* Sums of the elements up to each one along `dim` (from the end if it is negative). */
LS_API ls_value ls_cumsum(ls_graph *g, ls_value a, int dim);

/* Elements by their numbers along `dim` (from the end if it is negative), as PyTorch's calls of these names
 * take and give them. Numbers are i32; one that is outside of the dimension makes a NaN, at which the step
 * stops with the op, its file and line. What several numbers add to one element is added in their order.
 * - ls_gather: `index` has as many dimensions as `a`, none but `dim` larger than that of `a`; element (i, j)
 *   of the result is a[index[i, j], j] for dim 0, and so on.
 * - ls_index_select: index [n]; slice i of the result is slice index[i] of `a`.
 * - ls_scatter_add: `a` with x[i, j] added to a[index[i, j], j] for dim 0. `x` has the shape of `index`, or
 *   is larger; `index` is not larger than `a` in dimensions other than `dim`.
 * - ls_index_add: `a` with slice i of `x` added to slice index[i]. */
LS_API ls_value ls_gather(ls_graph *g, ls_value a, int dim, ls_value index);
LS_API ls_value ls_index_select(ls_graph *g, ls_value a, int dim, ls_value index);
LS_API ls_value ls_scatter_add(ls_graph *g, ls_value a, int dim, ls_value index, ls_value x);
LS_API ls_value ls_index_add(ls_graph *g, ls_value a, int dim, ls_value index, ls_value x);

#ifndef LS_NO_CALL_SITES
#define ls_input(g, ...) (ls_input)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_param(g, ...) (ls_param)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_state(g, ...) (ls_state)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_buffer(g, ...) (ls_buffer)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_fill(g, ...) (ls_fill)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_output(g, ...) (ls_output)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_add(g, ...) (ls_add)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_sub(g, ...) (ls_sub)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_mul(g, ...) (ls_mul)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_div(g, ...) (ls_div)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_max(g, ...) (ls_max)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_min(g, ...) (ls_min)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_neg(g, ...) (ls_neg)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_sqrt(g, ...) (ls_sqrt)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_exp(g, ...) (ls_exp)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_log_e(g, ...) (ls_log_e)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_tanh(g, ...) (ls_tanh)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_square(g, ...) (ls_square)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_gelu_tanh(g, ...) (ls_gelu_tanh)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_silu(g, ...) (ls_silu)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_swiglu(g, ...) (ls_swiglu)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_add_const(g, ...) (ls_add_const)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_mul_const(g, ...) (ls_mul_const)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_div_const(g, ...) (ls_div_const)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_pow(g, ...) (ls_pow)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_gt(g, ...) (ls_gt)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_ge(g, ...) (ls_ge)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_eq(g, ...) (ls_eq)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_where(g, ...) (ls_where)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_abs(g, ...) (ls_abs)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_sign(g, ...) (ls_sign)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_sin(g, ...) (ls_sin)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_cos(g, ...) (ls_cos)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_sigmoid(g, ...) (ls_sigmoid)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_softplus(g, ...) (ls_softplus)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_hardswish(g, ...) (ls_hardswish)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_leaky_relu(g, ...) (ls_leaky_relu)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_elu(g, ...) (ls_elu)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_pow_const(g, ...) (ls_pow_const)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_clamp(g, ...) (ls_clamp)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_sum(g, ...) (ls_sum)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_mean(g, ...) (ls_mean)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_variance(g, ...) (ls_variance)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_amax(g, ...) (ls_amax)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_sum_to(g, ...) (ls_sum_to)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_gelu(g, ...) (ls_gelu)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_relu(g, ...) (ls_relu)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_cast(g, ...) (ls_cast)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_slice(g, ...) (ls_slice)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_concat(g, ...) (ls_concat)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_matmul_wt(g, ...) (ls_matmul_wt)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_matmul(g, ...) (ls_matmul)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_group_norm_op(g, ...) (ls_group_norm_op)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_layer_norm_op(g, ...) (ls_layer_norm_op)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_rms_norm_op(g, ...) (ls_rms_norm_op)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_embedding_op(g, ...) (ls_embedding_op)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_rope(g, ...) (ls_rope)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_rope_scaled(g, ...) (ls_rope_scaled)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_conv2d_op(g, ...) (ls_conv2d_op)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_conv_transpose2d_op(g, ...) (ls_conv_transpose2d_op)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_conv1d_op(g, ...) (ls_conv1d_op)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_conv_transpose1d_op(g, ...) (ls_conv_transpose1d_op)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_conv3d_op(g, ...) (ls_conv3d_op)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_conv_transpose3d_op(g, ...) (ls_conv_transpose3d_op)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_max_pool2d(g, ...) (ls_max_pool2d)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_avg_pool2d(g, ...) (ls_avg_pool2d)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_resize2d(g, ...) (ls_resize2d)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_adaptive_avg_pool2d(g, ...) (ls_adaptive_avg_pool2d)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_batch_norm_op(g, ...) (ls_batch_norm_op)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_batch_norm_eval(g, ...) (ls_batch_norm_eval)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_batch_norm_update(g, ...) (ls_batch_norm_update)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_attention(g, ...) (ls_attention)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_attention_window(g, ...) (ls_attention_window)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_packed_attention(g, ...) (ls_packed_attention)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_padded_attention(g, ...) (ls_padded_attention)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_position_bias(g, ...) (ls_position_bias)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_shift_right(g, ...) (ls_shift_right)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_cache_write(g, ...) (ls_cache_write)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_cache_reorder(g, ...) (ls_cache_reorder)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_attention_cached(g, ...) (ls_attention_cached)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_cross_entropy(g, ...) (ls_cross_entropy)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_cross_entropy_smooth(g, ...) (ls_cross_entropy_smooth)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_loss(g, ...) (ls_loss)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_loss_scalar(g, ...) (ls_loss_scalar)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_measure(g, ...) (ls_measure)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_argmax(g, ...) (ls_argmax)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_softmax(g, ...) (ls_softmax)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_log_softmax(g, ...) (ls_log_softmax)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_argmax_over(g, ...) (ls_argmax_over)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_cumsum(g, ...) (ls_cumsum)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_gather(g, ...) (ls_gather)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_index_select(g, ...) (ls_index_select)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_scatter_add(g, ...) (ls_scatter_add)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_index_add(g, ...) (ls_index_add)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#endif

#ifdef __cplusplus
}
#endif
