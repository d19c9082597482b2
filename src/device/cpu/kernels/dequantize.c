/* dequantize.c - weights of 4 bits as numbers, where no product takes them as they are. */
#include "nf4.h"
#include "table.h"

KERNEL(dequantize_scales)
{ /* bytes, nested, offset -> scales */
    const uint8_t *bytes = a->in[0].data;
    const float *nested = a->in[1].data, *offset = a->in[2].data;
    float *scales = a->out[0].data, map[LS_NF4_MAP];
    ls_nf4_map(map);
    for (int64_t i = 0, n = count_of(&a->in[0]); i < n; i++)
        scales[i] = ls_nf4_scale(map, bytes[i], nested[i / LS_NF4_NESTED], *offset);
}

SIMD_FN void dequantize_rows(ls_dtype t, const ls_kernel_args *a, int64_t begin, int64_t end)
{
    const int64_t blocks = cols_of(&a->in[1]), half = LS_NF4_BLOCK / 2;
    for (int64_t r = begin; r < end; r++) {
        const uint8_t *codes = (const uint8_t *)elem_at(&a->in[0], r * row_stride(&a->in[0]));
        const float *scales = (const float *)elem_at(&a->in[1], r * row_stride(&a->in[1]));
        char *to = elem_at(&a->out[0], r * row_stride(&a->out[0]));
        for (int64_t b = 0; b < blocks; b++)
            nf4_block(t, to + b * LS_NF4_BLOCK * elem_size(t), codes + b * half, scales[b]);
    }
}

static void dequantize_task(void *context, int64_t begin, int64_t end, int worker)
{
    const ls_kernel_args *a = context;
    (void)worker;
    BY_FLOAT(a->out[0].type.dtype, dequantize_rows, a, begin, end);
}

KERNEL(dequantize)
{ /* codes, scales -> w */
    ls_parallel_for(threads_for(a, count_of(&a->out[0])), rows_of(&a->in[0]), dequantize_task,
                    (void *)(uintptr_t)a);
}
