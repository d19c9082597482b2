/* shapes.c - the built-in data set: ten shapes, 28 x 28 gray, drawn when they are needed, so that everything
 * can be tried without files and network. A sample is a pure function of (split, index): class, position,
 * size, rotation, stroke, brightness and noise come from the counter RNG. Only + - * / and sqrt are used,
 * which are exact in IEEE arithmetic, so every machine draws the same bytes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/rng.h"
#include "base/sys.h"
#include "data/known.h"

static const char *const NAMES[10] = { "disk", "ring",  "square", "frame", "triangle",
                                       "plus", "cross", "bars",   "moon",  "arrow" };
enum { DISK, RING, SQUARE, FRAME, TRIANGLE, PLUS, CROSS, BARS, MOON, ARROW };

#if defined(__x86_64__) && !defined(LS_TSAN) && !defined(LS_ASAN)
#define WIDE __attribute__((target_clones("avx2", "default"))) /* the same bits: nothing is contracted */
#else
#define WIDE
#endif
/* whole, so that the loop over pixels becomes vectors */
#define INLINE static inline __attribute__((always_inline))

INLINE float max2(float a, float b) { return a > b ? a : b; }
INLINE float min2(float a, float b) { return a < b ? a : b; }
INLINE float circle(float x, float y, float r) { return sqrtf(x * x + y * y) - r; }
INLINE float box(float x, float y, float w, float h) { return max2(fabsf(x) - w, fabsf(y) - h); }

/* Signed distance (about; negative inside) from (x, y) to the shape of unit size; t: half the stroke's width.
 */
INLINE float distance_to(int shape, float x, float y, float t)
{
    const float r = 0.70710678f; /* sin 45 degrees */
    switch (shape) {
    case DISK: return circle(x, y, 0.9f);
    case RING: return fabsf(circle(x, y, 0.85f)) - t;
    case SQUARE: return box(x, y, 0.8f, 0.8f);
    case FRAME: return fabsf(box(x, y, 0.8f, 0.8f)) - t;
    case TRIANGLE:
        return max2(0.894f * fabsf(x) - 0.447f * (y + 1.0f), y - 0.8f); /* top at (0, -1), base at y = 0.8 */
    case PLUS: return min2(box(x, y, 1.0f, t), box(x, y, t, 1.0f));
    case CROSS: return min2(box(r * (x + y), r * (x - y), 1.1f, t), box(r * (x + y), r * (x - y), t, 1.1f));
    case BARS: return min2(box(x, y - 0.65f, 1.0f, t), min2(box(x, y, 1.0f, t), box(x, y + 0.65f, 1.0f, t)));
    case MOON: return max2(circle(x, y, 1.0f), -circle(x - 0.55f, y, 0.85f));
    default: /* ARROW: a shaft, and two strokes as its head at the right end */
        return min2(box(x, y, 0.9f, t),
                    max2(fabsf(r * (fabsf(y) + x - 0.9f)) - t, max2(fabsf(y) - 0.75f, 0.0f - x)));
    }
}

/* What a sample looks like; lengths are in pixels. */
typedef struct look {
    float cx, cy, scale, squeeze, stroke, sine, cosine, ink, paper, slope, noise;
    float grain[LS_SHAPES_SIZE * LS_SHAPES_SIZE];
} look;

INLINE void paint_shape(int shape, const look *l, uint8_t *image)
{
    for (int row = 0; row < LS_SHAPES_SIZE; row++) {
        const float dy = (float)row - l->cy, *grain = l->grain + row * LS_SHAPES_SIZE;
        float value[LS_SHAPES_SIZE]; /* floats, then bytes: each loop has vectors of one kind */
        for (int p = 0; p < LS_SHAPES_SIZE; p++) {
            float dx = (float)p - l->cx;
            float x = (l->cosine * dx + l->sine * dy) / (l->scale * l->squeeze),
                  y = (l->cosine * dy - l->sine * dx) / l->scale;
            /* the edge is one pixel wide */
            float cover = min2(max2(0.5f - distance_to(shape, x, y, l->stroke) * l->scale, 0.0f), 1.0f);
            float v = l->paper + (l->ink - l->paper) * cover + l->slope * dx * (1.0f / 14.0f) +
                      l->noise * grain[p];
            value[p] = min2(max2(v, 0.0f), 255.0f);
        }
        for (int p = 0; p < LS_SHAPES_SIZE; p++)
            image[row * LS_SHAPES_SIZE + p] = (uint8_t)value[p];
    }
}

WIDE static void paint(int shape, const look *l, uint8_t *image)
{
    switch (shape) {
    case DISK: paint_shape(DISK, l, image); break;
    case RING: paint_shape(RING, l, image); break;
    case SQUARE: paint_shape(SQUARE, l, image); break;
    case FRAME: paint_shape(FRAME, l, image); break;
    case TRIANGLE: paint_shape(TRIANGLE, l, image); break;
    case PLUS: paint_shape(PLUS, l, image); break;
    case CROSS: paint_shape(CROSS, l, image); break;
    case BARS: paint_shape(BARS, l, image); break;
    case MOON: paint_shape(MOON, l, image); break;
    default: paint_shape(ARROW, l, image); break;
    }
}

int ls_shapes_draw(ls_split split, int64_t i, uint8_t image[LS_SHAPES_SIZE * LS_SHAPES_SIZE])
{
    static const uint64_t PURPOSE[2] = { 0x7368617065730001u,
                                         /* fixed: the set does not depend on the seed */
                                         0x7368617065730002u };
    ls_rng_key key = ls_rng_key_of(0, PURPOSE[split]);
    uint32_t w[12];
    for (uint64_t b = 0; b < 3; b++)
        ls_rng_block(key, (uint64_t)i, b, w + 4 * b);
    float u[12];
    for (int k = 0; k < 12; k++)
        u[k] = (float)(w[k] >> 8) * 0x1p-24f; /* in [0, 1) */

    int shape = (int)(((uint64_t)w[0] * 10) >> 32);
    float cx = 13.5f + 7.5f * (u[1] - 0.5f), cy = 13.5f + 7.5f * (u[2] - 0.5f); /* pixels */
    float scale = 6.0f + 3.5f * u[3], squeeze = 0.8f + 0.4f * u[4];
    float stroke = 0.14f + 0.10f * u[5];
    float a = 0.7f * (u[6] - 0.5f); /* radians: at most 20 degrees in either direction */
    float sine = a * (1.0f - a * a * (1.0f / 6.0f)), cosine = 1.0f - a * a * (0.5f - a * a * (1.0f / 24.0f));
    float ink = 130.0f + 125.0f * u[7], paper = 60.0f * u[8], slope = 60.0f * (u[9] - 0.5f),
          noise = 20.0f + 60.0f * u[10];

    look l = { cx, cy, scale, squeeze, stroke, sine, cosine, ink, paper, slope, noise, { 0 } };
    for (int p = 0; p < LS_SHAPES_SIZE * LS_SHAPES_SIZE; p += 16) {
        uint32_t r[4];
        ls_rng_block(key, (uint64_t)i, 3 + (uint64_t)p / 16, r);
        for (int k = 0; k < 16; k++)
            l.grain[p + k] = (float)(r[k / 4] >> k % 4 * 8 & 255) * (1.0f / 255.0f) - 0.5f;
    }
    paint(shape, &l, image);
    return shape;
}

typedef struct shapes {
    ls_dataset set;
    ls_field fields[2];
    char *source;
} shapes;

static ls_status shapes_read_sample(const ls_dataset *set, int64_t i, void *const *to)
{
    uint8_t unwanted[LS_SHAPES_SIZE * LS_SHAPES_SIZE];
    const int32_t label = ls_shapes_draw(set->split, i, to[0] ? to[0] : unwanted);
    if (to[1])
        *(int32_t *)to[1] = label;
    return LS_OK;
}

static void shapes_close(ls_dataset *set)
{
    free(((shapes *)set)->source);
    free(set);
}

ls_status ls_shapes_open(ls_dataset **out, ls_split split, const char *instead_of)
{
    shapes *d = ls_sys_calloc(1, sizeof *d);
    if (!d || !(d->source = ls_sys_text("built-in shapes%s%s%s", instead_of ? " (" : "",
                                        instead_of ? instead_of : "", instead_of ? " was not found)" : ""))) {
        free(d);
        return ls_fail(LS_E_MEMORY, "no memory for the built-in data set");
    }
    d->fields[0] = (ls_field){ .name = "images", .type = LS_TYPE(LS_U8, 1, LS_SHAPES_SIZE, LS_SHAPES_SIZE) };
    d->fields[1] = (ls_field){
        .name = "labels", .type = LS_SCALAR(LS_I32), .below = 10, .ignorable = true, .names = NAMES
    };
    d->set = (ls_dataset){ .name = "shapes",
                           .source = d->source,
                           .builtin = true,
                           .split = split,
                           .n = split == LS_SPLIT_TRAIN ? LS_SHAPES_TRAIN : LS_SHAPES_EVAL,
                           .n_fields = 2,
                           .fields = d->fields,
                           .digest = ls_hash_text(split == LS_SPLIT_TRAIN ? "built-in shapes 1, train"
                                                                          : "built-in shapes 1, eval"),
                           .read = shapes_read_sample,
                           .count = ls_dataset_one_label,
                           .close = shapes_close };
    *out = &d->set;
    return LS_OK;
}
