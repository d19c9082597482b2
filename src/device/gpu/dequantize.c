/* dequantize.c - rows of the ops that make numbers of weights of 4 bits. */
#include "base/nf4.h"
#include "gpu.h"
#include "kernels/dequantize.h"

static void run_dequantize_scales(const ls_kernel_args *a)
{ /* bytes, nested, offset -> scales */
    scales_args k = { .bytes = ls_gpu_at(a->in[0].data),
                      .nested = ls_gpu_at(a->in[1].data),
                      .offset = ls_gpu_at(a->in[2].data),
                      .scales = ls_gpu_at(a->out[0].data),
                      .n = ls_gpu_count(&a->in[0].type) };
    ls_nf4_map(k.values);
    ls_gpu_run(a->queue, &(ls_gpu_launch){ .file = "dequantize.cu",
                                           .function = "dequantize_scales",
                                           .before = "#define X f32\n",
                                           .blocks = ls_gpu_blocks(k.n, DEQUANTIZE_THREADS),
                                           .args = &k,
                                           .bytes = sizeof k });
}

static void run_dequantize(const ls_kernel_args *a)
{ /* codes, scales -> w */
    char before[32];
    dequantize_args k = { .codes = ls_gpu_at(a->in[0].data),
                          .scales = ls_gpu_at(a->in[1].data),
                          .w = ls_gpu_at(a->out[0].data),
                          .n = ls_gpu_count(&a->in[0].type) };
    for (int i = 0; i < LS_NF4_CODES; i++)
        k.values[i] = ls_nf4_numbers[i];
    snprintf(before, sizeof before, "#define X %s\n", ls_gpu_type(&a->out[0]));
    ls_gpu_run(a->queue, &(ls_gpu_launch){ .file = "dequantize.cu",
                                           .function = "dequantize",
                                           .before = before,
                                           .blocks = ls_gpu_blocks(k.n, DEQUANTIZE_THREADS),
                                           .args = &k,
                                           .bytes = sizeof k });
}

const ls_kernel ls_gpu_dequantize[] = {
    { .op = "dequantize_scales", .run = run_dequantize_scales },
    { .op = "dequantize", .run = run_dequantize, .supports = ls_gpu_no_f64 },
    { 0 },
};
