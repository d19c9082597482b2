/* tables.c - all rows of kernels for GPUs, and what they share. */
#include "gpu.h"

const ls_kernel *const ls_gpu_tables[] = { ls_gpu_elements,
                                           ls_gpu_moves,
                                           ls_gpu_norms,
                                           ls_gpu_totals,
                                           ls_gpu_products,
                                           ls_gpu_pictures,
                                           ls_gpu_attention,
                                           ls_gpu_tokens,
                                           ls_gpu_recurrent,
                                           ls_gpu_updates,
                                           NULL };

const char *ls_gpu_no_f64(const ls_kernel_args *a)
{
    for (int i = 0; i < a->n_in; i++)
        if (ls_gpu_present(&a->in[i]) && a->in[i].type.dtype == LS_F64)
            return "f64 is for device ref";
    for (int i = 0; i < a->n_out; i++)
        if (ls_gpu_present(&a->out[i]) && a->out[i].type.dtype == LS_F64)
            return "f64 is for device ref";
    return NULL;
}
