/* augment.c - draws the random changes of an image: which steps, and their parameters. Ranges, numbers of
 * tries and fallbacks are torchvision's. */
#include "augment.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "base/rng.h"

/* Random numbers of one sample for one purpose, one after the other. */
typedef struct dice {
    ls_rng_key key;
    uint64_t next;
} dice;

static dice dice_of(uint64_t draw, const char *purpose)
{
    return (dice){ .key = ls_rng_key_of(draw, ls_hash_text(purpose)) };
}

static double uniform(dice *d, double from, double to)
{
    return from + (to - from) * ls_rng_uniform(d->key, d->next++);
}

static int below(dice *d, int n) { return (int)ls_rng_below(d->key, d->next++, (uint64_t)n); }

/* A box of `area` pixels times a number of `scale`, with a ratio of width to height of `ratio`; as floats. */
static void draw_box(dice *d, double area, const double scale[2], const double ratio[2], double *width,
                     double *height)
{
    const double target = area * uniform(d, scale[0], scale[1]),
                 aspect = exp(uniform(d, log(ratio[0]), log(ratio[1])));
    *width = rint(sqrt(target * aspect));
    *height = rint(sqrt(target / aspect));
}

/* The middle of the image with the ratio that is nearest to the image's own. */
static void central_crop(const double ratio[2], int width, int height, int box[4])
{
    const double own = (double)width / (double)height;
    box[2] = width;
    box[3] = height;
    if (own < ratio[0])
        box[3] = (int)rint(width / ratio[0]);
    else if (own > ratio[1])
        box[2] = (int)rint(height * ratio[1]);
    /* an image of a few pixels: a ratio far from 1 leaves at least one of them */
    box[2] = box[2] < 1 ? 1 : box[2] > width ? width : box[2];
    box[3] = box[3] < 1 ? 1 : box[3] > height ? height : box[3];
    box[0] = (width - box[2]) / 2;
    box[1] = (height - box[3]) / 2;
}

void ls_augment_crop(const ls_augment *a, uint64_t draw, int width, int height, int box[4])
{
    box[0] = box[1] = 0;
    box[2] = width;
    box[3] = height;
    if (a->crop != LS_CROP_RESIZED)
        return;
    dice d = dice_of(draw, "crop");
    for (int i = 0; i < 10; i++) {
        double w, h;
        draw_box(&d, (double)width * height, a->scale, a->ratio, &w, &h);
        if (w < 1 || h < 1 || w > width || h > height)
            continue;
        box[2] = (int)w;
        box[3] = (int)h;
        box[1] = below(&d, height - box[3] + 1);
        box[0] = below(&d, width - box[2] + 1);
        return;
    }
    central_crop(a->ratio, width, height, box);
}

/* RandAugment's operations: the largest magnitude, and whether it may be negative. */
static const struct {
    double most;
    bool is_signed;
} OPS[] = {
    [LS_AUGMENT_IDENTITY] = { 0, false },
    [LS_AUGMENT_SHEAR_X] = { 0.3, true },
    [LS_AUGMENT_SHEAR_Y] = { 0.3, true },
    [LS_AUGMENT_TRANSLATE_X] = { 150.0 / 331.0, true },
    [LS_AUGMENT_TRANSLATE_Y] = { 150.0 / 331.0, true },
    [LS_AUGMENT_ROTATE] = { 30, true },
    [LS_AUGMENT_BRIGHTNESS] = { 0.9, true },
    [LS_AUGMENT_SATURATION] = { 0.9, true },
    [LS_AUGMENT_CONTRAST] = { 0.9, true },
    [LS_AUGMENT_SHARPNESS] = { 0.9, true },
    [LS_AUGMENT_POSTERIZE] = { 4, false },
    [LS_AUGMENT_SOLARIZE] = { 1, false },
    [LS_AUGMENT_AUTOCONTRAST] = { 0, false },
    [LS_AUGMENT_EQUALIZE] = { 0, false },
};

static ls_augment_step rand_augment(const ls_augment *a, dice *d, int height, int width)
{
    const int first = LS_AUGMENT_IDENTITY, kinds = LS_AUGMENT_EQUALIZE - first + 1;
    ls_augment_step s = { .kind = (ls_augment_kind)(first + below(d, kinds)) };
    const double part = (double)a->magnitude / (a->bins - 1),
                 sign = uniform(d, 0, 1) <= 0.5 && OPS[s.kind].is_signed ? -1 : 1;
    s.value = sign * part * OPS[s.kind].most;
    switch (s.kind) {
    case LS_AUGMENT_TRANSLATE_X: s.value = trunc(s.value * width); break;
    case LS_AUGMENT_TRANSLATE_Y: s.value = trunc(s.value * height); break;
    case LS_AUGMENT_BRIGHTNESS:
    case LS_AUGMENT_SATURATION:
    case LS_AUGMENT_CONTRAST:
    case LS_AUGMENT_SHARPNESS: s.value += 1; break;
    case LS_AUGMENT_POSTERIZE: s.value = rint(8 - s.value); break;
    case LS_AUGMENT_SOLARIZE: s.value = 255 * (1 - s.value); break;
    default: break;
    }
    return s;
}

/* ColorJitter: each of the four that is asked for once, in random order. */
static int jitter(const ls_augment *a, dice *d, ls_augment_step *out)
{
    static const ls_augment_kind KINDS[4] = { LS_AUGMENT_BRIGHTNESS, LS_AUGMENT_CONTRAST,
                                              LS_AUGMENT_SATURATION, LS_AUGMENT_HUE };
    const double by[4] = { a->brightness, a->contrast, a->saturation, a->hue };
    int order[4] = { 0, 1, 2, 3 }, n = 0;
    double values[4];
    for (int i = 3; i > 0; i--) {
        const int j = below(d, i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (int i = 0; i < 4; i++)
        values[i] = i == 3 ? uniform(d, -by[i], by[i]) : uniform(d, fmax(0, 1 - by[i]), 1 + by[i]);
    for (int i = 0; i < 4; i++)
        if (by[order[i]] > 0)
            out[n++] = (ls_augment_step){ .kind = KINDS[order[i]], .value = values[order[i]] };
    return n;
}

/* After ten tries that do not fit, nothing is erased. */
static int erase(const ls_augment *a, dice *d, int height, int width, ls_augment_step *out)
{
    if (uniform(d, 0, 1) >= a->erase)
        return 0;
    for (int i = 0; i < 10; i++) {
        double w, h;
        /* torchvision's ratio is here that of height to width */
        draw_box(d, (double)width * height, a->erase_scale, a->erase_ratio, &h, &w);
        if (h >= height || w >= width)
            continue;
        *out = (ls_augment_step){ .kind = LS_AUGMENT_ERASE, .width = (int)w, .height = (int)h };
        out->y = below(d, height - out->height + 1);
        out->x = below(d, width - out->width + 1);
        memcpy(out->fill, a->mean, sizeof out->fill);
        return 1;
    }
    return 0;
}

static bool jitters(const ls_augment *a)
{
    return a->brightness > 0 || a->contrast > 0 || a->saturation > 0 || a->hue > 0;
}

bool ls_augment_changes(const ls_augment *a)
{
    return a->crop != LS_CROP_NONE || a->flip > 0 || a->ops > 0 || jitters(a) || a->erase > 0 ||
           a->mixup > 0 || a->cutmix > 0;
}

int ls_augment_draw(const ls_augment *a, uint64_t draw, int height, int width,
                    ls_augment_step out[LS_AUGMENT_STEPS])
{
    LS_CHECK(a->ops <= LS_AUGMENT_OPS, "%d operations of RandAugment", a->ops);
    int n = 0;
    if (a->crop == LS_CROP_PADDED) {
        dice d = dice_of(draw, "crop");
        out[n] = (ls_augment_step){ .kind = LS_AUGMENT_SHIFT };
        out[n].y = a->padding - below(&d, 2 * a->padding + 1);
        out[n++].x = a->padding - below(&d, 2 * a->padding + 1);
    }
    if (a->flip > 0) {
        dice d = dice_of(draw, "flip");
        if (uniform(&d, 0, 1) < a->flip)
            out[n++] = (ls_augment_step){ .kind = LS_AUGMENT_FLIP };
    }
    dice d = dice_of(draw, "randaugment");
    for (int i = 0; i < a->ops; i++)
        out[n++] = rand_augment(a, &d, height, width);
    if (jitters(a)) {
        d = dice_of(draw, "jitter");
        n += jitter(a, &d, out + n);
    }
    if (a->erase > 0) {
        d = dice_of(draw, "erase");
        n += erase(a, &d, height, width, out + n);
    }
    return n;
}

ls_status ls_augment_pixels(const ls_augment *a, uint64_t draw, int channels, int height, int width,
                            uint8_t *pixels)
{
    ls_augment_step steps[LS_AUGMENT_STEPS];
    const int n = ls_augment_draw(a, draw, height, width, steps);
    return ls_augment_apply(steps, n, channels, height, width, pixels);
}

void ls_augment_text(const ls_augment_step *s, char out[LS_AUGMENT_TEXT])
{
    static const char *const FORMATS[] = {
        [LS_AUGMENT_FLIP] = "flip",
        [LS_AUGMENT_IDENTITY] = "identity",
        [LS_AUGMENT_SHEAR_X] = "shear x %.3g",
        [LS_AUGMENT_SHEAR_Y] = "shear y %.3g",
        [LS_AUGMENT_TRANSLATE_X] = "translate x %.0f",
        [LS_AUGMENT_TRANSLATE_Y] = "translate y %.0f",
        [LS_AUGMENT_ROTATE] = "rotate %.3g degrees",
        [LS_AUGMENT_BRIGHTNESS] = "brightness %.3g",
        [LS_AUGMENT_SATURATION] = "saturation %.3g",
        [LS_AUGMENT_CONTRAST] = "contrast %.3g",
        [LS_AUGMENT_SHARPNESS] = "sharpness %.3g",
        [LS_AUGMENT_POSTERIZE] = "posterize to %.0f bits",
        [LS_AUGMENT_SOLARIZE] = "solarize from %.0f",
        [LS_AUGMENT_AUTOCONTRAST] = "autocontrast",
        [LS_AUGMENT_EQUALIZE] = "equalize",
        [LS_AUGMENT_HUE] = "hue %+.3g",
    };
    if (s->kind == LS_AUGMENT_SHIFT)
        snprintf(out, LS_AUGMENT_TEXT, "shift %+d, %+d", s->x, s->y);
    else if (s->kind == LS_AUGMENT_ERASE)
        snprintf(out, LS_AUGMENT_TEXT, "erase %d x %d at %d, %d", s->width, s->height, s->x, s->y);
    else
        snprintf(out, LS_AUGMENT_TEXT, FORMATS[s->kind], s->value);
}
