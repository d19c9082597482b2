/* elementwise.h - arguments of elementwise.cu. */
#pragma once
#include "shape.h"

#if !defined(INPUTS)
enum { INPUTS = 48 }; /* the most; arguments of a kernel have 4 KiB */
#endif
typedef struct elementwise_args {
    i64 n; /* elements of the output */
    gpu_address out;
    shape shape; /* of the output. `vectors`: its last dimension counts vectors, unless it is the only one */
    strided in[INPUTS];
} elementwise_args;
