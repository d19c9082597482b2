/* combine.h - arguments of combine.cu. */
#pragma once
#include "types.h"

typedef struct combine_args {
    gpu_address in, out;
    i64 stride, count; /* bytes from piece to piece; elements of a piece, of wide sums pairs */
    i32 n;             /* pieces */
} combine_args;
