/* shape.h - the dimensions of a tensor in a kernel's arguments, from the outermost to the innermost. */
#pragma once
#include "types.h"

/* n / size = (n multiply / 2^32 + n) / 2^shift for n < 2^31 (Granlund and Montgomery 1994) */
typedef struct shape_dim {
    i64 size;
    u32 multiply, shift;
} shape_dim;
typedef struct shape {
    i32 ndim;
    i32 large; /* 1: of 2^31 elements and more, which are numbered by 64 bits */
    shape_dim dims[KERNEL_DIMS];
} shape;

typedef struct strided {
    gpu_address data;
    i64 strides[KERNEL_DIMS]; /* in elements, for the dimensions of a shape; 0: repeated */
} strided;
