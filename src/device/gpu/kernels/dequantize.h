/* dequantize.h - arguments of dequantize.cu. */
#pragma once
#include "types.h"

enum { DEQUANTIZE_THREADS = 256, SCALE_BYTES = 32, SCALE_SCALES = 256 };

/* A thread has a byte: a scale, or two numbers. `values`: of a scale's byte, or of a code. */
typedef struct scales_args {
    gpu_address bytes, nested, offset, scales;
    i64 n;
    float values[256];
} scales_args;
typedef struct dequantize_args {
    gpu_address codes, scales, w;
    i64 n;
    float values[16];
} dequantize_args;
