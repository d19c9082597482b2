/* softmax.h - arguments of softmax.cu; rows follow each other without gaps. */
#pragma once
#include "types.h"

typedef struct softmax_args {
    gpu_address x, y, dy, dx; /* y may have the memory of x */
    i64 rows, k;
} softmax_args;
