/* finite.c - see finite.h. */
#include "finite.h"

/* The exponent's bits of a type, and its bytes. */
static uint64_t exponent_of(ls_dtype d)
{
    switch (d) {
    case LS_F64: return 0x7ff0000000000000;
    case LS_F32: return 0x7f800000;
    case LS_BF16: return 0x7f80;
    case LS_F16: return 0x7c00;
    default: return 0;
    }
}

static uint64_t element(const void *data, size_t size, int64_t i)
{
    return size == 8   ? ((const uint64_t *)data)[i]
           : size == 4 ? ((const uint32_t *)data)[i]
                       : ((const uint16_t *)data)[i];
}

enum { BLOCK = 4096 };

/* Whether one of n f32 is NaN or infinite. Without a branch, so the compiler can use vectors. */
static bool any_f32(const uint32_t *x, int64_t n)
{
    uint32_t any = 0;
    for (int64_t i = 0; i < n; i++)
        any |= (x[i] & 0x7f800000) == 0x7f800000;
    return any;
}

int64_t ls_first_wild(ls_dtype d, const void *data, int64_t n, bool infinite)
{
    const uint64_t exponent = exponent_of(d);
    const size_t size = ls_dtype_size(d);
    for (int64_t block = 0; block < n && exponent; block += BLOCK) {
        const int64_t end = n - block < BLOCK ? n : block + BLOCK;
        if (d == LS_F32 && !any_f32((const uint32_t *)data + block, end - block))
            continue;
        for (int64_t i = block; i < end; i++) {
            const uint64_t x = element(data, size, i);
            const bool nan = x & ((exponent & -exponent) - 1); /* a bit of the fraction */
            if ((x & exponent) == exponent && (nan || !infinite))
                return i;
        }
    }
    return -1;
}
