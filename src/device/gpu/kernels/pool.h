/* pool.h - the arguments of pool.cu. */
#pragma once
#include "types.h"

enum { POOL_THREADS = 256 };
/* x: pictures of h x w; y: results of oh x ow; the kernel writes one of them and reads the other. where: of
 * each maximum. stride, pad and kernel as in ls_max_pool_attrs; kernel 0 (means): windows cover the picture
 * evenly. */
typedef struct pool_args {
    gpu_address x, y, where;
    i64 planes, h, w, oh, ow, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, whole;
} pool_args;
