/* products.c - rows of kernels for GPUs. */
#include "gpu.h"

const ls_kernel ls_gpu_products[] = {
    { 0 },
};
const ls_kernel ls_gpu_products_tf32[] = {
    { 0 },
};
