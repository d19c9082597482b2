/* nn.h - layers: a few lines of graph each, with PyTorch's parameter names and initial values.
 *
 * A layer's `name` becomes part of its parameters' names ("encoder.ln" -> encoder.ln.weight). All calls are
 * local. */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For ls_batch_norm: i32 [], 1 in micro-batch 0 of a step, in which running statistics advance, else 0. */
LS_API ls_value ls_track(ls_graph *g);

/* Opens a scope until the end of the enclosing C block: LS_SCOPE(g, "encoder_layer_3", "EncoderBlock"). */
#define LS_SCOPE(g, name, block)                                                                         \
    __attribute__((cleanup(ls_scope_leave), unused)) ls_graph *LS_SCOPE_NAME(__LINE__) = ls_scope_enter( \
        (g), (name), (block))
#define LS_SCOPE_NAME(line) LS_SCOPE_JOIN(ls_scope_, line)
#define LS_SCOPE_JOIN(a, b) a##b
static inline ls_graph *ls_scope_enter(ls_graph *g, const char *name, const char *block)
{
    ls_scope_push(g, name, block);
    return g;
}
static inline void ls_scope_leave(ls_graph **g) { ls_scope_pop(*g); }

/* x [.., in] -> [.., out]. Defaults are torch.nn.Linear's: weight and bias uniform in +-1/sqrt(in). */
typedef struct ls_linear_opts {
    bool bias;
    const ls_init *weight_init, *bias_init; /* NULL: the default */
    bool transposed;                        /* the weight is [in, out], as GPT-2's; else [out, in] */
} ls_linear_opts;
#define LS_LINEAR_DEFAULTS .bias = true, .weight_init = NULL, .bias_init = NULL, .transposed = false
LS_API ls_linear_opts ls_linear_opts_default(void);
LS_API ls_value ls_linear_with(ls_graph *g, const char *name, ls_value x, int64_t out,
                               const ls_linear_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_linear(g, ...) ls_linear_with(ls_at((g), LS_FILE, __LINE__), __VA_ARGS__)
#else
#define ls_linear(g, name, x, out, ...)                                                    \
    LS_QUIETLY(ls_value, ls_linear_with(ls_at((g), LS_FILE, __LINE__), (name), (x), (out), \
                                        &(ls_linear_opts){ LS_LINEAR_DEFAULTS, ##__VA_ARGS__ }))
#endif

/* torch.nn.Embedding(rows, dim): ids i32 [..], from 0 to rows - 1 -> [.., dim]; weight [rows, dim] normal(0,
 * 1).
 */
LS_API ls_value ls_embedding(ls_graph *g, const char *name, ls_value ids, int64_t rows, int64_t dim);

/* x [.., K] -> [.., K]; weight 1, bias 0. PyTorch's default eps is 1e-5. */
LS_API ls_value ls_layer_norm(ls_graph *g, const char *name, ls_value x, double eps);

/* torch.nn.RMSNorm: x [.., K] -> [.., K]; weight 1. */
LS_API ls_value ls_rms_norm(ls_graph *g, const char *name, ls_value x, double eps);

/* torch.nn.GroupNorm: x [N, C, ..] -> the same, by the mean and variance of each of `groups` groups of
 * channels of a sample; weight 1, bias 0, both [C]. PyTorch's default eps is 1e-5. */
LS_API ls_value ls_group_norm(ls_graph *g, const char *name, ls_value x, int64_t groups, double eps);
/* torch.nn.InstanceNorm1d to 3d: each channel of a sample by itself. affine: weight 1 and bias 0 [C], else no
 * parameters, which is PyTorch's default. */
LS_API ls_value ls_instance_norm(ls_graph *g, const char *name, ls_value x, bool affine, double eps);

/* torch.nn.MultiheadAttention(hidden, heads, dropout, batch_first=True) of x with itself, in_proj packed
 * [3*hidden, hidden]. x [batch, tokens, hidden] -> the same. heads must divide hidden. */
LS_API ls_value ls_self_attention(ls_graph *g, const char *name, ls_value x, int64_t heads, double dropout);

/* torch.nn.Conv2d with kernel = stride = patch on images [B, C, H, W], as tokens: -> [B, (H/patch)*(W/patch),
 * out]. weight [out, C, patch, patch]. */
LS_API ls_value ls_patch_embedding(ls_graph *g, const char *name, ls_value images, int64_t patch, int64_t out,
                                   const ls_linear_opts *o);

/* torch.nn.Conv2d: x [N, C, H, W] -> [N, out, ..], kernel and options the same for height and width. Defaults
 * are PyTorch's: weight and bias uniform in +-1/sqrt(C/groups * kernel * kernel). Options of the other
 * convolutions below too. */
typedef struct ls_conv2d_opts {
    int64_t stride, padding, dilation, groups;
    int64_t output_padding; /* of transposed convolutions */
    bool bias;
    const ls_init *weight_init, *bias_init; /* NULL: the default */
} ls_conv2d_opts;
#define LS_CONV2D_DEFAULTS                                                                    \
    .stride = 1, .padding = 0, .dilation = 1, .groups = 1, .output_padding = 0, .bias = true, \
    .weight_init = NULL, .bias_init = NULL
LS_API ls_conv2d_opts ls_conv2d_opts_default(void);
LS_API ls_value ls_conv2d_with(ls_graph *g, const char *name, ls_value x, int64_t out, int64_t kernel,
                               const ls_conv2d_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_conv2d(g, ...) ls_conv2d_with(ls_at((g), LS_FILE, __LINE__), __VA_ARGS__)
#else
#define ls_conv2d(g, name, x, out, kernel, ...)                                                      \
    LS_QUIETLY(ls_value, ls_conv2d_with(ls_at((g), LS_FILE, __LINE__), (name), (x), (out), (kernel), \
                                        &(ls_conv2d_opts){ LS_CONV2D_DEFAULTS, ##__VA_ARGS__ }))
#endif

/* torch.nn.Conv1d: x [N, C, L] -> [N, out, ..]. */
LS_API ls_value ls_conv1d_with(ls_graph *g, const char *name, ls_value x, int64_t out, int64_t kernel,
                               const ls_conv2d_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_conv1d(g, ...) ls_conv1d_with(ls_at((g), LS_FILE, __LINE__), __VA_ARGS__)
#else
#define ls_conv1d(g, name, x, out, kernel, ...)                                                      \
    LS_QUIETLY(ls_value, ls_conv1d_with(ls_at((g), LS_FILE, __LINE__), (name), (x), (out), (kernel), \
                                        &(ls_conv2d_opts){ LS_CONV2D_DEFAULTS, ##__VA_ARGS__ }))
#endif

/* torch.nn.Conv3d: x [N, C, D, H, W] -> [N, out, ..]; the kernel is a cube. */
LS_API ls_value ls_conv3d_with(ls_graph *g, const char *name, ls_value x, int64_t out, int64_t kernel,
                               const ls_conv2d_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_conv3d(g, ...) ls_conv3d_with(ls_at((g), LS_FILE, __LINE__), __VA_ARGS__)
#else
#define ls_conv3d(g, name, x, out, kernel, ...)                                                      \
    LS_QUIETLY(ls_value, ls_conv3d_with(ls_at((g), LS_FILE, __LINE__), (name), (x), (out), (kernel), \
                                        &(ls_conv2d_opts){ LS_CONV2D_DEFAULTS, ##__VA_ARGS__ }))
#endif

/* torch.nn.ConvTranspose2d: x [N, C, H, W] -> [N, out, (H - 1) * stride - 2 * padding + dilation * (kernel -
 * 1) + output_padding + 1, ..]. weight [C, out/groups, kernel, kernel], uniform in +-1/sqrt(out/groups *
 * kernel * kernel) as its bias. */
LS_API ls_value ls_conv_transpose2d_with(ls_graph *g, const char *name, ls_value x, int64_t out,
                                         int64_t kernel, const ls_conv2d_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_conv_transpose2d(g, ...) ls_conv_transpose2d_with(ls_at((g), LS_FILE, __LINE__), __VA_ARGS__)
#else
#define ls_conv_transpose2d(g, name, x, out, kernel, ...)                                            \
    LS_QUIETLY(ls_value,                                                                             \
               ls_conv_transpose2d_with(ls_at((g), LS_FILE, __LINE__), (name), (x), (out), (kernel), \
                                        &(ls_conv2d_opts){ LS_CONV2D_DEFAULTS, ##__VA_ARGS__ }))
#endif

/* torch.nn.ConvTranspose1d. */
LS_API ls_value ls_conv_transpose1d_with(ls_graph *g, const char *name, ls_value x, int64_t out,
                                         int64_t kernel, const ls_conv2d_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_conv_transpose1d(g, ...) ls_conv_transpose1d_with(ls_at((g), LS_FILE, __LINE__), __VA_ARGS__)
#else
#define ls_conv_transpose1d(g, name, x, out, kernel, ...)                                            \
    LS_QUIETLY(ls_value,                                                                             \
               ls_conv_transpose1d_with(ls_at((g), LS_FILE, __LINE__), (name), (x), (out), (kernel), \
                                        &(ls_conv2d_opts){ LS_CONV2D_DEFAULTS, ##__VA_ARGS__ }))
#endif

/* torch.nn.ConvTranspose3d; the kernel is a cube. */
LS_API ls_value ls_conv_transpose3d_with(ls_graph *g, const char *name, ls_value x, int64_t out,
                                         int64_t kernel, const ls_conv2d_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_conv_transpose3d(g, ...) ls_conv_transpose3d_with(ls_at((g), LS_FILE, __LINE__), __VA_ARGS__)
#else
#define ls_conv_transpose3d(g, name, x, out, kernel, ...)                                            \
    LS_QUIETLY(ls_value,                                                                             \
               ls_conv_transpose3d_with(ls_at((g), LS_FILE, __LINE__), (name), (x), (out), (kernel), \
                                        &(ls_conv2d_opts){ LS_CONV2D_DEFAULTS, ##__VA_ARGS__ }))
#endif

/* torch.nn.BatchNorm2d, also 1d: x [N, C, ..] by its batch's own statistics; buffers running_mean,
 * running_var and num_batches_tracked advance when `track` (i32 []) is not 0. LS_NONE is ls_track: once a
 * step, so that ranks and micro-batches of one size change no bit. In evaluation (ls_graph_evaluate) x is
 * normalised by the running statistics. */
typedef struct ls_batch_norm_opts {
    double eps, momentum;
    ls_value track;
} ls_batch_norm_opts;
#define LS_BATCH_NORM_DEFAULTS .eps = 1e-5, .momentum = 0.1, .track = { 0 }
LS_API ls_batch_norm_opts ls_batch_norm_opts_default(void);
LS_API ls_value ls_batch_norm_with(ls_graph *g, const char *name, ls_value x,
                                   const ls_batch_norm_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_batch_norm(g, ...) ls_batch_norm_with(ls_at((g), LS_FILE, __LINE__), __VA_ARGS__)
#else
#define ls_batch_norm(g, name, x, ...)                                                  \
    LS_QUIETLY(ls_value, ls_batch_norm_with(ls_at((g), LS_FILE, __LINE__), (name), (x), \
                                            &(ls_batch_norm_opts){ LS_BATCH_NORM_DEFAULTS, ##__VA_ARGS__ }))
#endif

/* torch.nn.LSTM and torch.nn.GRU with batch_first=True: x [batch, tokens, in]; parameters weight_ih_l0
 * [gates * hidden, in], weight_hh_l0, bias_ih_l0, bias_hh_l0 and so on, gates in PyTorch's order (i, f, g, o;
 * r, z, n), `_reverse` behind the names of the direction that reads from the last token on. All are uniform
 * in +-1/sqrt(hidden). */
typedef struct ls_recurrent_opts {
    int64_t layers;
    bool bidirectional, bias;
    double dropout;  /* of what goes from layer to layer, as ls_dropout */
    ls_value h0, c0; /* states before the first token, as ls_recurrent has them; LS_NONE: zeros. GRU: no c0 */
} ls_recurrent_opts;
#define LS_RECURRENT_DEFAULTS \
    .layers = 1, .bidirectional = false, .bias = true, .dropout = 0, .h0 = { 0 }, .c0 = { 0 }
LS_API ls_recurrent_opts ls_recurrent_opts_default(void);
/* y [batch, tokens, directions * hidden] of the last layer; the states after the last token, of every layer
 * and direction, [batch, layers * directions, hidden] (PyTorch's h_n and c_n have the batch second). GRU: c
 * is LS_NONE. */
typedef struct ls_recurrent {
    ls_value y, h, c;
} ls_recurrent;
LS_API ls_recurrent ls_lstm_with(ls_graph *g, const char *name, ls_value x, int64_t hidden,
                                 const ls_recurrent_opts *o LS_OR_DEFAULTS);
LS_API ls_recurrent ls_gru_with(ls_graph *g, const char *name, ls_value x, int64_t hidden,
                                const ls_recurrent_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_lstm(g, ...) ls_lstm_with(ls_at((g), LS_FILE, __LINE__), __VA_ARGS__)
#define ls_gru(g, ...) ls_gru_with(ls_at((g), LS_FILE, __LINE__), __VA_ARGS__)
#else
#define ls_lstm(g, name, x, hidden, ...)                                                        \
    LS_QUIETLY(ls_recurrent, ls_lstm_with(ls_at((g), LS_FILE, __LINE__), (name), (x), (hidden), \
                                          &(ls_recurrent_opts){ LS_RECURRENT_DEFAULTS, ##__VA_ARGS__ }))
#define ls_gru(g, name, x, hidden, ...)                                                        \
    LS_QUIETLY(ls_recurrent, ls_gru_with(ls_at((g), LS_FILE, __LINE__), (name), (x), (hidden), \
                                         &(ls_recurrent_opts){ LS_RECURRENT_DEFAULTS, ##__VA_ARGS__ }))
#endif

/* torch.nn.Dropout: an element of x [batch, ..] is 0 with probability p, else x / (1 - p); x itself in
 * evaluation and where p is 0. Which ones follows from the trainer's seed, the layer's path, the step
 * (updates so far), the sample's place in the step and the element's in the sample: ranks, micro-batches and
 * recomputation change none. A name serves once. */
LS_API ls_value ls_dropout(ls_graph *g, const char *name, ls_value x, double p);
/* y of ls_attention, ls_packed_attention or ls_padded_attention -> the same with dropout of its
 * probabilities, as scaled_dot_product_attention(dropout_p=p). */
LS_API ls_value ls_attention_dropout(ls_graph *g, const char *name, ls_value y, double p);

/* LoRA (Hu et al. 2021) as Hugging Face's PEFT has it: a linear layer M computes W x + b + s B A x, with A
 * [rank, in] the parameter M.lora_A.weight, B [out, rank] M.lora_B.weight and s = alpha / rank, or alpha /
 * sqrt(rank) with `rslora`. A begins as a linear layer does, B with zeros, so the model begins as it was.
 * Freeze the rest: ls_trainer_opts.freeze = LS_LORA_FREEZE. */
typedef struct ls_lora_opts {
    int64_t rank;
    double alpha;
    double dropout; /* of the adapters' inputs, as ls_dropout */
    bool rslora;
    /* The layers, by the ends of their paths, as q_proj or mlp.up_proj, separated by spaces; or all-linear:
     * every one but lm_head. A word with ! in front takes layers out again, also all those of a module. */
    const char *targets;
} ls_lora_opts;
#define LS_LORA_DEFAULTS .rank = 8, .alpha = 8, .dropout = 0, .rslora = false, .targets = "all-linear"
#define LS_LORA_NAMES "pattern:*.lora_?.weight" /* of the adapters' parameters */
#define LS_LORA_FREEZE "* !" LS_LORA_NAMES
LS_API ls_lora_opts ls_lora_opts_default(void);
/* The linear layers (ls_linear) that the model makes from here on get adapters if `targets` names them. The
 * graph keeps a copy. LS_E_ARG: rank, alpha or dropout is out of range, or `targets` empty; from
 * ls_graph_finish: a word of `targets` names no layer. LS_E_SHAPE, when a layer is made: the rank exceeds a
 * side of it. Local. */
LS_API ls_status ls_add_lora_with(ls_graph *g, const ls_lora_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_add_lora(g, ...) ls_add_lora_with((g), ##__VA_ARGS__)
#else
#define ls_add_lora(g, ...) \
    LS_QUIETLY(ls_status, ls_add_lora_with((g), &(ls_lora_opts){ LS_LORA_DEFAULTS, ##__VA_ARGS__ }))
#endif

/* The linear layers (ls_linear) that the model makes from here on, except lm_head, keep weights of 4 bits a
 * number: NF4 in blocks of 64 with double quantisation, as bitsandbytes makes it. They are quantised while
 * they are loaded and cannot be trained: freeze them (ls_trainer_opts.freeze), for example under ls_add_lora.
 * LS_E_SHAPE, when a layer is made: 64 does not divide its inputs. Local. */
LS_API ls_status ls_base_nf4(ls_graph *g);

/* Pixels u8 -> f32: (x / 255 - mean) / std, as ToTensor and Normalize do. */
LS_API ls_value ls_normalize_pixels(ls_graph *g, ls_value images, double mean, double std);

/* For a metric of accuracy. logits [rows, classes], labels i32 [rows] -> f32 [rows]: 1 where the largest
 * logit, the first of equals, is that of the label, else 0. To 2^24 classes. */
LS_API ls_value ls_correct(ls_graph *g, ls_value logits, ls_value labels);

/* A metric of an evaluation, of a prediction and its target over all samples of the split together. `target`
 * has a number for each row. `predicted` is, with float targets, of their shape; with classes (i32, or 0 and
 * 1) logits [rows, classes], or one score a row, whose class is 1 above 0. All are means over rows, which
 * weigh as in ls_measure: LS_BY_SAMPLE and LS_BY_ELEMENT alike; LS_BY_VALID where targets may be
 * LS_IGNORE_LABEL.
 * - LS_ACCURACY: the share of rows with the right class.
 * - LS_F1: 2 tp / (2 tp + fp + fn), of class 1 for scores, else the mean over the classes that occur.
 * - LS_RMSE: the root of the mean squared error over all elements.
 * - LS_MAE: the mean absolute error.
 * - LS_R2: 1 - squared error / squared deviation of the targets, the mean over dimension 1.
 * - LS_PERPLEXITY: e^(mean cross-entropy), of logits.
 * - LS_AUC: of scores, how often a row of class 1 has a higher one than a row of class 0; ties count half.
 *   Scores are compared by their upper 16 bits as f32. A second metric NAME_bound says how far that is from
 *   the area of the full scores at most.
 *
 * LS_F1 and LS_AUC count rows: LS_BY_FIELD is refused. */
LS_API void ls_measure_against(ls_graph *g, const char *name, ls_metric_kind kind, ls_value predicted,
                               ls_value target, ls_weigh weigh, const char *field);

/* Losses, as rows for ls_loss; computed in f32 at least, whatever the model computes in. `output` and
 * `target` have one shape. */
typedef enum ls_loss_kind {
    LS_LOSS_MSE,           /* (output - target)^2 */
    LS_LOSS_MAE,           /* |output - target|, PyTorch's L1Loss */
    LS_LOSS_HUBER,         /* PyTorch's HuberLoss: quadratic below `delta`, linear above */
    LS_LOSS_BCE,           /* PyTorch's BCEWithLogitsLoss: `output` is a logit, the target a probability */
    LS_LOSS_CROSS_ENTROPY, /* output [.., classes], target i32 [..]: rows [elements of the target] */
    LS_LOSS_IN_BATCH       /* of pairs of texts, in ls_bert_build alone; ls_loss_rows refuses it */
} ls_loss_kind;
LS_API ls_value ls_loss_rows(ls_graph *g, ls_loss_kind kind, ls_value output, ls_value target, double delta);

/* Scaling of a field: buffers "scaling.FIELD.mean" and "scaling.FIELD.deviation" f32 [channels], the channels
 * being the last dimension of a sample, or 1. They are 0 and 1 until ls_trainer_fit finds them; they are
 * saved and loaded with the weights. ls_scale is (x - mean) / deviation, ls_unscale its inverse, both in f32
 * at least. A field has one scaling. */
typedef struct ls_scaling {
    ls_value mean, deviation;
} ls_scaling;
LS_API ls_scaling ls_scaling_of(ls_graph *g, const char *field, int64_t channels);
LS_API ls_value ls_scale(ls_graph *g, ls_scaling s, ls_value x);
LS_API ls_value ls_unscale(ls_graph *g, ls_scaling s, ls_value x);

/* Glorot and Bengio 2010: uniform in +-sqrt(6 / (in + out)). */
LS_API ls_init ls_init_xavier_uniform(int64_t in, int64_t out);
/* PyTorch's default for Linear and Conv2d: uniform in +-1/sqrt(fan_in). */
LS_API ls_init ls_init_fan_in(int64_t fan_in);

/* He et al. 2015, for layers before a ReLU: normal with deviation sqrt(2 / fan). */
LS_API ls_init ls_init_kaiming_normal(int64_t fan);

#ifndef LS_NO_CALL_SITES
#define ls_measure_against(g, ...) (ls_measure_against)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_loss_rows(g, ...) (ls_loss_rows)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_scale(g, ...) (ls_scale)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_unscale(g, ...) (ls_unscale)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_embedding(g, ...) (ls_embedding)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_group_norm(g, ...) (ls_group_norm)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_instance_norm(g, ...) (ls_instance_norm)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_dropout(g, ...) (ls_dropout)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#define ls_attention_dropout(g, ...) (ls_attention_dropout)(ls_at(g, LS_FILE, __LINE__), __VA_ARGS__)
#endif

#ifdef __cplusplus
}
#endif
