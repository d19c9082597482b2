/* update_rows.h - what the rows of optimizers share. */
#pragma once
#include "gpu.h"

/* The address of input i; 0 if it is absent. */
static inline gpu_address ls_gpu_input(const ls_kernel_args *a, int i)
{
    return i < a->n_in && ls_gpu_present(&a->in[i]) ? ls_gpu_at(a->in[i].data) : 0;
}

/* Why a kernel cannot take these operands; NULL: it can. Input g is the gradient (-1: none) and `scale` the
 * loss scale (-1: none); `f32s` is the mask of parameters and moments. */
static inline const char *ls_gpu_update_types(const ls_kernel_args *a, int g, int scale, unsigned f32s)
{
    for (int i = 0; i < a->n_in; i++) {
        const ls_dtype type = a->in[i].type.dtype;
        if (!ls_gpu_present(&a->in[i]) || type == LS_F32)
            continue;
        if (i == g && type != LS_BF16 && type != LS_F16)
            return "gradients are f32, bf16 or f16 (f64 is for device ref)";
        if (f32s >> i & 1)
            return "parameters and moments are f32 (f64 is for device ref)";
        if (i == scale)
            return "the loss scale is f32";
    }
    return NULL;
}

/* Of a parameter of n elements that begins at `offset` of its unit: which elements, [*from, *to), lie in the
 * part p (input 0) of the unit, which begins at `first`. False: none. */
static inline bool ls_gpu_update_part(const ls_kernel_args *a, int64_t offset, int64_t first, int64_t n,
                                      i64 *from, i64 *to)
{
    const int64_t begin = first - offset, end = begin + ls_gpu_count(&a->in[0].type);
    *from = begin > 0 ? begin : 0;
    *to = end < n ? end : n;
    return *from < *to;
}

/* Bytes of workspace, so that what lies behind is aligned. */
static inline size_t ls_gpu_room(int64_t n, size_t each) { return ((size_t)n * each + 255) / 256 * 256; }

void ls_gpu_muon(const ls_kernel_args *a);
size_t ls_gpu_muon_room(const ls_kernel_args *a);
void ls_gpu_adafactor(const ls_kernel_args *a);
size_t ls_gpu_adafactor_room(const ls_kernel_args *a);
