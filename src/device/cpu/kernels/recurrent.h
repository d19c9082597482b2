/* recurrent.h - what the kernels of LSTM and GRU share. Threads share the sequences of a batch: each goes
 * through all tokens by itself, so that no token waits for another thread. Weights lie in the workspace as
 * f32, padded for small_mm.h; a token's product is one of all sequences of the thread. */
#pragma once
#include "kernel.h"
#include "small_mm.h"
#include "vmath_more.h"
#include "graph/tensor_attrs.h"

enum { UNIT = 16 }; /* rows of the workspace are multiples of it, at every level */

/* One direction of a layer. Rows of the workspace: for each sequence `state` (and `other`) [units], and gates
 * [gates, units]: gate k begins at k * units. */
typedef struct recurrent_job {
    const ls_kernel_args *a;
    int64_t batch, tokens, hidden, units, gates; /* units: hidden, rounded up to UNIT */
    bool reverse;
    const ls_tensor *w;
    float *weights;           /* forward: [hidden, gates, units]; gradient: [gates, units, units] */
    float *z, *state, *other; /* [batch, ..] */
} recurrent_job;

SIMD_FN recurrent_job recurrent_job_of(const ls_kernel_args *a, const ls_tensor *w, const ls_tensor *y,
                                       bool gradient)
{
    const int64_t hidden = w->type.dims[1];
    recurrent_job j = { .a = a,
                        .batch = y->type.dims[0],
                        .tokens = y->type.dims[1],
                        .hidden = hidden,
                        .units = round_up(hidden, UNIT),
                        .gates = w->type.dims[0] / hidden,
                        .reverse = ((const ls_recurrent_attrs *)a->attrs)->reverse != 0,
                        .w = w,
                        .weights = a->workspace };
    const int64_t rows = gradient ? j.gates * j.units : hidden;
    j.z = j.weights + rows * (gradient ? j.units : j.gates * j.units);
    j.state = j.z + j.batch * j.gates * j.units;
    j.other = j.state + j.batch * j.units;
    return j;
}
SIMD_FN size_t recurrent_bytes(const recurrent_job *j)
{
    return sizeof(float) * (size_t)(j->other + j->batch * j->units - j->weights);
}

/* The row, in [batch, tokens, ..], of the token of sequence b that is read as number s. */
SIMD_FN int64_t recurrent_row(const recurrent_job *j, int64_t b, int64_t s)
{
    return b * j->tokens + (j->reverse ? j->tokens - 1 - s : s);
}

/* Calls f(T, job, begin, end) on ranges of sequences. */
#define RECURRENT_TASK(name, f)                                             \
    static void name(void *context, int64_t begin, int64_t end, int worker) \
    {                                                                       \
        const recurrent_job *j = context;                                   \
        (void)worker;                                                       \
        BY_FLOAT(j->w->type.dtype, f, j, begin, end);                       \
    }
