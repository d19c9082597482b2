/* tables.c - all rows of kernels for GPUs. */
#include "gpu.h"

const ls_kernel *const ls_gpu_tables[] = { ls_gpu_elements,
                                           ls_gpu_moves,
                                           ls_gpu_norms,
                                           ls_gpu_totals,
                                           ls_gpu_products,
                                           ls_gpu_dequantize,
                                           ls_gpu_pictures,
                                           ls_gpu_attention,
                                           ls_gpu_tokens,
                                           ls_gpu_groups,
                                           ls_gpu_recurrent,
                                           ls_gpu_updates,
                                           NULL };
