/* nf4.c - see nf4.h. */
#include "nf4.h"

#include <math.h>
#include <string.h>

/* quantiles of the normal distribution, scaled to [-1, 1] */
const float ls_nf4_numbers[LS_NF4_CODES] = {
    -1.0f,           -0x1.647362p-1f, -0x1.0cd660p-1f, -0x1.946540p-2f,
    -0x1.23449ap-2f, -0x1.7a6a7ep-3f, -0x1.74f0e2p-4f, 0.0f,
    0x1.45f5fep-4f,  0x1.4995c6p-3f,  0x1.f809bap-3f,  0x1.5a0674p-2f,
    0x1.c34970p-2f,  0x1.200f56p-1f,  0x1.722766p-1f,  1.0f
};

/* Point k of n equally spaced ones from 0.1 to 1, as torch.linspace rounds it: counted from the nearer end.
 */
static float spaced(int k, int n)
{
    const float step = (1.0f - 0.1f) / (float)(n - 1);
    return k < n / 2 ? (float)(0.1f + (double)step * k) : (float)(1.0 - (double)step * (n - 1 - k));
}

/* Of each power of ten from 1e-6 to 1, with the sign, the means of 1, 2, 4 .. 64 intervals between 0.1 and 1;
 * and 0 and 1. */
void ls_nf4_map(float map[LS_NF4_MAP])
{
    static const float POWERS[] = { 1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f };
    enum { ZERO = 127 };
    map[ZERO] = 0;
    map[LS_NF4_MAP - 1] = 1;
    for (int p = 0, at = 1; p < 7; p++)
        for (int k = 0; k < 1 << p; k++, at++) {
            const int points = (1 << p) + 1;
            const float mean = (spaced(k, points) + spaced(k + 1, points)) / 2.0f;
            map[ZERO + at] = POWERS[p] * mean;
            map[ZERO - at] = -map[ZERO + at];
        }
}

float ls_nf4_largest(const float x[LS_NF4_BLOCK])
{
    float largest = 0;
    for (int i = 0; i < LS_NF4_BLOCK; i++)
        largest = fabsf(x[i]) > largest || isnan(x[i]) ? fabsf(x[i]) : largest;
    return largest;
}

/* The number of the nearest value, the smaller one of two as near. */
void ls_nf4_codes(uint8_t to[LS_NF4_BLOCK / 2], const float x[LS_NF4_BLOCK], float largest)
{
    const float by = 1.0f / (largest < 1e-38f ? 1e-38f : largest);
    int32_t code[LS_NF4_BLOCK] = { 0 };
    for (int k = 1; k < LS_NF4_CODES; k++) {
        const float middle = (ls_nf4_numbers[k - 1] + ls_nf4_numbers[k]) / 2.0f;
        for (int i = 0; i < LS_NF4_BLOCK; i++)
            code[i] += x[i] * by > middle;
    }
    for (int i = 0; i < LS_NF4_BLOCK; i += 2)
        to[i / 2] = (uint8_t)(code[i] << 4 | code[i + 1]);
}

/* The nearest value of the map to one of 65536 equally spaced points in [-1, 1], of which bitsandbytes keeps
 * a table. */
static uint8_t nearest(const float map[LS_NF4_MAP], int point)
{
    const double x = -1.0 + 2.0 * point / 65535.0;
    int low = 0, high = LS_NF4_MAP - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (((double)map[middle] + map[middle + 1]) / 2 < x)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint8_t)low;
}

void ls_nf4_scales(uint8_t *to, float *nested, float *offset, const float *scales, int64_t n)
{
    float map[LS_NF4_MAP];
    double sum = 0;
    ls_nf4_map(map);
    for (int64_t i = 0; i < n; i++)
        sum += scales[i];
    *offset = n ? (float)(sum / (double)n) : 0;
    for (int64_t first = 0; first < n; first += LS_NF4_NESTED) {
        const int64_t end = first + LS_NF4_NESTED < n ? first + LS_NF4_NESTED : n;
        float largest = 0;
        for (int64_t i = first; i < end; i++)
            largest = fmaxf(largest, fabsf(scales[i] - *offset));
        nested[first / LS_NF4_NESTED] = largest;
        for (int64_t i = first; i < end; i++) {
            const float x = largest > 0 ? (scales[i] - *offset) / largest : 0;
            to[i] = nearest(map, (int)((x + 1.0f) * 0.5f * 65535.0f + 0.5f));
        }
    }
}

size_t ls_nf4_part(const char *name)
{
    static const char *const PARTS[] = { ".absmax", ".nested_absmax", ".nested_offset" };
    const char *dot = strrchr(name, '.');
    for (size_t k = 0; dot && k < sizeof PARTS / sizeof *PARTS; k++)
        if (!strcmp(dot, PARTS[k]))
            return (size_t)(dot - name);
    return 0;
}
