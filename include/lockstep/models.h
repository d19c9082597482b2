/* models.h - models as graph builders. They know shapes and names and nothing of parallelism, precision or devices.
 *
 * A classifier's graph has inputs "images" u8 [batch, channels, height, width], "labels" i32 [batch] and "count" f32 [] (valid targets of
 * the whole step), and outputs "loss" f32 [], "rows" f32 [batch] (loss of each sample) and "logits" [batch, classes]. In training it may have the
 * input "track" i32 [] too, which the trainer sets to 1 in micro-batch 0 of a step and to 0 in the others: for ls_batch_norm. */
#pragma once
#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Vision transformer (Dosovitskiy et al. 2021), torchvision's VisionTransformer: pre-norm blocks, class token, learned positions. With
 * in_channels other than 3 the patch projection has Conv2d's default initial values, as when the layer is replaced by a new one. */
typedef struct ls_vit_config {
    int64_t image_size, patch_size, in_channels, layers, heads, hidden_size, mlp_size, classes;
    double mean, std; /* of pixels in 0..1, for normalisation */
} ls_vit_config;

/* Residual network (He et al. 2015), torchvision's resnet18, 34 and 50. With in_channels other than 3 the stem has Conv2d's default
 * initial values, as when the layer is replaced by a new one. A graph for training has one more input, "track" i32 []: where it is not 0,
 * running statistics advance. One for evaluation (ls_graph_evaluate) normalises by them. */
typedef struct ls_resnet_config {
    int64_t depth, image_size, in_channels, classes;
    double mean, std;
} ls_resnet_config;

/* Multi-layer perceptron over the flattened image: parameters "layers.0.weight", ... and "head". */
typedef enum ls_mlp_activation { LS_MLP_ACT_RELU, LS_MLP_ACT_GELU, LS_MLP_ACT_GELU_TANH } ls_mlp_activation;
typedef struct ls_mlp_config {
    int64_t image_size, in_channels, classes;
    int n_hidden;
    int64_t hidden[16];
    ls_mlp_activation act;
    double mean, std;
} ls_mlp_config;

/* Builds the model for `batch` images into g; LS_E_SHAPE with the numbers when the configuration is impossible. Local. */
LS_API ls_status ls_vit_build(ls_graph *g, const ls_vit_config *c, int64_t batch);
LS_API ls_status ls_resnet_build(ls_graph *g, const ls_resnet_config *c, int64_t batch);
LS_API ls_status ls_mlp_build(ls_graph *g, const ls_mlp_config *c, int64_t batch);

#ifdef __cplusplus
}
#endif
