/* supports.c - checks of types that several rows share. */
#include "gpu.h"

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
