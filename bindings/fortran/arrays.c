/* arrays.c - descriptors of Fortran as texts, dimensions and tensors. */
#include "glue.h"

#include <string.h>

bool lsf_text(char out[LSF_TEXT], const CFI_cdesc_t *text)
{
    const char *from = text ? text->base_addr : NULL;
    size_t n = from ? text->elem_len : 0;
    while (n && from[n - 1] == ' ')
        n--;
    const bool fits = n < LSF_TEXT;
    if (fits && n)
        memcpy(out, from, n);
    out[fits ? n : 0] = 0;
    return fits;
}

bool lsf_text_at(char out[LSF_TEXT], const CFI_cdesc_t *texts, CFI_index_t i)
{
    CFI_cdesc_t one = { .base_addr = (char *)texts->base_addr + i * texts->dim[0].sm,
                        .elem_len = texts->elem_len };
    return lsf_text(out, &one);
}

int lsf_dims(int64_t out[LS_MAX_DIMS], const CFI_cdesc_t *dims)
{
    const CFI_index_t n = dims->dim[0].extent;
    for (CFI_index_t i = 0; i < n && n <= LS_MAX_DIMS; i++)
        out[n - 1 - i] = *(const int *)((const char *)dims->base_addr + i * dims->dim[0].sm);
    return n <= LS_MAX_DIMS ? (int)n : LS_MAX_DIMS + 1;
}

static bool dtype_of(ls_dtype *out, const CFI_cdesc_t *x)
{
    const bool integer = x->type == CFI_type_int8_t || x->type == CFI_type_int32_t ||
                         x->type == CFI_type_int64_t;
    if (x->type == CFI_type_float || x->type == CFI_type_double)
        *out = x->elem_len == sizeof(float) ? LS_F32 : LS_F64;
    else if (integer)
        *out = x->elem_len == 1 ? LS_U8 : x->elem_len == sizeof(int32_t) ? LS_I32 : LS_I64;
    else
        return false;
    return true;
}

ls_status lsf_tensor(ls_tensor *out, const CFI_cdesc_t *x, const char *what)
{
    *out = (ls_tensor){ .data = x->base_addr };
    if (!out->data) /* its sizes mean nothing then */
        return ls_fail(LS_E_ARG, "%s: the array is not allocated", what);
    if (!dtype_of(&out->type.dtype, x))
        return ls_fail(LS_E_ARG, "%s: the array is neither real(4), real(8) nor integer of 1, 4 or 8 bytes",
                       what);
    if (x->rank > LS_MAX_DIMS)
        return ls_fail(LS_E_ARG, "%s: the array has %d dimensions, at most %d are allowed", what,
                       (int)x->rank, LS_MAX_DIMS);
    out->type.ndim = x->rank;
    for (int i = 0; i < x->rank; i++) {
        const CFI_dim_t *d = &x->dim[x->rank - 1 - i];
        if (d->extent < 0)
            return ls_fail(LS_E_ARG, "%s: the array is of assumed size, x(*): pass a section, x(:, 1:n)",
                           what);
        if (d->sm % (CFI_index_t)x->elem_len)
            return ls_fail(LS_E_ARG,
                           "%s: the elements of the array are %lld bytes apart, which is not a multiple of "
                           "their %zu bytes: "
                           "pass a copy, in parentheses",
                           what, (long long)d->sm, x->elem_len);
        out->type.dims[i] = d->extent;
        out->strides[i] = d->sm / (CFI_index_t)x->elem_len;
    }
    return LS_OK;
}
