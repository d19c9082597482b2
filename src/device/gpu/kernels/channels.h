/* channels.h - arguments of channels.cu and group_grad.cu: normalisation of x [N, C, ..] by channels
 * (batch_norm) or by groups of a sample's channels (group_norm). */
#pragma once
#include "types.h"

/* Division of numbers below 2^32 by a constant (Granlund, Montgomery 1994): n / by = (n * multiply / 2^32 +
 * n) >> shift. */
typedef struct divisor {
    u32 multiply, shift;
} divisor;

/* Numbers that are normalised together, a set: `runs` runs of `run` elements, one in each image. Run i of set
 * c begins at element (i * sets + c) * run. A group of group_norm is a set of one run. Sets are cut into
 * parts, which have a block each. */
typedef struct channels_args {
    gpu_address x, y, extra; /* extra: residual, or 0 */
    gpu_address dy, dx;      /* of the gradient, whose extra is relu's result, or 0 */
    gpu_address gain, bias;  /* of each channel, as dgain and dbias */
    gpu_address mean, rstd;  /* of each set: the forward pass writes them, the gradient reads them */
    gpu_address variance;    /* unbiased, or 0; of batch_norm_eval what is used */
    gpu_address dgain, dbias;
    gpu_address sums; /* two floats of each part of each set; in group_grad.cu see there */
    i64 sets, runs, run, parts;
    i64 groups, channels; /* group_norm: groups of a sample; channels of a group, else 0 */
    i64 positions;        /* group_norm: of a channel */
    divisor by_run;       /* by the pieces of a run */
    divisor by_positions; /* group_norm: by the pieces of a channel */
    double eps;
    i32 relu, fixed; /* fixed: by the mean and variance given (batch_norm_eval) */
} channels_args;

/* A block of NARROW sets: COLUMN_LANES elements of each image, and PART_RUNS images. */
enum { COLUMN_LANES = 32, PART_RUNS = 128 };

enum {
    CHANNEL_WARPS = 4,
    PARAMETER_THREADS = 64
}; /* channels of a block of group_sums, of group_parameters */

typedef struct running_args {
    gpu_address running_mean, running_variance, tracked, mean, variance, apply; /* apply may be 0 */
    i64 channels;
    float keep, take;
} running_args;

enum { RUNNING_THREADS = 256 };
