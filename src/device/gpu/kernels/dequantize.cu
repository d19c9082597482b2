/* dequantize.cu - weights of 4 bits (base/nf4.h) as numbers of type X, and their scales. */
#include "dialect.h"
#include "dequantize.h"

KERNEL(dequantize_scales, scales_args, DEQUANTIZE_THREADS)
{
    const i64 i = BLOCK * DEQUANTIZE_THREADS + THREAD;
    if (i >= a.n)
        return;
    const float x = a.values[AT(const u8, a.bytes)[i]] * AT(const float, a.nested)[i / SCALE_SCALES];
    AT(float, a.scales)[i] = x + *AT(const float, a.offset);
}

KERNEL(dequantize, dequantize_args, DEQUANTIZE_THREADS)
{
    const i64 i = BLOCK * DEQUANTIZE_THREADS + THREAD;
    if (i >= a.n)
        return;
    const float scale = AT(const float, a.scales)[i / SCALE_BYTES];
    const u8 byte = AT(const u8, a.codes)[i];
    STORE(X, AT(X, a.w), 2 * i, a.values[byte >> 4] * scale);
    STORE(X, AT(X, a.w), 2 * i + 1, a.values[byte & 15] * scale);
}
