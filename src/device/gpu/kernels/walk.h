/* walk.h - where element i of a contiguous tensor lies in a strided one of the same shape. */
#pragma once
#include "dialect.h"
#include "shape.h"

DEVICE u64 shape_divide(u64 n, const shape *s, int d)
{
    if (s->large)
        return n / (u64)s->dims[d].size;
    const u32 m = (u32)n;
    return (u32)(((u64)m * s->dims[d].multiply >> 32) + m) >> s->dims[d].shift;
}

/* Takes dimension d off *i: returns the index in it. */
DEVICE i64 shape_take(u64 *i, const shape *s, int d)
{
    if (d == 0)
        return (i64)*i;
    const u64 q = shape_divide(*i, s, d);
    const i64 r = (i64)(*i - q * (u64)s->dims[d].size);
    *i = q;
    return r;
}

DEVICE i64 shape_offset(u64 i, const shape *s, const i64 *strides)
{
    i64 offset = 0;
    for (int d = s->ndim - 1; d >= 0; d--)
        offset += shape_take(&i, s, d) * strides[d];
    return offset;
}
