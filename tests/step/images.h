/* images.h - a small ViT and random images for the tests of trainers. */
#pragma once
#include "golden/training.h"
#include "support/ranks.h"
#include "support/small_vit.h"
#include "step/evaluate.h"

enum { SAMPLES = 70, PIXELS = 64 };
static const ls_vit_config VIT = { SMALL_VIT, .hidden_size = 32, .mlp_size = 48 };
extern uint8_t images[SAMPLES * PIXELS];
extern int32_t labels[SAMPLES];

int make_images(void **state);

#define START(t, ...)                                                                \
    do {                                                                             \
        ASSERT_OK(ls_trainer_create(&(t), training_build_vit, &VIT, ##__VA_ARGS__)); \
        ASSERT_OK(ls_trainer_init((t), 5));                                          \
        wake_head(t);                                                                \
    } while (0)

/* The head starts with zeros, which would hide everything behind it in the first step. */
void wake_head(ls_trainer *t);

ls_status read_sample(const ls_dataset *set, int64_t i, void *const *to);
extern const ls_field SAMPLE_FIELDS[2];

extern const ls_dataset SAMPLE_SET;
