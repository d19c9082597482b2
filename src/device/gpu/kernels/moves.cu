/* moves.cu - fills memory, and copies rows of bytes: pack, and gather. */
#include "dialect.h"
#include "moves.h"
#include "walk.h"
#include "wide.h"

typedef struct ALIGNED(16) u128 {
    u64 v[2];
} u128;

/* Eight bytes for a thread; those at the ends one by one. */
KERNEL(fill, fill_args, 256)
{
    const u64 end = a.out + (u64)a.bytes, p = (a.out & ~(u64)7) + (u64)(BLOCK * THREADS + THREAD) * 8;
    if (p >= a.out && p + 8 <= end) {
        *AT(u64, p) = a.pattern;
        return;
    }
    for (u64 b = p; b < p + 8; b++)
        if (b >= a.out && b < end)
            *AT(u8, b) = (u8)(a.pattern >> 8 * (b & 7));
}

#define COPY(T) \
    case sizeof(T): *AT(T, to) = *AT(const T, from); break;

DEVICE void copy_unit(u64 to, u64 from, int unit)
{
    switch (unit) {
        COPY(u8)
        COPY(u16)
        COPY(u32)
        COPY(u64)
    default: *AT(u128, to) = *AT(const u128, from); break;
    }
}
/* pattern: repeated, from a multiple of 8 on */
DEVICE void fill_unit(u64 to, u64 pattern, int unit)
{
    switch (unit) {
    case 1: *AT(u8, to) = (u8)pattern; break;
    case 2: *AT(u16, to) = (u16)pattern; break;
    case 4: *AT(u32, to) = (u32)pattern; break;
    case 8: *AT(u64, to) = pattern; break;
    default: {
        u128 both;
        both.v[0] = both.v[1] = pattern;
        *AT(u128, to) = both;
    }
    }
}

KERNEL(put, put_args, 256)
{
    u64 row = (u64)(BLOCK * THREADS + THREAD);
    if (row >= (u64)a.shape.dims[0].size * (u64)a.shape.dims[1].size)
        return;
    const u64 at_unit = (u64)(shape_take(&row, &a.shape, 1) * a.unit),
              to = a.to + row * (u64)a.to_row + at_unit;
    if (a.from)
        copy_unit(to, a.from + row * (u64)a.from_row + at_unit, a.unit);
    else
        fill_unit(to, 0, a.unit);
}

KERNEL(gather, gather_args, 256)
{
    const i64 i = BLOCK * THREADS + THREAD, numbers = a.shape.dims[1].size, units = a.shape.dims[2].size;
    if (i >= a.shape.dims[0].size * numbers * units)
        return;
    u64 outer = (u64)i;
    const i64 u = shape_take(&outer, &a.shape, 2), number = shape_take(&outer, &a.shape, 1),
              from = AT(const i32, a.index)[a.slices ? number : i];
    const u64 to = a.to + (u64)(i * a.unit);
    if (from >= 0 && from < a.size)
        copy_unit(to, a.from + (u64)((((i64)outer * a.size + from) * units + u) * a.unit), a.unit);
    else
        fill_unit(to, a.nan, a.unit);
}
