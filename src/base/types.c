/* types.c - sizes, names and shapes. If the number of elements does not fit in 63 bits, the count is
 * INT64_MAX (in bytes: SIZE_MAX). A comparison with the size of memory or of a file then fails, where an
 * overflow could succeed. */
#include "lockstep/types.h"
#include "base/argument.h"
#include <string.h>

static const struct {
    const char *name;
    size_t size;
    bool is_float;
} DTYPES[LS_DTYPE_COUNT] = {
    [LS_F32] = { "f32", 4, true }, [LS_F64] = { "f64", 8, true },  [LS_BF16] = { "bf16", 2, true },
    [LS_F16] = { "f16", 2, true }, [LS_I32] = { "i32", 4, false }, [LS_I64] = { "i64", 8, false },
    [LS_U8] = { "u8", 1, false },
};

static bool known(ls_dtype t) { return (unsigned)t < LS_DTYPE_COUNT; }

size_t ls_dtype_size(ls_dtype t) { return known(t) ? DTYPES[t].size : 0; }

const char *ls_dtype_name(ls_dtype t) { return known(t) ? DTYPES[t].name : "?"; }

bool ls_dtype_is_float(ls_dtype t) { return known(t) && DTYPES[t].is_float; }

bool ls_dtype_parse(const char *name, ls_dtype *out)
{
    LS_ARG_OR(name, false);
    LS_ARG_OR(out, false);
    for (int t = 0; t < LS_DTYPE_COUNT; t++)
        if (strcmp(DTYPES[t].name, name) == 0) {
            *out = (ls_dtype)t;
            return true;
        }
    return false;
}

bool ls_type_is_sound(const ls_type *t)
{
    bool sound = known(t->dtype) && t->ndim >= 0 && t->ndim <= LS_MAX_DIMS;
    for (int i = 0; sound && i < t->ndim; i++)
        sound = t->dims[i] >= 0;
    return sound;
}

ls_status ls_argument_unsound(const char *function, const char *argument, const ls_type *t)
{
    int bad = 0;
    while (bad < LS_MAX_DIMS && bad < t->ndim && t->dims[bad] >= 0)
        bad++;
    return t->ndim < 0 || t->ndim > LS_MAX_DIMS
               ? ls_fail(LS_E_ARG, "%s: %s has %d dimensions: 0 to %d are possible", function, argument,
                         t->ndim, LS_MAX_DIMS)
               : ls_fail(LS_E_ARG, "%s: %s has the size %lld in dimension %d: 0 or more is possible",
                         function, argument, (long long)t->dims[bad], bad);
}

int64_t ls_type_count(const ls_type *t)
{
    LS_ARG_OR(t, 0);
    if (t->ndim < 0) /* an absent optional operand */
        return 0;
    int64_t count = 1;
    bool overflow = false;
    for (int i = 0; i < t->ndim; i++) {
        if (t->dims[i] <= 0)
            return 0;
        overflow |= __builtin_mul_overflow(count, t->dims[i], &count);
    }
    return overflow ? INT64_MAX : count;
}

size_t ls_type_bytes(const ls_type *t)
{
    LS_ARG_OR(t, 0);
    size_t bytes;
    return __builtin_mul_overflow((size_t)ls_type_count(t), ls_dtype_size(t->dtype), &bytes) ? SIZE_MAX
                                                                                             : bytes;
}

bool ls_type_equal(const ls_type *a, const ls_type *b)
{
    LS_ARG_OR(a, false);
    LS_ARG_OR(b, false);
    if (a->dtype != b->dtype || a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->dims[i] != b->dims[i])
            return false;
    return true;
}

int64_t ls_type_rows(const ls_type *t)
{
    LS_ARG_OR(t, 0);
    ls_type rows = *t;
    rows.ndim = t->ndim > 1 ? t->ndim - 1 : 0;
    return ls_type_count(&rows);
}

ls_tensor ls_tensor_of(void *data, const ls_type *type)
{
    LS_ARG_OR(type, ((ls_tensor){ 0 }));
    ls_tensor t = { .data = data, .type = *type };
    int64_t stride = 1;
    for (int i = type->ndim - 1; i >= 0; i--) {
        t.strides[i] = stride;
        stride *= type->dims[i];
    }
    return t;
}

bool ls_tensor_is_contiguous(const ls_tensor *t)
{
    LS_ARG_OR(t, false);
    int64_t stride = 1;
    if (ls_type_count(&t->type) == 0)
        return true;
    for (int i = t->type.ndim - 1; i >= 0; i--) {
        /* the stride of a dimension of size 1 is never used */
        if (t->type.dims[i] != 1 && t->strides[i] != stride)
            return false;
        stride *= t->type.dims[i];
    }
    return true;
}
