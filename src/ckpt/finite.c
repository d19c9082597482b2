/* finite.c - whether a list of tensors may have the elements that it has. A checkpoint of NaN could only fail
 * again, and would push out the ones before it. */
#include <inttypes.h>
#include <stdint.h>

#include "ckpt/ranges.h"

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

/* The first of n elements that is NaN or, unless that is allowed, infinite; n: none is. */
static int64_t first_bad(ls_dtype d, const void *data, int64_t n, bool infinite)
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
    return n;
}

ls_status ls_ranges_finite(const ls_tensor_list *l, int64_t i, const void *data, int64_t n, int64_t first)
{
    const ls_named_tensor *t = &l->tensors[i];
    const int64_t bad = i < l->numbers ? first_bad(t->tensor.type.dtype, data, n, i >= l->finite) : n;
    return bad == n ? LS_OK
                    : ls_fail(LS_E_NUMERIC,
                              "\"%s\" has a NaN or an infinity, the first is element %" PRId64 " of %" PRId64,
                              t->name, first + bad, ls_type_count(&t->tensor.type));
}
