/* dequantize.c - weights of 4 bits. Products are rounded to f32, as everywhere. */
#include "base/nf4.h"
#include "ref.h"

void ls_ref_dequantize_scales(const ls_kernel_args *a) /* bytes, nested, offset -> scales */
{
    float map[LS_NF4_MAP];
    ls_nf4_map(map);
    for (int64_t i = 0, n = ls_type_count(&a->in[0].type); i < n; i++)
        flat_put(&a->out[0], i,
                 ls_nf4_scale(map, (uint8_t)flat_get(&a->in[0], i),
                              (float)flat_get(&a->in[1], i / LS_NF4_NESTED), (float)flat_get(&a->in[2], 0)));
}

double ls_ref_nf4_at(const ls_tensor *codes, const ls_tensor *scales, int64_t row, int64_t k)
{
    const unsigned byte = (unsigned)row_get(ref_row(codes, row), k / 2);
    return ls_nf4_numbers[k % 2 ? byte & 15 : byte >> 4] *
           (float)row_get(ref_row(scales, row), k / LS_NF4_BLOCK);
}

void ls_ref_dequantize(const ls_kernel_args *a) /* codes, scales -> w */
{
    for (int64_t r = 0; r < a->out[0].type.dims[0]; r++)
        for (int64_t k = 0; k < a->out[0].type.dims[1]; k++)
            row_put(ref_row(&a->out[0], r), k, ls_ref_nf4_at(&a->in[0], &a->in[1], r, k));
}
