/* access.c - elements of any type as doubles, and their positions. bf16 and f16 are rounded from the f32 that
 * is nearest to the double, because arithmetic on them is f32, rounded to nearest even when stored
 * (docs/ops.md). */
#include "ref.h"
#include <string.h>
#include "base/bf16.h"

/* IEEE binary16: 1 sign, 5 exponent (bias 15), 10 fraction bits. */
static double from_f16(uint16_t h)
{
    const double sign = h & 0x8000 ? -1.0 : 1.0;
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    if (exponent == 31)
        return fraction ? (double)NAN : sign * HUGE_VAL;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static uint16_t to_f16(float x)
{
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const double size = fabs((double)x);
    if (isnan(x))
        return sign | 0x7e00;
    if (size >= 65520.0) /* halfway between the largest number, 65504, and 2^16 */
        return sign | 0x7c00;
    /* Subnormal: a multiple of 2^-24. If it is rounded up to 2^-14, the bits are those of the first normal
     * number. */
    if (size < ldexp(1, -14))
        return (uint16_t)(sign | (int)rint(ldexp(size, 24)));
    int exponent; /* size = m * 2^exponent, 0.5 <= m < 1 */
    /* 1024 to 2048; a carry increases the exponent */
    const int m = (int)rint(ldexp(frexp(size, &exponent), 11));
    return (uint16_t)(sign | ((exponent + 14) * 1024 + (m - 1024)));
}

static int64_t to_integer(double x, int64_t low, int64_t high) /* towards zero, as in C */
{
    if (isnan(x))
        return 0;
    if (x <= (double)low)
        return low;
    return x >= (double)high ? high : (int64_t)x; /* (double)INT64_MAX is 2^63 */
}

double ls_ref_get(const ls_tensor *t, int64_t offset)
{
    switch (t->type.dtype) {
    case LS_F32: return (double)((const float *)t->data)[offset];
    case LS_F64: return ((const double *)t->data)[offset];
    case LS_BF16: return (double)ls_from_bf16(((const uint16_t *)t->data)[offset]);
    case LS_F16: return from_f16(((const uint16_t *)t->data)[offset]);
    case LS_I32: return ((const int32_t *)t->data)[offset];
    case LS_I64: return (double)((const int64_t *)t->data)[offset];
    case LS_U8: return ((const uint8_t *)t->data)[offset];
    case LS_DTYPE_COUNT: break;
    }
    return (double)NAN;
}

void ls_ref_put(const ls_tensor *t, int64_t offset, double x)
{
    switch (t->type.dtype) {
    case LS_F32: ((float *)t->data)[offset] = (float)x; break;
    case LS_F64: ((double *)t->data)[offset] = x; break;
    case LS_BF16: ((uint16_t *)t->data)[offset] = ls_to_bf16((float)x); break;
    case LS_F16: ((uint16_t *)t->data)[offset] = to_f16((float)x); break;
    case LS_I32: ((int32_t *)t->data)[offset] = (int32_t)to_integer(x, INT32_MIN, INT32_MAX); break;
    case LS_I64: ((int64_t *)t->data)[offset] = to_integer(x, INT64_MIN, INT64_MAX); break;
    case LS_U8: ((uint8_t *)t->data)[offset] = (uint8_t)to_integer(x, 0, UINT8_MAX); break;
    case LS_DTYPE_COUNT: break;
    }
}

double ls_ref_round(double x, ls_dtype dtype)
{
    uint64_t cell;
    const ls_tensor one = { .data = &cell, .type = LS_SCALAR(dtype) };
    ls_ref_put(&one, 0, x);
    return ls_ref_get(&one, 0);
}

int64_t ls_ref_offset(const ls_tensor *t, int dims, int64_t index)
{
    int64_t offset = 0;
    for (int d = dims - 1; d >= 0; d--) {
        offset += index % t->type.dims[d] * t->strides[d];
        index /= t->type.dims[d];
    }
    return offset;
}

int64_t ls_ref_broadcast(const ls_tensor *t, const ls_type *shape, int64_t index)
{
    int64_t offset = 0;
    for (int d = 1; d <= shape->ndim; d++) { /* from the right, as NumPy aligns shapes */
        const int mine = t->type.ndim - d;
        if (mine >= 0 && t->type.dims[mine] > 1)
            offset += index % shape->dims[shape->ndim - d] * t->strides[mine];
        index /= shape->dims[shape->ndim - d];
    }
    return offset;
}
