/* elementwise.h - launches of kernels/elementwise.cu: an output of which each element is computed from the
 * same element of the inputs, which may have any strides. */
#pragma once
#include "gpu.h"

/* What registers hold: all types as floats, integers as i64, or elements of any type as they are. */
typedef enum ls_gpu_registers { LS_GPU_FLOATS, LS_GPU_INTEGERS, LS_GPU_RAW } ls_gpu_registers;

/* A text that grows up to its room. */
typedef struct ls_gpu_text {
    size_t n;
    char at[28672];
} ls_gpu_text;
void ls_gpu_put(ls_gpu_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Inputs are registers r0, r1, ...; `steps` makes others from them, and `result` is the output's. The output
 * is contiguous, and has the shape to which the inputs are broadcast. It may be the memory of an input that
 * is read at the same places. */
void ls_gpu_elementwise(struct ls_queue *q, ls_gpu_registers kind, int n, const ls_tensor *in,
                        const ls_tensor *out, const char *steps, int result);
