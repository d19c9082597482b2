/* models.h - models as graph builders. They know shapes and names and nothing of parallelism, precision or
 * devices.
 *
 * A classifier's graph has inputs "images" u8 [batch, channels, height, width] and "labels" i32 [batch], a
 * loss "loss" (cross-entropy by valid labels), a metric "accuracy" and an output "logits" [batch, classes].
 * With ls_classifier_loss.outputs it computes named numbers instead.
 */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include "graph.h"
#include "nn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A language model's graph has inputs "ids" i32 [batch, seq_length] and "targets" i32 [batch, seq_length]
 * (what comes after each id; LS_IGNORE_LABEL: does not count), the same loss and metric by its targets, and
 * an output "logits" [batch * seq_length, vocabulary]. */

/* How a classifier of images is trained. All 0: the cross-entropy of "labels". */
typedef struct ls_classifier_loss {
    double label_smoothing; /* below 1: as PyTorch's CrossEntropyLoss, also in evaluations */
    /* Images are mixtures of two, as of mixup and cutmix. A graph for training has the inputs "labels.mixed"
     * i32 [batch], the other label, and "labels.weight" f32 [batch], the share w of the first one: the loss
     * is w * loss(labels) + (1 - w) * loss(labels.mixed). */
    bool mixed;
    /* In place of classes: output i, a number for each image, is column i of what the last layer computes.
     * `classes` is n_outputs. Losses compare outputs with float inputs [batch]. */
    int n_outputs, n_losses;
    const struct ls_port *outputs; /* [n_outputs]: names; types are [] */
    const struct ls_task_loss *losses;
    /* There is an input "labels.class_weight" f32 [batch], by which the loss is weighed, as by PyTorch's
     * CrossEntropyLoss(weight); with smoothing also "labels.class_weights" f32 [batch, classes], the weights
     * of all classes. Not with mixtures. A metric "loss_unweighted" stands beside it */
    bool class_weights;
} ls_classifier_loss;

/* Vision transformer (Dosovitskiy et al. 2021), torchvision's VisionTransformer: pre-norm blocks, class
 * token, learned positions. With in_channels other than 3 the patch projection has Conv2d's default initial
 * values, as when the layer is replaced by a new one. */
typedef struct ls_vit_config {
    int64_t image_size, patch_size, in_channels, layers, heads, hidden_size, mlp_size, classes;
    double mean, std; /* of pixels in 0..1, for normalisation */
    /* behind the positions, the attention and both layers of the MLP; of attention's probabilities */
    double dropout, attention_dropout;
    /* [in_channels], a number for each channel in place of `mean` and `std`, in all models of images. NULL:
     * none. */
    const double *means, *stds;
    ls_classifier_loss loss;
} ls_vit_config;

/* Residual network (He et al. 2015), torchvision's resnet18, 34 and 50. With in_channels other than 3 the
 * stem has Conv2d's default initial values, as when the layer is replaced by a new one. A graph for training
 * advances running statistics in micro-batch 0 of a step (ls_track). One for evaluation (ls_graph_evaluate)
 * normalises by them. */
typedef struct ls_resnet_config {
    int64_t depth, image_size, in_channels, classes;
    double mean, std;
    const double *means, *stds;
    ls_classifier_loss loss;
} ls_resnet_config;

/* ConvNeXt (Liu et al. 2022), torchvision's ConvNeXt: stage s has depths[s] blocks of widths[s] channels
 * (convnext_tiny: 3 3 9 3 of 96 192 384 768). image_size is 32 at least. Block i of n loses its branch
 * for a sample with probability stochastic_depth * i / (n - 1) in training (torchvision: 0.1 for tiny, 0.4
 * for small, 0.5 for base). With in_channels other than 3 the stem has Conv2d's default initial values, as
 * when the layer is replaced by a new one. */
typedef struct ls_convnext_config {
    int64_t image_size, in_channels, classes, depths[4], widths[4];
    double stochastic_depth, mean, std;
    const double *means, *stds;
    ls_classifier_loss loss;
} ls_convnext_config;

/* Multi-layer perceptron over the flattened image: parameters "layers.0.weight", ... and "head". */
typedef enum ls_mlp_activation {
    LS_MLP_ACT_RELU,
    LS_MLP_ACT_GELU,
    LS_MLP_ACT_GELU_TANH,
    LS_MLP_ACT_TANH,
    LS_MLP_ACT_SIGMOID,
    LS_MLP_ACT_SILU,
    LS_MLP_ACT_LEAKY_RELU, /* with a slope of 0.01 */
    LS_MLP_ACT_ELU         /* with an alpha of 1 */
} ls_mlp_activation;
typedef struct ls_mlp_config {
    int64_t image_size, in_channels, classes;
    int n_hidden;
    int64_t hidden[16];
    ls_mlp_activation act;
    double mean, std;
    const double *means, *stds;
    ls_classifier_loss loss;
    double dropout; /* behind each activation; 0: none */
} ls_mlp_config;

/* A named input or output of a model: the type of one sample. */
typedef struct ls_port {
    const char *name;
    ls_type type;
} ls_port;

/* A loss of an output, by elements: the mean over all that count. */
typedef struct ls_task_loss {
    ls_loss_kind kind;
    const char *of;     /* the output */
    const char *target; /* the field that it is compared with; NULL: the one of the output's name */
    const char
        *weight; /* a float field, one number a sample: the mean is weighed by it. NULL: all count alike */
    const char *mask; /* a float field of the target's shape: the mean is weighed by it. NULL: all count */
    double factor;    /* in the sum of several losses */
    double delta;     /* LS_LOSS_HUBER */
    /* of cross_entropy: a float field of the target's shape, the weight of each target's class. The loss
     * alone is weighed by it; its metrics are not, and one of them is the unweighted loss. With
     * label_smoothing there is another, of its name and an s, [classes]: the weights of all classes. NULL:
     * all count alike */
    const char *class_weight;
    double label_smoothing; /* of cross_entropy: PyTorch's, also in evaluations; 0: none */
} ls_task_loss;

/* Multi-layer perceptron from named float fields to named outputs: the inputs, flattened and concatenated;
 * hidden layers "layers.0", ...; a layer "head.NAME" for each output. Outputs under their names, of bce and
 * cross_entropy as logits. With `scale` each input is scaled, and each output of mse, mae and huber is
 * computed in the scale of its target: its loss is in scaled units, its metrics and the output are not. */
typedef struct ls_task_config {
    int n_inputs, n_outputs, n_losses;
    const ls_port *inputs, *outputs;
    const ls_task_loss *losses;
    int n_hidden;
    int64_t hidden[16];
    ls_mlp_activation act;
    bool scale;
    double dropout; /* behind each activation; 0: none */
} ls_task_config;

/* How a level of a U-Net becomes twice as high and wide: by a transposed convolution, or by bilinear
 * interpolation (align_corners=True) without parameters, Pytorch-UNet's `bilinear`. */
typedef enum ls_unet_up { LS_UP_TRANSPOSED, LS_UP_BILINEAR } ls_unet_up;

/* U-Net (Ronneberger et al. 2015) from images to a number or a class for each pixel, with the parameter names
 * of milesial's Pytorch-UNet: "inc.double_conv.0.weight", "down1.maxpool_conv.1.double_conv.0.weight",
 * "up1.up.weight", "up1.conv.double_conv.0.weight", "outc.conv.weight". Level i has channels * 2^i channels
 * and 1 / 2^i of the image's height and width, which must be multiples of 2^levels. With cross_entropy the
 * output is [height, width, classes] and the target i32 [height, width]; with other losses the output and the
 * target are [channels, height, width] or [height, width]. Running statistics as in a ResNet. With bilinear
 * interpolation the lowest level, and what a level hands up, have half as many channels. */
typedef struct ls_unet_config {
    ls_port input; /* f32 [channels, height, width] */
    ls_port output;
    int n_losses; /* 0: the graph has no loss, and the output's channels come first */
    const ls_task_loss *losses;
    int64_t channels, levels; /* Pytorch-UNet: 64, 4 */
    ls_unet_up up;
} ls_unet_config;

/* Hugging Face's Llama, Qwen2, Qwen3, Mistral and others of their family, also with experts, for language
 * modelling: parameters
 * "model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight", ... */
typedef struct ls_decoder_config {
    int64_t seq_length; /* tokens of a sequence */
    int64_t vocab_size, hidden_size, mlp_size, layers, heads, kv_heads, head_dim;
    double norm_eps, rope_theta, init_deviation; /* of initial weights, which are normal */
    double attention_dropout;                    /* of attention's probabilities */
    bool tied;                            /* the output head is the table of the embedding; else lm_head */
    bool qkv_bias, output_bias, mlp_bias; /* of q, k, v; of o; in the MLP */
    const char *block;                    /* class of a layer: "Qwen2DecoderLayer", "LlamaDecoderLayer" */
    ls_rope_scaling rope_scaling;         /* all 0: none */
    bool head_norms;                      /* RMS norms of each head of q and of k */
    /* window: how many tokens a token sees, itself and those before it; 0: all. With global_every N, the
     * layers N, 2 N, .. see all tokens; the others have the window, the theta local_theta, and no scaling. */
    int64_t window, global_every;
    double local_theta;
    /* Gemma's: norms multiply by 1 + weight; there are norms behind the attention and the MLP too; the
     * embedding is multiplied by hidden_size^0.5; the MLP's gate is gelu's tanh form in place of silu */
    bool gemma;
    double query_scalar; /* scores are divided by its square root; 0: head_dim */
    /* A sample is several documents side by side, which do not see each other: there is an input "positions"
     * i32 [batch, seq_length], 0 at the first token of each (LS_PACK_DOCUMENTS). */
    bool packed;
    /* A mixture of experts in place of the MLP of layers experts_every, 2 experts_every, ..: each token goes
     * to experts_per_token of `experts` MLPs of width expert_size, whose outputs are added, weighted by their
     * probabilities (with normalize_experts divided by their sum). experts 0: none. */
    int64_t experts, experts_per_token, expert_size, experts_every;
    bool normalize_experts;
    /* an MLP beside them for all tokens, times the sigmoid of a number of the token; 0: none */
    int64_t shared_expert_size;
    double balance;     /* factor of the loss that spreads tokens evenly over experts; 0: none */
    bool mixtral_names; /* "block_sparse_moe.experts.0.w1", .. for "mlp.experts.0.gate_proj", .. */
    bool whole_norms;   /* RMS norms of all of q and of k, over their heads */
    double clip_qkv;    /* q, k and v are clamped to so much above and below 0; 0: they are not */
} ls_decoder_config;

/* Hugging Face's BertForSequenceClassification and BertForTokenClassification: parameters
 * "bert.embeddings.word_embeddings.weight", "bert.encoder.layer.0.attention.self.query.weight", ..,
 * "classifier.weight" or, of several outputs, "classifier.NAME.weight". An input is i32: [tokens] a text,
 * filled up with pad_token, which no token attends to; [2, tokens] a pair of texts, its ids and their token
 * types. An output [] or [classes] is of the text, one [tokens, classes] of each token. Blocks are of class
 * BertLayer.
 *
 * With a loss LS_LOSS_IN_BATCH it is a BertModel for sentence embeddings: two inputs [tokens], one output
 * [hidden_size], "NAME" of the first text and "NAME.INPUT" of the second one: the mean of its tokens, of
 * length
 * 1. The loss is the cross-entropy of 20 times the products of a first text with all second texts of its
 * micro-batch, of which its own is the right one; "accuracy" says how often its own is the largest.
 *
 * `roberta`: names begin with "roberta."; the first token is at position pad_token + 1; classes and numbers
 * of a text come from its first token through "classifier.dense", tanh and "classifier.out_proj". */
typedef struct ls_bert_config {
    bool roberta; /* Hugging Face's Roberta: below */
    int n_inputs;
    const ls_port *inputs;
    int64_t vocab_size, hidden_size, mlp_size, layers, heads;
    int64_t positions, token_types; /* rows of their tables; a text alone is of type 0 */
    int64_t pad_token;
    double norm_eps, init_deviation;
    double dropout, attention_dropout, classifier_dropout; /* the last: of what the heads take */
    int n_outputs;
    const ls_port *outputs;
    int n_losses; /* 0: the graph has no loss */
    const ls_task_loss *losses;
} ls_bert_config;

/* Hugging Face's GPT2LMHeadModel: parameters "transformer.wte.weight", "transformer.h.0.attn.c_attn.weight",
 * ... Weights of its linear layers are [in, out]. Dropout is behind the positions, the attention and the
 * MLP. */
typedef struct ls_gpt2_config {
    int64_t seq_length;
    int64_t positions; /* that it has learned; seq_length at least */
    int64_t vocab_size, hidden_size, mlp_size, layers, heads;
    double norm_eps, init_deviation, dropout, attention_dropout;
    bool tied;
    bool packed; /* as in ls_decoder_config */
} ls_gpt2_config;

/* Hugging Face's T5ForConditionalGeneration, from text to text: parameters "shared.weight",
 * "encoder.block.0.layer.0.SelfAttention.q.weight", ... Its "ids" are i32 [batch, source_length], padded with
 * pad_token, and its "targets" i32 [batch, target_length]; the decoder reads the targets one place later,
 * from start_token on. Blocks are of class T5Block. */
typedef struct ls_t5_config {
    int64_t source_length, target_length; /* tokens */
    int64_t vocab_size, hidden_size, mlp_size, layers, decoder_layers, heads, head_dim;
    int64_t buckets, max_distance; /* of relative positions */
    double norm_eps, init_factor;
    bool gated; /* MLP: gelu(wi_0 x) * wi_1 x in place of relu(wi x) */
    bool tied;  /* the output head is the table of the embedding; else lm_head */
    /* what the head takes is multiplied by hidden_size^-0.5: 0 if tied, 1 always, -1 never */
    int scale_output;
    /* behind embeddings, attention, the MLP and its activation, and the final norms; of the probabilities in
     * attention */
    double dropout;
    int64_t pad_token, start_token;
} ls_t5_config;

/* Builds the model for `batch` images (or sequences) into g; LS_E_SHAPE with the numbers when the
 * configuration is impossible. Local. */
LS_API ls_status ls_vit_build(ls_graph *g, const ls_vit_config *c, int64_t batch);
LS_API ls_status ls_resnet_build(ls_graph *g, const ls_resnet_config *c, int64_t batch);
LS_API ls_status ls_convnext_build(ls_graph *g, const ls_convnext_config *c, int64_t batch);
LS_API ls_status ls_decoder_build(ls_graph *g, const ls_decoder_config *c, int64_t batch);
LS_API ls_status ls_gpt2_build(ls_graph *g, const ls_gpt2_config *c, int64_t batch);
LS_API ls_status ls_t5_build(ls_graph *g, const ls_t5_config *c, int64_t batch);
/* For making text: `tokens` tokens of each of `prompts` texts or (tokens 1) one token of each of their
 * `beams` rows, behind those whose keys and values are in the states "cache.0.k", ... [prompts * beams,
 * c->seq_length, ..] already. Inputs "ids.N" and "positions.N" i32 [prompts, N] or [prompts * beams, 1] (N =
 * tokens; where each stands, -1: padding, anywhere) and "row" i32 [prompts * beams]; with tokens 1 and
 * several beams also "from" i32 [prompts * beams], the row that each goes on from. Tokens that are read
 * several at a time belong to the first beam of their prompt. Output "logits" [prompts * beams, vocabulary]:
 * what follows row[r] of all tokens, counted through. */
LS_API ls_status ls_decoder_build_cached(ls_graph *g, const ls_decoder_config *c, int64_t prompts,
                                         int64_t beams, int64_t tokens);
LS_API ls_status ls_gpt2_build_cached(ls_graph *g, const ls_gpt2_config *c, int64_t prompts, int64_t beams,
                                      int64_t tokens);
/* The same in two programs for T5. The first reads `prompts` sources, "ids", and has as outputs the keys and
 * values that each layer of the decoder has of them, "source.0.k", ... The second takes these as inputs, and
 * one token "ids.1" at "positions.1" i32 [prompts * beams, 1] of each target; with several beams also "from"
 * i32 [prompts * beams]. Its caches hold c->target_length tokens; output "logits" [prompts * beams,
 * vocabulary]. */
LS_API ls_status ls_bert_build(ls_graph *g, const ls_bert_config *c, int64_t batch);
LS_API ls_status ls_t5_build_encoder(ls_graph *g, const ls_t5_config *c, int64_t prompts);
LS_API ls_status ls_t5_build_cached(ls_graph *g, const ls_t5_config *c, int64_t prompts, int64_t beams);
LS_API ls_status ls_mlp_build(ls_graph *g, const ls_mlp_config *c, int64_t batch);
LS_API ls_status ls_unet_build(ls_graph *g, const ls_unet_config *c, int64_t batch);
LS_API ls_status ls_task_build(ls_graph *g, const ls_task_config *c, int64_t batch);

#ifdef __cplusplus
}
#endif
