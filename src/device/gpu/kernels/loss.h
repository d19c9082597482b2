/* loss.h - arguments of loss.cu; rows of logits follow each other without gaps. */
#pragma once
#include "types.h"

typedef struct loss_args {
    gpu_address logits, labels;
    gpu_address lse, losses;      /* of each row */
    gpu_address parts;            /* three numbers of each row (and of each of n_parts) */
    gpu_address count, dloss, dx; /* of the gradient; dx may have the memory of the logits */
    i64 rows, k, n_parts;
    i64 first, classes; /* the number of the first column among all classes */
    i64 ignore;
    i64 dloss_stride; /* 0: one number for all rows */
    float own, each;  /* weight of the label's logit; of each class's (0 without smoothing) */
} loss_args;

/* Numbers of a part: the largest, the sum of exp(logit - largest), what the loss subtracts. */
enum { PART_TOP, PART_SUM, PART_AT_LABEL, PART_NUMBERS };

typedef struct argmax_args {
    gpu_address x, y;
    i64 rows, k, n_parts;
    i64 first; /* added to positions */
    i32 pairs; /* 1: y is f32 [rows, 2], the largest and its position */
} argmax_args;

enum { JOIN_THREADS = 128 }; /* rows of a block of loss_join and argmax_join */
