/* moves.c - rows of kernels for GPUs. */
#include "gpu.h"

const ls_kernel ls_gpu_moves[] = {
    { 0 },
};
