/* rows.c - copies samples between the caller's memory and that of a session. */
#include "rows.h"

#include <string.h>

#include "graph/op.h"

ls_status ls_rows_check(const char *call, const char *name, const ls_tensor *x, const ls_type *own,
                        int64_t batch, int64_t *n)
{
    const int64_t each = own->dims[0] / batch;
    ls_type have = x->type, want = *own;
    char a[128], b[128];
    *n = have.ndim > 0 && have.dims[0] > 0 ? have.dims[0] / each : 0;
    want.dims[0] = *n * each;
    if ((have.dtype == LS_F32 || have.dtype == LS_F64) && (want.dtype == LS_F32 || want.dtype == LS_F64))
        have.dtype = want.dtype;
    if (have.ndim < 1 || !ls_type_equal(&have, &want))
        return ls_fail(LS_E_SHAPE, "%s: \"%s\" is %s, the model %s %s for %lld samples%s", call, name,
                       ls_type_text(a, &x->type), strstr(call, "_get") ? "gives" : "takes",
                       ls_type_text(b, &want), (long long)*n,
                       have.ndim == want.ndim - 1    ? "; dimension 0 is the samples"
                       : have.dtype != want.dtype    ? ""
                       : have.dtype != x->type.dtype ? "; f32 and f64 both fit, the shape does not"
                                                     : "");
    bool still = ls_type_count(&x->type) > 1;
    for (int d = 0; d < x->type.ndim; d++)
        still &= x->strides[d] == 0;
    if (still) /* a tensor that was filled member by member: all its elements would be one */
        return ls_fail(LS_E_ARG,
                       "%s: \"%s\": all strides are 0: make the tensor with ls_tensor_of(data, &type)", call,
                       name);
    return x->data || !*n ? LS_OK : ls_fail(LS_E_ARG, "%s: \"%s\": data is NULL", call, name);
}

/* The offset of the element after index `at`, whose offset is given. */
static int64_t next(const ls_tensor *x, int64_t at[LS_MAX_DIMS], int64_t offset)
{
    for (int d = x->type.ndim - 1; d >= 0; d--) {
        offset += x->strides[d];
        if (++at[d] < x->type.dims[d])
            break;
        offset -= at[d] * x->strides[d];
        at[d] = 0;
    }
    return offset;
}

static void rows_copy(void *to, ls_dtype to_type, const void *from, ls_dtype from_type)
{
    if (to_type == from_type)
        memcpy(to, from, ls_dtype_size(to_type));
    else if (to_type == LS_F32)
        *(float *)to = (float)*(const double *)from;
    else
        *(double *)to = (double)*(const float *)from;
}

void ls_rows_take(void *to, ls_dtype type, const ls_tensor *x)
{
    const int64_t n = ls_type_count(&x->type);
    const size_t size = ls_dtype_size(x->type.dtype), step = ls_dtype_size(type);
    int64_t at[LS_MAX_DIMS] = { 0 }, offset = 0;
    if (type == x->type.dtype && ls_tensor_is_contiguous(x)) {
        if (n)
            memcpy(to, x->data, (size_t)n * size);
        return;
    }
    for (int64_t i = 0; i < n; i++, offset = next(x, at, offset))
        rows_copy((char *)to + (size_t)i * step, type, (const char *)x->data + offset * (int64_t)size,
                  x->type.dtype);
}

void ls_rows_give(const ls_tensor *x, const void *from, ls_dtype type)
{
    const int64_t n = ls_type_count(&x->type);
    const size_t size = ls_dtype_size(x->type.dtype), step = ls_dtype_size(type);
    int64_t at[LS_MAX_DIMS] = { 0 }, offset = 0;
    if (type == x->type.dtype && ls_tensor_is_contiguous(x)) {
        if (n)
            memcpy(x->data, from, (size_t)n * size);
        return;
    }
    for (int64_t i = 0; i < n; i++, offset = next(x, at, offset))
        rows_copy((char *)x->data + offset * (int64_t)size, x->type.dtype,
                  (const char *)from + (size_t)i * step, type);
}
