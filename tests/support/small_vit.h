/* small_vit.h - a small ViT and its images, for tests that train it; and the ViT of tutorial 1. */
#pragma once
#include <stdint.h>

/* Members of an ls_vit_config. A test adds those that differ: { SMALL_VIT, .layers = 3 }. */
#define SMALL_VIT                                                                                   \
    .image_size = 8, .patch_size = 4, .in_channels = 1, .layers = 2, .heads = 2, .hidden_size = 16, \
    .mlp_size = 24, .classes = 5, .mean = 0.5, .std = 0.5

/* The ViT of tutorial 1. */
#define TUTORIAL_VIT                                                                                   \
    .image_size = 28, .patch_size = 7, .in_channels = 1, .layers = 10, .heads = 2, .hidden_size = 128, \
    .mlp_size = 128, .classes = 10, .mean = 0.5, .std = 0.5

/* Draws n images of 8 x 8: stripes whose width tells the label (0 to 4, in turn), under noise. */
void draw_stripes(int n, uint8_t *images, int32_t *labels);
