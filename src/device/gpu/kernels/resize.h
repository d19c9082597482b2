/* resize.h - the arguments of resize.cu. */
#pragma once
#include "types.h"

enum { RESIZE_THREADS = 256 };
/* LS_BY_NEAREST, ..., for #if */
#define BY_NEAREST 0
#define BY_CENTRES 1
#define BY_CORNERS 2
/* x: pictures of h x w; y: of oh x ow, resized; the kernel writes one of them and reads the other. The steps
 * lead from a line of y to the next, in lines of x; as nearest computes it, they are floats. */
typedef struct resize_args {
    gpu_address x, y;
    i64 planes, h, w, oh, ow;
    double step_h, step_w;
} resize_args;
