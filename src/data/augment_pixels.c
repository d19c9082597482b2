/* augment_pixels.c - applies drawn steps to an image of u8 [channels, height, width], in place.
 *
 * Colours are computed as torchvision's kernels for u8 tensors compute them: in f32, cut off to levels.
 * Affine steps are those of its kernels for Pillow images: nearest pixel, coordinates in 16.16 fixed point.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "augment.h"
#include "base/sys.h"

typedef struct image {
    int channels, height, width;
    size_t plane;        /* height * width */
    uint8_t *at, *spare; /* spare: [plane] */
} image;

static uint8_t level(float x) { return (uint8_t)(x < 0 ? 0 : x > 255 ? 255 : x); }

/* ---- moves */

/* out[y, x] = in[y - s.y, x - s.x], 0 from outside */
static void shift(const image *m, int dx, int dy)
{
    const int w = m->width, h = m->height, wide = w - (dx < 0 ? -dx : dx);
    for (int c = 0; c < m->channels; c++)
        for (int i = 0; i < h; i++) {
            const int y = dy > 0 ? h - 1 - i : i, from = y - dy; /* a row is read before it is written */
            uint8_t *to = m->at + (size_t)c * m->plane + (size_t)y * (size_t)w;
            if (from < 0 || from >= h || wide <= 0) {
                memset(to, 0, (size_t)w);
                continue;
            }
            const uint8_t *row = m->at + (size_t)c * m->plane + (size_t)from * (size_t)w;
            memmove(to + (dx > 0 ? dx : 0), row + (dx < 0 ? -dx : 0), (size_t)wide);
            memset(dx > 0 ? to : to + wide, 0, (size_t)(w - wide));
        }
}

/* Each row from its two ends, eight pixels at a time. */
static void flip(const image *m)
{
    const size_t rows = (size_t)m->channels * (size_t)m->height, w = (size_t)m->width;
    for (size_t r = 0; r < rows; r++) {
        uint8_t *a = m->at + r * w, *b = a + w;
        for (; b - a >= 16; a += 8) {
            uint64_t x, y;
            b -= 8;
            memcpy(&x, a, 8);
            memcpy(&y, b, 8);
            x = __builtin_bswap64(x);
            y = __builtin_bswap64(y);
            memcpy(a, &y, 8);
            memcpy(b, &x, 8);
        }
        for (; b - a >= 2; a++) {
            const uint8_t x = *a;
            *a = *--b;
            *b = x;
        }
    }
}

/* out[y, x] = in at t[0] x + t[1] y + t[2], t[3] x + t[4] y + t[5]; pixels have their centres at half */
static void affine(const image *m, const double t[6])
{
    int64_t f[6];
    for (int i = 0; i < 6; i += 3) {
        f[i] = (int64_t)floor(t[i] * 65536 + 0.5);
        f[i + 1] = (int64_t)floor(t[i + 1] * 65536 + 0.5);
        f[i + 2] = (int64_t)floor((t[i + 2] + t[i] * 0.5 + t[i + 1] * 0.5) * 65536 + 0.5);
    }
    for (int c = 0; c < m->channels; c++) {
        uint8_t *to = m->at + (size_t)c * m->plane;
        memcpy(m->spare, to, m->plane);
        for (int y = 0; y < m->height; y++)
            for (int x = 0; x < m->width; x++) {
                const int64_t u = (f[0] * x + f[1] * y + f[2]) >> 16, v = (f[3] * x + f[4] * y + f[5]) >> 16;
                const bool inside = u >= 0 && u < m->width && v >= 0 && v < m->height;
                *to++ = inside ? m->spare[v * m->width + u] : 0;
            }
    }
}

static void rotate(const image *m, double degrees)
{
    const double angle = -degrees * (3.14159265358979323846 / 180), cosine = cos(angle), sine = sin(angle),
                 cx = m->width / 2.0, cy = m->height / 2.0;
    affine(m, (double[6]){ cosine, sine, cx - cosine * cx - sine * cy, -sine, cosine,
                           cy + sine * cx - cosine * cy });
}

/* ---- colours */

/* Replaces each value of n by the table's. */
static void look_up(uint8_t *at, size_t n, const uint8_t table[256])
{
    for (size_t i = 0; i < n; i++)
        at[i] = table[at[i]];
}

/* x f + other (1 - f) */
static void blend_with(const image *m, float other, double factor)
{
    uint8_t table[256];
    for (int i = 0; i < 256; i++)
        table[i] = level((float)i * (float)factor + other * (float)(1 - factor));
    look_up(m->at, (size_t)m->channels * m->plane, table);
}

static float gray(const uint8_t *at, size_t plane)
{
    return (float)(int)(0.2989f * (float)at[0] + 0.587f * (float)at[plane] + 0.114f * (float)at[2 * plane]);
}

static void contrast(const image *m, double factor)
{
    const size_t n = m->channels == 3 ? m->plane : (size_t)m->channels * m->plane;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += m->channels == 3 ? (uint64_t)gray(m->at + i, m->plane) : m->at[i];
    blend_with(m, (float)((double)sum / (double)n), factor);
}

static void saturation(const image *m, double factor)
{
    const float f = (float)factor, rest = (float)(1 - factor);
    for (size_t i = 0; i < m->plane && m->channels == 3; i++) {
        uint8_t *at = m->at + i;
        const float g = gray(at, m->plane) * rest;
        for (int c = 0; c < 3; c++)
            at[(size_t)c * m->plane] = level((float)at[(size_t)c * m->plane] * f + g);
    }
}

/* Through hue, saturation and value, each in 0..1, and back. */
static void turn_hue(uint8_t *at, size_t plane, float turns)
{
    const float r = (float)at[0] / 255, g = (float)at[plane] / 255, b = (float)at[2 * plane] / 255,
                top = fmaxf(r, fmaxf(g, b)), range = top - fminf(r, fminf(g, b));
    if (range <= 0)
        return; /* a gray has no hue */
    float h = top == r ? (g - b) / range : top == g ? 2 + (b - r) / range : 4 + (r - g) / range;
    h = h * (1.0f / 6) + turns;
    h = (h - floorf(h)) * 6;
    const int sector = (int)h % 6;
    const float f = h - floorf(h), s = range / top, p = top * (1 - s), q = top * (1 - s * f),
                t = top * (1 - s * (1 - f));
    const float colours[6][3] = { { top, t, p }, { q, top, p }, { p, top, t },
                                  { p, q, top }, { t, p, top }, { top, p, q } };
    for (int c = 0; c < 3; c++)
        at[(size_t)c * plane] = level(colours[sector][c] * 255.999f);
}

/* Blends with what a 3 x 3 filter makes of the image: eight neighbours, and the pixel five times. The border
 * stays. */
static void sharpness(const image *m, double factor)
{
    const int w = m->width, h = m->height;
    const float rest = (float)(1 - factor);
    for (int c = 0; c < m->channels && w > 2 && h > 2; c++) {
        uint8_t *to = m->at + (size_t)c * m->plane;
        memcpy(m->spare, to, m->plane);
        for (int y = 1; y < h - 1; y++)
            for (int x = 1; x < w - 1; x++) {
                const uint8_t *p = m->spare + (size_t)y * (size_t)w + x;
                const int sum = p[-w - 1] + p[-w] + p[-w + 1] + p[-1] + 5 * p[0] + p[1] + p[w - 1] + p[w] +
                                p[w + 1],
                          blurred = (2 * sum + 13) / 26;
                to[(size_t)y * (size_t)w + (size_t)x] = level((float)p[0] + (float)(blurred - p[0]) * rest);
            }
    }
}

static void invert_from(const image *m, double threshold)
{
    uint8_t table[256];
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)(i >= threshold ? 255 - i : i);
    look_up(m->at, (size_t)m->channels * m->plane, table);
}

static void keep_bits(const image *m, int bits)
{
    const uint8_t mask = (uint8_t)(bits >= 8 ? 255 : ((1 << bits) - 1) << (8 - bits));
    for (size_t i = 0; i < (size_t)m->channels * m->plane; i++)
        m->at[i] &= mask;
}

/* Each channel from its own least to its largest value. */
static void autocontrast(const image *m)
{
    for (int c = 0; c < m->channels; c++) {
        uint8_t *at = m->at + (size_t)c * m->plane, least = 255, most = 0, table[256];
        for (size_t i = 0; i < m->plane; i++) {
            least = at[i] < least ? at[i] : least;
            most = at[i] > most ? at[i] : most;
        }
        const float scale = (float)(most - least) * (float)(1.0 / 255);
        if (most == least)
            continue;
        for (int i = 0; i < 256; i++)
            table[i] = level((float)(i - least) / scale);
        look_up(at, m->plane, table);
    }
}

/* Pillow's scheme, which torchvision follows. */
static void equalize(const image *m)
{
    for (int c = 0; c < m->channels; c++) {
        uint8_t *at = m->at + (size_t)c * m->plane, table[256] = { 0 };
        size_t count[256] = { 0 }, before = 0;
        int last = 255;
        for (size_t i = 0; i < m->plane; i++)
            count[at[i]]++;
        while (!count[last])
            last--;
        const size_t step = (m->plane - count[last]) / 255;
        for (int i = 1; i < 256 && step; i++) {
            before += count[i - 1];
            const size_t to = (before + step / 2) / step;
            table[i] = (uint8_t)(to < 255 ? to : 255);
        }
        if (step)
            look_up(at, m->plane, table);
    }
}

static void erase(const image *m, const ls_augment_step *s)
{
    for (int c = 0; c < m->channels; c++)
        for (int y = s->y; y < s->y + s->height; y++)
            memset(m->at + (size_t)c * m->plane + (size_t)y * (size_t)m->width + s->x, s->fill[c % 3],
                   (size_t)s->width);
}

static void apply(const image *m, const ls_augment_step *s)
{
    const double v = s->value;
    switch (s->kind) {
    case LS_AUGMENT_SHIFT: shift(m, s->x, s->y); break;
    case LS_AUGMENT_FLIP: flip(m); break;
    case LS_AUGMENT_IDENTITY: break;
    case LS_AUGMENT_SHEAR_X: affine(m, (double[6]){ 1, v, 0, 0, 1, 0 }); break;
    case LS_AUGMENT_SHEAR_Y: affine(m, (double[6]){ 1, 0, 0, v, 1, 0 }); break;
    case LS_AUGMENT_TRANSLATE_X: shift(m, (int)v, 0); break;
    case LS_AUGMENT_TRANSLATE_Y: shift(m, 0, (int)v); break;
    case LS_AUGMENT_ROTATE: rotate(m, v); break;
    case LS_AUGMENT_BRIGHTNESS: blend_with(m, 0, v); break;
    case LS_AUGMENT_SATURATION: saturation(m, v); break;
    case LS_AUGMENT_CONTRAST: contrast(m, v); break;
    case LS_AUGMENT_SHARPNESS: sharpness(m, v); break;
    case LS_AUGMENT_POSTERIZE: keep_bits(m, (int)v); break;
    case LS_AUGMENT_SOLARIZE: invert_from(m, v); break;
    case LS_AUGMENT_AUTOCONTRAST: autocontrast(m); break;
    case LS_AUGMENT_EQUALIZE: equalize(m); break;
    case LS_AUGMENT_HUE:
        for (size_t i = 0; i < m->plane && m->channels == 3; i++)
            turn_hue(m->at + i, m->plane, (float)v);
        break;
    case LS_AUGMENT_ERASE: erase(m, s); break;
    }
}

ls_status ls_augment_apply(const ls_augment_step *steps, int n, int channels, int height, int width,
                           uint8_t *pixels)
{
    image m = { channels, height, width, (size_t)height * (size_t)width, pixels, NULL };
    bool spare = false;
    for (int i = 0; i < n; i++)
        spare |= steps[i].kind == LS_AUGMENT_SHEAR_X || steps[i].kind == LS_AUGMENT_SHEAR_Y ||
                 steps[i].kind == LS_AUGMENT_ROTATE || steps[i].kind == LS_AUGMENT_SHARPNESS;
    if (spare && !(m.spare = ls_sys_malloc(m.plane)))
        return ls_fail(LS_E_MEMORY, "no memory for changing an image of %d x %d pixels", width, height);
    for (int i = 0; i < n; i++)
        apply(&m, &steps[i]);
    free(m.spare);
    return LS_OK;
}

static bool moves(ls_augment_kind kind)
{
    switch (kind) {
    case LS_AUGMENT_SHIFT:
    case LS_AUGMENT_FLIP:
    case LS_AUGMENT_SHEAR_X:
    case LS_AUGMENT_SHEAR_Y:
    case LS_AUGMENT_TRANSLATE_X:
    case LS_AUGMENT_TRANSLATE_Y:
    case LS_AUGMENT_ROTATE: return true;
    default: return false;
    }
}

ls_status ls_augment_mask(const ls_augment_step *steps, int n, int height, int width, uint8_t *mask)
{
    for (int i = 0; i < n; i++)
        if (moves(steps[i].kind))
            LS_TRY(ls_augment_apply(&steps[i], 1, 1, height, width, mask));
    return LS_OK;
}
