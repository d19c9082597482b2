/* element.c - one number of any floating-point type, read and written without the help of an instruction set.
 */
#include "element.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* A conversion from one type to another goes through double, which represents every value of the four types
 * exactly. So each type needs one function to double and one from it. */
double ls_element_read(const void *p, ls_dtype t)
{
    uint16_t h;
    uint32_t u;
    float f;
    double d;
    switch (t) {
    case LS_F32: memcpy(&f, p, 4); return (double)f;
    case LS_F64: memcpy(&d, p, 8); return d;
    case LS_BF16:
        memcpy(&h, p, 2);
        u = (uint32_t)h << 16;
        memcpy(&f, &u, 4);
        return (double)f;
    default: /* LS_F16 */ memcpy(&h, p, 2); break;
    }
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                       : exponent == 0 ? ldexp(fraction, -24)
                                       : ldexp(1024 + fraction, exponent - 25);
    return h & 0x8000 ? -magnitude : magnitude;
}

/* The bits, without the sign, of x >= 0 in a format with `bits` bits of fraction and `exponent_bits` bits of
 * exponent, rounded to the nearest value, ties to even. */
static uint32_t narrow_magnitude(double x, int bits, int exponent_bits)
{
    int bias = (1 << (exponent_bits - 1)) - 1;
    uint32_t infinite = (uint32_t)((1 << exponent_bits) - 1) << bits;
    if (isnan(x))
        return infinite | 1u << (bits - 1);
    if (isinf(x))
        return infinite;
    if (x == 0)
        return 0;
    int e;
    frexp(x, &e); /* x = f * 2^e, 0.5 <= f < 1 */
    /* The last bit of the fraction is worth 2^unit. Subnormal numbers all have the unit of the smallest
     * normal one. */
    int unit = (e - 1 < 1 - bias ? 1 - bias : e - 1) - bits;
    uint32_t places = (uint32_t)nearbyint(ldexp(x, -unit)); /* the scaling is exact: only nearbyint rounds */
    /* `places` of a normal number includes its leading 1, which is bit number `bits`. Adding it increases the
     * exponent field by one, so the field starts one lower. A carry of the rounding increases the exponent in
     * the same way. */
    uint32_t out = ((uint32_t)(unit + bits + bias - 1) << bits) + places;
    return out > infinite ? infinite : out;
}

void ls_element_write(void *p, ls_dtype t, double x)
{
    uint16_t h;
    float f = (float)x;
    switch (t) {
    case LS_F32: memcpy(p, &f, 4); return;
    case LS_F64: memcpy(p, &x, 8); return;
    default:
        h = (uint16_t)(t == LS_BF16 ? narrow_magnitude(fabs(x), 7, 8) : narrow_magnitude(fabs(x), 10, 5));
        h = (uint16_t)(h | (signbit(x) ? 0x8000 : 0));
        memcpy(p, &h, 2);
        return;
    }
}
