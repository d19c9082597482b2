/* dropout.h - arguments of dropout.cu. */
#pragma once
#include "shape.h"

typedef struct key_args {
    gpu_address seed, step, places, out; /* i64 [], [], [2] -> [3] */
} key_args;

typedef struct dropout_args {
    gpu_address x, key, addend, out;
    i64 n;
    u64 purpose;
    i64 first; /* the sample of the step where x begins */
    u32 below; /* an element is kept if its 16 bits are below this */
    float scale;
    shape shape;                     /* samples, and the dimensions of a sample, as they are here */
    i64 strides[KERNEL_DIMS], start; /* in the whole sample; where it begins there */
} dropout_args;
