/* data_view.h - the samples of an epoch as the model gets them, for `lockstep data`. */
#pragma once
#include "data/augment.h"
#include "lockstep/tokenizer.h"
#include "recipe/recipe_arg.h"
#include "setup/setup.h"

typedef struct ls_viewed {
    int64_t sample, step, micro_batch, row;
} ls_viewed;

typedef struct ls_view_stats {
    double least, most, mean, deviation;
    int64_t missing; /* labels that are LS_IGNORE_LABEL; not in the other numbers */
} ls_view_stats;

typedef struct ls_data_view {
    ls_recipe *recipe;
    ls_setup setup;
    ls_dataset *set;
    ls_order order;
    ls_augment augment;
    ls_tokenizer *tokenizer;  /* of text; else NULL */
    int64_t epoch, n;         /* n: samples that are looked at */
    ls_viewed *samples;       /* [n], in the order of training */
    uint8_t **drawn, **plain; /* [fields] of [n, field]: as the model gets them; as the data set has them */
    int images, labels, mask; /* numbers of these fields; -1: none */
    int64_t *counts;          /* [classes] in the whole split; NULL: no classes */
    bool normalised;          /* the model computes with (pixel / 255 - mean) / std */
} ls_data_view;

/* Opens the split (train as a training sees it) and reads the first `n` samples of the epoch. LS_E_USAGE. */
ls_status ls_data_view_open(ls_data_view *v, const ls_recipe_arg *arg, ls_split split, int64_t epoch,
                            int64_t n, const ls_ui *ui);
void ls_data_view_release(ls_data_view *v);
/* Element k of a field's tensor. */
double ls_data_view_at(const ls_data_view *v, int field, const uint8_t *values, int64_t k);
/* data.mean and data.std of a channel, of a model that normalises; else 0 and 1. */
void ls_data_view_scale(const ls_data_view *v, int64_t channel, double *mean, double *std);
/* Of the elements k with (k / inner) % groups == group. */
ls_view_stats ls_data_view_stats(const ls_data_view *v, int field, const uint8_t *values, int64_t inner,
                                 int64_t groups, int64_t group);
/* "flip, rotate -9 degrees; mixup 0.87 with \"coat\"": what was drawn for sample k. */
void ls_data_view_steps(const ls_data_view *v, int64_t k, ls_str *out);
/* What sample k is to be learned as: its label or, of images without one, "age 31, height 1.8". */
void ls_data_view_target(const ls_data_view *v, int64_t k, ls_str *out);
/* Tokens of sample k, decoded; places that do not count are left out. Documents side by side
 * have " | " between them. LS_E_MEMORY. */
ls_status ls_data_view_text(const ls_data_view *v, int field, int64_t k, ls_str *out);
