/* exact.c - see exact.h. */
#include "exact.h"

#include <math.h>
#include <stdbool.h>

static const int64_t LOW = 0xffffffff;

/* Makes every digit but the last one 0 to 2^32 - 1. */
static void carry(ls_exact *e)
{
    for (int i = 0; i + 1 < LS_EXACT_DIGITS; i++) {
        e->digit[i + 1] += e->digit[i] >> 32; /* rounds down */
        e->digit[i] &= LOW;
    }
    e->terms = 0;
}

void ls_exact_add(ls_exact *e, double x)
{
    int exponent;
    const double m = frexp(fabs(x), &exponent); /* 0.5 <= m < 1, or 0 */
    const int sign = x < 0 ? -1 : 1;
    int at = exponent - 53 +
             1074; /* bit of the lowest of 53; below 0 of a subnormal number, which has fewer */
    const uint64_t whole = (uint64_t)ldexp(m, 53) >> (at < 0 ? -at : 0);
    at = at < 0 ? 0 : at;
    const unsigned __int128 bits = (unsigned __int128)whole << at % 32;
    for (int i = 0; i < 3; i++)
        e->digit[at / 32 + i] += sign * (int64_t)(uint32_t)(bits >> 32 * i);
    if (++e->terms == (int64_t)1 << 30)
        carry(e);
}

void ls_exact_merge(ls_exact *e, const ls_exact *other)
{
    ls_exact o = *other;
    carry(&o);
    carry(e);
    for (int i = 0; i < LS_EXACT_DIGITS; i++)
        e->digit[i] += o.digit[i];
}

/* Makes all digits 0 to 2^32 - 1. Returns the sign that they had. */
static int magnitude(ls_exact *e)
{
    carry(e);
    const bool negative = e->digit[LS_EXACT_DIGITS - 1] < 0;
    for (int i = 0; i < LS_EXACT_DIGITS && negative; i++)
        e->digit[i] = -e->digit[i];
    carry(e);
    return negative ? -1 : 1;
}

void ls_exact_add_scaled(ls_exact *e, const ls_exact *other, double factor)
{
    ls_exact o = *other;
    const double signed_factor = magnitude(&o) * factor;
    for (int i = 0; i < LS_EXACT_DIGITS; i++) {
        if (!o.digit[i])
            continue;
        const double digit = ldexp((double)o.digit[i], 32 * i - 1074), product = digit * signed_factor;
        ls_exact_add(e, product);
        ls_exact_add(e, fma(digit, signed_factor, -product));
    }
}

double ls_exact_value(const ls_exact *given)
{
    ls_exact e = *given;
    const int sign = magnitude(&e);
    int top = LS_EXACT_DIGITS - 1;
    while (top > 0 && !e.digit[top])
        top--;
    unsigned __int128 bits = 0; /* of the highest three digits */
    for (int i = 0; i < 3; i++)
        bits = bits << 32 | (uint64_t)(top - i >= 0 ? e.digit[top - i] : 0);
    bool rest = false; /* something below them */
    for (int i = 0; i < top - 2; i++)
        rest = rest || e.digit[i];
    int exponent = 32 * (top - 2) - 1074;
    for (; bits >> 64; bits >>= 1, exponent++)
        rest = rest || (bits & 1);
    const double size = ldexp((double)((uint64_t)bits | rest),
                              exponent); /* 64 bits: `rest` decides a tie only */
    return sign * size;
}
