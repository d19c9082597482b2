/* gguf_kquants.c - packs blocks of 256 elements whose scales are integers, too. For each group of elements
 * the scale (and of Q4_K an offset) is the one with the least squared error among some that lie near the one
 * that spans the range. */
#include <math.h>

#include "ckpt/gguf_own.h"

enum { ALL = 256, GROUP = 32, GROUPS = ALL / GROUP, SMALL = 16, SMALLS = ALL / SMALL };

static int clamp(int x, int low, int high) { return x < low ? low : x > high ? high : x; }
static int nearest(float x) { return (int)nearbyintf(x); }
static float f16(float x)
{
    uint8_t bytes[2];
    ls_gguf_put_f16(bytes, x);
    return (float)ls_element_read(bytes, LS_F16);
}

/* ---- Q4_K: x = scale * step - offset, with steps 0 .. 15 and an offset >= 0 */

typedef struct line {
    float scale, low; /* low: -offset */
} line;

static float error_of(const float *x, const float *weight, const uint8_t *step, line l)
{
    float sum = 0;
    for (int i = 0; i < GROUP; i++) {
        const float off = l.scale * step[i] + l.low - x[i];
        sum += weight[i] * (off * off);
    }
    return sum;
}

/* The steps that the elements have with this inverse scale, and the line through them with the least weighted
 * error. False: there is none. */
static bool fit(const float *x, const float *weight, float low, float inverse, uint8_t *step, line *l)
{
    float w = 0, wx = 0, ws = 0, wss = 0, wsx = 0;
    for (int i = 0; i < GROUP; i++) {
        const int s = clamp(nearest(inverse * (x[i] - low)), 0, 15);
        step[i] = (uint8_t)s;
        w += weight[i];
        wx += weight[i] * x[i];
        ws += weight[i] * (float)s;
        wss += weight[i] * (float)s * (float)s;
        wsx += weight[i] * (float)s * x[i];
    }
    const float d = w * wss - ws * ws;
    if (!(d > 0))
        return false;
    *l = (line){ (w * wsx - wx * ws) / d, (wss * wx - ws * wsx) / d };
    if (l->low > 0)
        *l = (line){ wsx / wss, 0 };
    return true;
}

static line best_line(const float *x)
{
    float weight[GROUP], low = x[0], high = x[0], squares = 0;
    uint8_t step[GROUP];
    for (int i = 0; i < GROUP; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
        squares += x[i] * x[i];
    }
    low = low > 0 ? 0 : low;
    if (!(high - low > 1e-35f)) /* (its inverse is finite) */
        return (line){ 0, low };
    for (int i = 0; i < GROUP; i++) /* large elements matter more */
        weight[i] = sqrtf(squares / GROUP) + fabsf(x[i]);
    line best = { (high - low) / 15, low }, l;
    for (int i = 0; i < GROUP; i++)
        step[i] = (uint8_t)clamp(nearest((x[i] - low) / best.scale), 0, 15);
    float least = error_of(x, weight, step, best);
    for (int k = 0; k <= 20; k++) /* each begins at the best offset so far */
        if (fit(x, weight, best.low, (14 + 0.1f * (float)k) / (high - best.low), step, &l)) {
            const float error = error_of(x, weight, step, l);
            if (error < least) {
                least = error;
                best = l;
            }
        }
    return best;
}

/* Packs 8 scales and 8 offsets of 6 bits into 12 bytes: the first four of each whole with two bits to spare,
 * which hold the upper bits of the other four. */
static void pack_six_bits(const uint8_t *scale, const uint8_t *offset, uint8_t *out)
{
    for (int i = 0; i < 4; i++) {
        out[i] = (uint8_t)(scale[i] | (scale[i + 4] >> 4) << 6);
        out[i + 4] = (uint8_t)(offset[i] | (offset[i + 4] >> 4) << 6);
        out[i + 8] = (uint8_t)((scale[i + 4] & 15) | (offset[i + 4] & 15) << 4);
    }
}

void ls_gguf_pack_q4_k(const float *x, uint8_t *out)
{
    line lines[GROUPS];
    float most_scale = 0, most_offset = 0;
    uint8_t scale[GROUPS], offset[GROUPS], step[ALL];
    for (int g = 0; g < GROUPS; g++) {
        lines[g] = best_line(x + g * GROUP);
        most_scale = lines[g].scale > most_scale ? lines[g].scale : most_scale;
        most_offset = -lines[g].low > most_offset ? -lines[g].low : most_offset;
    }
    const float per_scale = most_scale > 0 ? 63 / most_scale : 0,
                per_offset = most_offset > 0 ? 63 / most_offset : 0, d = f16(most_scale / 63),
                d_offset = f16(most_offset / 63);
    for (int g = 0; g < GROUPS; g++) {
        scale[g] = (uint8_t)clamp(nearest(per_scale * lines[g].scale), 0, 63);
        offset[g] = (uint8_t)clamp(nearest(per_offset * -lines[g].low), 0, 63);
        const float s = d * scale[g], low = d_offset * offset[g];
        for (int i = g * GROUP; i < (g + 1) * GROUP; i++)
            step[i] = s != 0 ? (uint8_t)clamp(nearest((x[i] + low) / s), 0, 15) : 0;
    }
    ls_gguf_put_f16(out, d);
    ls_gguf_put_f16(out + 2, d_offset);
    pack_six_bits(scale, offset, out + 4);
    for (int i = 0; i < ALL / 2; i++) { /* two groups share 32 bytes */
        const int at = i / GROUP * 2 * GROUP + i % GROUP;
        out[16 + i] = (uint8_t)(step[at] | step[at + GROUP] << 4);
    }
}

/* ---- Q6_K: x = scale * (step - 32), with steps 0 .. 63 */

/* The scale with the least error, weighted by x * x, of steps -32 .. 31. */
static float best_scale(const float *x)
{
    float most = 0, is = 0, best = 0, gain = -1;
    for (int i = 0; i < SMALL; i++)
        if (fabsf(x[i]) > most) {
            most = fabsf(x[i]);
            is = x[i];
        }
    if (most < 1e-15f)
        return 0;
    for (int k = -10; k <= 9; k++) { /* -10: the scale that spans the range comes first */
        const float inverse = -(32 + 0.1f * (float)(k == -10 ? 0 : k)) / is;
        float sx = 0, ss = 0;
        for (int i = 0; i < SMALL; i++) {
            const float s = (float)clamp(nearest(inverse * x[i]), -32, 31), w = x[i] * x[i];
            sx += w * x[i] * s;
            ss += w * s * s;
        }
        if (ss > 0 && sx * sx > gain * ss) { /* the error is the sum of w x x, less sx sx / ss */
            best = sx / ss;
            gain = best * sx;
        }
    }
    return best;
}

void ls_gguf_pack_q6_k(const float *x, uint8_t *out)
{
    float scales[SMALLS], most = 0, is = 0;
    uint8_t step[ALL];
    for (int g = 0; g < SMALLS; g++) {
        scales[g] = best_scale(x + g * SMALL);
        if (fabsf(scales[g]) > most) {
            most = fabsf(scales[g]);
            is = scales[g];
        }
    }
    memset(out, 0, 210);
    if (most < 1e-15f)
        return;
    const float inverse = -128 / is, d = f16(1 / inverse);
    for (int g = 0; g < SMALLS; g++) {
        const int scale = clamp(nearest(inverse * scales[g]), -128, 127);
        const float s = d * (float)scale;
        out[192 + g] = (uint8_t)(int8_t)scale;
        for (int i = g * SMALL; i < (g + 1) * SMALL; i++)
            step[i] = (uint8_t)(s != 0 ? 32 + clamp(nearest(x[i] / s), -32, 31) : 0);
    }
    ls_gguf_put_f16(out + 208, d);
    for (int half = 0; half < 2; half++) /* of 128 elements: lower four bits in 64 bytes, upper two in 32 */
        for (int i = 0; i < 32; i++) {
            const uint8_t *q = step + 128 * half + i;
            out[64 * half + i] = (uint8_t)((q[0] & 15) | (q[64] & 15) << 4);
            out[64 * half + 32 + i] = (uint8_t)((q[32] & 15) | (q[96] & 15) << 4);
            out[128 + 32 * half + i] = (uint8_t)(q[0] >> 4 | (q[32] >> 4) << 2 | (q[64] >> 4) << 4 |
                                                 (q[96] >> 4) << 6);
        }
}
