/* test_augment.c - random changes of images against torchvision's transforms.v2 (tools/golden/augment.py):
 * each operation with given parameters, RandAugment's magnitudes, and the distributions of boxes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/augment.h"
#include "data/augment_mix.h"
#include "data/resample.h"
#include "golden/golden.h"
#include "support/support.h"

enum { CHANNELS = 3, HEIGHT = 16, WIDTH = 18, PIXELS = CHANNELS * HEIGHT * WIDTH };

static ls_weights *GOLDEN;

/* One level: torch adds some products in one rounding and some in two. Moves and tables are exact. */
static const struct {
    const char *name;
    ls_augment_kind kind;
    int levels;
} KINDS[] = {
    { "ShearX", LS_AUGMENT_SHEAR_X, 0 },         { "ShearY", LS_AUGMENT_SHEAR_Y, 0 },
    { "TranslateX", LS_AUGMENT_TRANSLATE_X, 0 }, { "TranslateY", LS_AUGMENT_TRANSLATE_Y, 0 },
    { "Rotate", LS_AUGMENT_ROTATE, 0 },          { "Brightness", LS_AUGMENT_BRIGHTNESS, 1 },
    { "Color", LS_AUGMENT_SATURATION, 1 },       { "Contrast", LS_AUGMENT_CONTRAST, 1 },
    { "Sharpness", LS_AUGMENT_SHARPNESS, 1 },    { "Posterize", LS_AUGMENT_POSTERIZE, 0 },
    { "Solarize", LS_AUGMENT_SOLARIZE, 0 },      { "AutoContrast", LS_AUGMENT_AUTOCONTRAST, 1 },
    { "Equalize", LS_AUGMENT_EQUALIZE, 0 },      { "hue", LS_AUGMENT_HUE, 1 },
};
enum { N_KINDS = sizeof KINDS / sizeof *KINDS };

/* How many pixels differ, by `levels` at most. */
static int64_t differ_within(const char *name, const uint8_t *ours, const ls_weight *want, int levels)
{
    uint8_t *w = golden_values_as(want, LS_U8);
    const int64_t n = golden_count(want);
    int64_t differ = 0;
    for (int64_t i = 0; i < n; i++) {
        if (abs(ours[i] - w[i]) > levels)
            fail_msg("%s: pixel %lld is %d, torchvision has %d", name, (long long)i, ours[i], w[i]);
        differ += ours[i] != w[i];
    }
    free(w);
    return differ;
}

static void expect(const char *name, const uint8_t *ours, const ls_weight *want, int levels)
{
    const int64_t differ = differ_within(name, ours, want, levels), n = golden_count(want);
    if (differ * 20 > n) /* a rounding is rare */
        fail_msg("%s: %lld of %lld pixels differ by a level", name, (long long)differ, (long long)n);
}

static void test_operations(void **state)
{
    (void)state;
    uint8_t *image = golden_values_as(golden_get(GOLDEN, "image"), LS_U8), at[PIXELS];
    for (int i = 0; i < N_KINDS; i++)
        for (int k = 0; golden_has(GOLDEN, "%s.%d.value", KINDS[i].name, k); k++) {
            const ls_augment_step s = { .kind = KINDS[i].kind,
                                        .value = golden_scalar(GOLDEN, "%s.%d.value", KINDS[i].name, k) };
            char what[LS_AUGMENT_TEXT];
            ls_augment_text(&s, what);
            memcpy(at, image, PIXELS);
            ASSERT_OK(ls_augment_apply(&s, 1, CHANNELS, HEIGHT, WIDTH, at));
            expect(what, at, golden_get(GOLDEN, "%s.%d.colour", KINDS[i].name, k), KINDS[i].levels);
            memcpy(at, image, PIXELS);
            ASSERT_OK(ls_augment_apply(&s, 1, 1, HEIGHT, WIDTH, at));
            expect(what, at, golden_get(GOLDEN, "%s.%d.gray", KINDS[i].name, k), KINDS[i].levels);
            assert_memory_equal(at + PIXELS / 3, image + PIXELS / 3, PIXELS - PIXELS / 3);
        }
    memcpy(at, image, PIXELS);
    memset(at + PIXELS / 3, 7, PIXELS / 3); /* one channel has one level only */
    uint8_t flat[PIXELS];
    memcpy(flat, at, PIXELS);
    const ls_augment_step stretch = { .kind = LS_AUGMENT_AUTOCONTRAST },
                          equal = { .kind = LS_AUGMENT_EQUALIZE };
    ASSERT_OK(ls_augment_apply(&stretch, 1, CHANNELS, HEIGHT, WIDTH, at));
    expect("autocontrast", at, golden_get(GOLDEN, "flat.AutoContrast"), 1);
    ASSERT_OK(ls_augment_apply(&equal, 1, CHANNELS, HEIGHT, WIDTH, flat));
    expect("equalize", flat, golden_get(GOLDEN, "flat.Equalize"), 0);
    free(image);
}

/* What RandAugment draws are its operations, each as often, with torchvision's magnitude and either sign. */
static void check_space(int magnitude, int bins)
{
    const ls_augment a = { .ops = 2, .magnitude = magnitude, .bins = bins };
    double *want = golden_values(golden_get(GOLDEN, "space.%d.%d", magnitude, bins));
    int64_t seen[14][2] = { { 0 } };
    enum { DRAWS = 14000 };
    for (uint64_t i = 0; i < DRAWS; i++) {
        ls_augment_step s[LS_AUGMENT_STEPS];
        assert_int_equal(ls_augment_draw(&a, i * 7919, 200, 300, s), 2);
        for (int k = 0; k < 2; k++) {
            const int kind = (int)s[k].kind - LS_AUGMENT_IDENTITY;
            const bool factor = s[k].kind >= LS_AUGMENT_BRIGHTNESS && s[k].kind <= LS_AUGMENT_SHARPNESS;
            const double value = s[k].value - factor;
            assert_in_range(kind, 0, 13);
            if (fabs(fabs(value) - want[kind]) > 1e-5 * (1 + want[kind]))
                fail_msg("operation %d at %d of %d: %g, torchvision has %g", kind, magnitude, bins, value,
                         want[kind]);
            seen[kind][value < 0]++;
        }
    }
    double chi = 0;
    for (int k = 0; k < 14; k++) {
        const double all = (double)(seen[k][0] + seen[k][1]);
        chi += (all - 2000) * (all - 2000) / 2000;
        const bool both = k >= 1 && k <= 9;
        if (both) /* half of them; six deviations of 22 */
            assert_true(fabs((double)seen[k][1] - all / 2) < 135);
        else
            assert_int_equal(seen[k][1], 0);
    }
    assert_true(chi < 40); /* 13 degrees of freedom: exceeded once in 10^4 */
    free(want);
}

static void test_space(void **state)
{
    (void)state;
    check_space(9, 31);
    check_space(5, 11);
    check_space(30, 31);
}

/* Means and deviations of x, y, width, height of 20,000 draws each, ours and torchvision's, within five
 * standard errors of their difference. */
static void expect_boxes(const char *name, const double sums[2][4], double n)
{
    double *want = golden_values(golden_get(GOLDEN, "%s", name));
    for (int k = 0; k < 4; k++) {
        const double mean = sums[0][k] / n, deviation = sqrt(sums[1][k] / n - mean * mean),
                     error = deviation * sqrt(2 / n);
        if (fabs(mean - want[k]) > 5 * error || fabs(deviation - want[4 + k]) > 5 * error)
            fail_msg("%s, number %d: mean %g, deviation %g; torchvision has %g, %g", name, k, mean, deviation,
                     want[k], want[4 + k]);
    }
    free(want);
}

static void add(double sums[2][4], int x, int y, int width, int height)
{
    const double at[4] = { x, y, width, height };
    for (int k = 0; k < 4; k++) {
        sums[0][k] += at[k];
        sums[1][k] += at[k] * at[k];
    }
}

static void test_boxes(void **state)
{
    (void)state;
    const ls_augment wide = { .crop = LS_CROP_RESIZED, .scale = { 0.08, 1 }, .ratio = { 0.75, 4.0 / 3 } },
                     narrow = { .crop = LS_CROP_RESIZED, .scale = { 0.6, 0.9 }, .ratio = { 1.5, 4 } },
                     erase = { .erase = 1, .erase_scale = { 0.02, 0.33 }, .erase_ratio = { 0.3, 3.3 } };
    double sums[3][2][4] = { { { 0 } } }, erased = 0;
    enum { DRAWS = 20000 };
    for (uint64_t i = 0; i < DRAWS; i++) {
        int box[4];
        ls_augment_crop(&wide, i, 160, 120, box);
        add(sums[0], box[0], box[1], box[2], box[3]);
        ls_augment_crop(&narrow, i, 160, 120, box); /* most tries do not fit: the central box is common */
        assert_in_range(box[0] + box[2], 1, 160);
        assert_in_range(box[1] + box[3], 1, 120);
        add(sums[1], box[0], box[1], box[2], box[3]);
        ls_augment_step s[LS_AUGMENT_STEPS];
        if (ls_augment_draw(&erase, i, 120, 160, s)) {
            add(sums[2], s[0].x, s[0].y, s[0].width, s[0].height);
            erased++;
        }
    }
    expect_boxes("crop.wide", sums[0], DRAWS);
    expect_boxes("crop.narrow", sums[1], DRAWS);
    expect_boxes("erase", sums[2], erased);
}

/* Boxes of cutmix are torchvision's, and the weight of a row's own label is the share of its pixels that
 * stays. */
static void test_cutmix(void **state)
{
    (void)state;
    enum { DRAWS = 20000 };
    const double alphas[2] = { 0.3, 1 };
    for (int k = 0; k < 2; k++) {
        const ls_augment a = { .cutmix = alphas[k] };
        double sums[2][4] = { { 0 } };
        for (uint64_t i = 0; i < DRAWS; i++) {
            const ls_mix m = ls_mix_draw(&a, i, 120, 160);
            assert_true(m.paste && m.x >= 0 && m.y >= 0 && m.x + m.width <= 160 && m.y + m.height <= 120);
            assert_true(m.own == (float)(1 - m.width * m.height / (120.0 * 160)));
            add(sums, m.x, m.y, m.width, m.height);
        }
        expect_boxes(k ? "cutmix.1.0" : "cutmix.0.3", sums, DRAWS);
    }
}

/* A whole image made smaller, and a part of one made larger, antialiased. */
static void test_resize(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        ls_cut cut;
        int height, width;
    } CASES[] = { { "resize.small", { 0, 0, WIDTH, HEIGHT, false }, 9, 11 },
                  { "resize.large", { 2, 3, 9, 8, false }, HEIGHT, WIDTH } };
    uint8_t *image = golden_values_as(golden_get(GOLDEN, "image"), LS_U8), pixels[PIXELS], at[PIXELS];
    for (int i = 0; i < PIXELS; i++) /* interleaved */
        pixels[i % (PIXELS / CHANNELS) * CHANNELS + i / (PIXELS / CHANNELS)] = image[i];
    for (size_t k = 0; k < sizeof CASES / sizeof *CASES; k++) {
        ls_room room = { .size = { 0 } };
        ls_resampler r;
        ASSERT_OK(
            ls_resample_plan(&r, &CASES[k].cut, 1, HEIGHT, WIDTH, CASES[k].height, CASES[k].width, &room));
        ASSERT_OK(
            ls_resample(&r, pixels + (r.y * WIDTH + r.x) * CHANNELS, WIDTH * CHANNELS, CHANNELS, at, &room));
        const ls_weight *want = golden_get(GOLDEN, "%s", CASES[k].name);
        /* rounded to levels between the dimensions: torchvision begins with the width, we with the height */
        assert_true(differ_within(CASES[k].name, at, want, 1) * 3 < golden_count(want));
        ls_room_release(&room);
    }
    free(image);
}

static int open_golden(void **state)
{
    (void)state;
    GOLDEN = golden_open("augment");
    return 0;
}

static int close_golden(void **state)
{
    (void)state;
    ls_weights_close(&GOLDEN);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_space),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_boxes),
        cmocka_unit_test(test_cutmix),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
