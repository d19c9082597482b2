/* test_augment.c - random changes of images: what is drawn follows from the key alone, is as often as asked
 * for, and moves pixels where it says. golden/test_augment.c compares the pixels with torchvision's. */
#include "files.h"

#include <math.h>
#include <stdlib.h>

#include "data/augment.h"
#include "data/augment_mix.h"

static void test_flip_and_shift(void **state)
{
    (void)state;
    enum { H = 5, MOST = 70 };
    uint8_t before[2 * H * MOST], after[2 * H * MOST];
    for (int w = 1; w <= MOST; w++) { /* every number of bytes between the ends */
        for (int i = 0; i < 2 * H * w; i++)
            before[i] = after[i] = (uint8_t)(i * 37 + 11);
        assert_ok(ls_augment_apply(&(ls_augment_step){ .kind = LS_AUGMENT_FLIP }, 1, 2, H, w, after));
        for (int i = 0; i < 2 * H * w; i++)
            assert_int_equal(after[i], before[i - i % w + w - 1 - i % w]);
    }
    const int w = 7;
    for (int x = -8; x <= 8; x++)
        for (int y = -6; y <= 6; y++) {
            const ls_augment_step s = { .kind = LS_AUGMENT_SHIFT, .x = x, .y = y };
            memcpy(after, before, sizeof after);
            assert_ok(ls_augment_apply(&s, 1, 2, H, w, after));
            for (int i = 0; i < 2 * H * w; i++) {
                const int u = i % w - x, v = i / w % H - y;
                const bool inside = u >= 0 && u < w && v >= 0 && v < H;
                assert_int_equal(after[i], inside ? before[i / (H * w) * (H * w) + v * w + u] : 0);
            }
        }
}

static void test_erase(void **state)
{
    (void)state;
    uint8_t at[3][6][8];
    memset(at, 200, sizeof at);
    const ls_augment_step s = {
        .kind = LS_AUGMENT_ERASE, .x = 2, .y = 1, .width = 3, .height = 4, .fill = { 10, 20, 30 }
    };
    assert_ok(ls_augment_apply(&s, 1, 3, 6, 8, &at[0][0][0]));
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < 6; y++)
            for (int x = 0; x < 8; x++)
                assert_int_equal(at[c][y][x], x >= 2 && x < 5 && y >= 1 && y < 5 ? 10 * (c + 1) : 200);
}

/* Probabilities, the range of a padded crop, and the order of jitter. */
static void test_draws(void **state)
{
    (void)state;
    const ls_augment a = { .crop = LS_CROP_PADDED,
                           .padding = 4,
                           .flip = 0.3,
                           .brightness = 0.4,
                           .contrast = 1.5,
                           .hue = 0.1,
                           .erase = 0.25,
                           .erase_scale = { 0.02, 0.33 },
                           .erase_ratio = { 0.3, 3.3 },
                           .mean = { 1, 2, 3 } };
    enum { DRAWS = 16000 };
    int flips = 0, erased = 0, moved[2][9] = { { 0 } }, first[LS_AUGMENT_ERASE + 1] = { 0 };
    for (uint64_t i = 0; i < DRAWS; i++) {
        ls_augment_step s[LS_AUGMENT_STEPS], again[LS_AUGMENT_STEPS];
        memset(s, 0, sizeof s);
        memset(again, 0, sizeof again);
        const int n = ls_augment_draw(&a, i, 28, 28, s);
        assert_int_equal(ls_augment_draw(&a, i, 28, 28, again), n);
        assert_memory_equal(s, again, sizeof s);
        assert_int_equal(s[0].kind, LS_AUGMENT_SHIFT);
        assert_in_range(s[0].x + 4, 0, 8);
        assert_in_range(s[0].y + 4, 0, 8);
        moved[0][s[0].x + 4]++;
        moved[1][s[0].y + 4]++;
        int k = 1 + (s[1].kind == LS_AUGMENT_FLIP);
        flips += k == 2;
        first[s[k].kind]++;
        for (int j = 0; j < 3; j++, k++) {
            const bool hue = s[k].kind == LS_AUGMENT_HUE, bright = s[k].kind == LS_AUGMENT_BRIGHTNESS;
            const double least = hue ? -0.1 : bright ? 0.6 : 0, most = hue ? 0.1 : bright ? 1.4 : 2.5;
            assert_true(hue || bright || s[k].kind == LS_AUGMENT_CONTRAST);
            assert_true(s[k].value >= least && s[k].value <= most);
        }
        assert_in_range(n - k, 0, 1);
        erased += n - k;
        if (n > k) {
            assert_int_equal(s[k].kind, LS_AUGMENT_ERASE);
            assert_true(s[k].x + s[k].width <= 28 && s[k].y + s[k].height <= 28);
            assert_memory_equal(s[k].fill, a.mean, 3);
        }
    }
    /* six deviations of a binomial */
    assert_true(abs(flips - 4800) < 6 * 58);
    assert_true(abs(erased - 4000) < 6 * 55);
    assert_true(abs(first[LS_AUGMENT_HUE] - DRAWS / 3) < 6 * 60);
    assert_true(abs(first[LS_AUGMENT_CONTRAST] - DRAWS / 3) < 6 * 60);
    for (int d = 0; d < 2; d++) {
        double chi = 0, each = DRAWS / 9.0;
        for (int k = 0; k < 9; k++)
            chi += (moved[d][k] - each) * (moved[d][k] - each) / each;
        assert_true(chi < 32); /* 8 degrees of freedom: exceeded once in 10^4 */
    }
}

/* Nothing is drawn where nothing is asked for, and other things that are asked for change no draw. */
static void test_purposes(void **state)
{
    (void)state;
    const ls_augment none = { 0 }, flip = { .flip = 0.5 },
                     both = { .flip = 0.5,
                              .ops = 3,
                              .magnitude = 9,
                              .bins = 31,
                              .erase = 0.5,
                              .erase_scale = { 0.1, 0.2 },
                              .erase_ratio = { 1, 1 } };
    for (uint64_t i = 0; i < 200; i++) {
        ls_augment_step a[LS_AUGMENT_STEPS], b[LS_AUGMENT_STEPS];
        int box[4];
        assert_int_equal(ls_augment_draw(&none, i, 28, 28, a), 0);
        ls_augment_crop(&none, i, 40, 30, box);
        assert_memory_equal(box, ((int[]){ 0, 0, 40, 30 }), sizeof box);
        const bool flipped = ls_augment_draw(&flip, i, 28, 28, a) == 1;
        ls_augment_draw(&both, i, 28, 28, b);
        assert_int_equal(b[0].kind == LS_AUGMENT_FLIP, flipped);
    }
}

/* The distribution function of Beta(a, a). With v = u^a the integral of (u (1 - u))^(a - 1) from 0 to x is
 * that of (1 - v^(1/a))^(a - 1) / a from 0 to x^a, which is smooth for x up to a half. */
static double beta_integral(double a, double x)
{
    enum { PARTS = 400 }; /* Simpson's rule */
    const double end = pow(x, a), h = end / PARTS;
    double sum = 0;
    for (int i = 0; i <= PARTS; i++)
        sum += (i == 0 || i == PARTS ? 1 : i % 2 ? 4 : 2) * pow(1 - pow(i * h, 1 / a), a - 1);
    return sum * h / 3 / a;
}

static double beta_below(double a, double x)
{
    const double half = beta_integral(a, 0.5);
    return x <= 0.5 ? beta_integral(a, x) / half / 2 : 1 - beta_integral(a, 1 - x) / half / 2;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* An image whose form no box of the ratio fits: its middle, with the nearest ratio. */
static void test_central_crop(void **state)
{
    (void)state;
    static const ls_augment a = { .crop = LS_CROP_RESIZED, .scale = { 1, 1 }, .ratio = { 0.75, 4.0 / 3 } };
    static const struct {
        int width, height, box[4]; /* x, y, width, height */
    } CASES[] = {
        { 100, 10, { 43, 0, 13, 10 } },
        { 10, 100, { 0, 43, 10, 13 } },
        { 1000, 3, { 498, 0, 4, 3 } },
        { 3, 1000, { 0, 498, 3, 4 } },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        for (uint64_t draw = 0; draw < 20; draw++) {
            int box[4];
            ls_augment_crop(&a, draw, CASES[i].width, CASES[i].height, box);
            assert_memory_equal(box, CASES[i].box, sizeof box);
        }
}

/* Shares are rounded to the nearest, and so are mixed pixels, a half upwards. */
static void test_mixup_rounds(void **state)
{
    (void)state;
    enum { ONE = 32768 };
    static const struct {
        int share;
        uint8_t own, other, mixed;
    } CASES[] = { { ONE / 2, 0, 1, 1 },     { ONE / 2, 255, 0, 128 }, { ONE / 4, 0, 1, 1 },
                  { ONE / 4, 1, 0, 0 },     { 3 * ONE / 4, 1, 0, 1 }, { ONE, 7, 200, 7 },
                  { 0, 7, 200, 200 },       { ONE / 2 - 1, 1, 0, 0 }, { ONE / 3, 255, 255, 255 } };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        uint8_t images[2] = { CASES[i].other, CASES[i].own }; /* row 1 is mixed with row 0 */
        const ls_mix m = { .share = CASES[i].share };
        ls_mix_images(&m, images, 2, 1, 1, 1);
        assert_int_equal(images[1], CASES[i].mixed);
    }
    /* Beta(1e9, 1e9) is a half, give or take 1.1e-5, which is a third of a step of the share */
    int halves = 0;
    const ls_augment a = { .mixup = 1e9 };
    for (uint64_t draw = 0; draw < 200; draw++)
        halves += ls_mix_draw(&a, draw, 4, 4).share == ONE / 2;
    assert_true(halves > 160); /* cut off instead of rounded, 100 */
}

/* mixup's share of the own image is distributed as Beta(alpha, alpha): the largest distance of the two
 * distribution functions (Kolmogorov and Smirnov). With both changes each comes half of the times. */
static void test_mixup_is_beta(void **state)
{
    (void)state;
    enum { DRAWS = 10000 };
    static double shares[DRAWS];
    const double alphas[] = { 0.2, 0.5, 1, 3 };
    assert_true(fabs(beta_below(2, 0.3) - 0.3 * 0.3 * (3 - 2 * 0.3)) < 1e-4);
    for (size_t k = 0; k < sizeof alphas / sizeof *alphas; k++) {
        const ls_augment a = { .mixup = alphas[k] };
        double most = 0;
        for (uint64_t i = 0; i < DRAWS; i++) {
            const ls_mix m = ls_mix_draw(&a, i, 28, 28);
            assert_false(m.paste);
            assert_true((double)m.own * 32768 == m.share);
            shares[i] = (double)m.own;
        }
        qsort(shares, DRAWS, sizeof *shares, by_value);
        for (int i = 0; i < DRAWS; i++) /* near the ends, where the density is large, 1/32768 is coarse */
            if (shares[i] > 1e-3 && shares[i] < 1 - 1e-3)
                most = fmax(most, fabs(beta_below(alphas[k], shares[i]) - (i + 0.5) / DRAWS));
        if (most > 1.95 / sqrt(DRAWS)) /* exceeded once in a thousand times */
            fail_msg("mixup with alpha %g: the distributions are %g apart", alphas[k], most);
    }
    const ls_augment both = { .mixup = 1, .cutmix = 1 };
    int pasted = 0;
    for (uint64_t i = 0; i < DRAWS; i++)
        pasted += ls_mix_draw(&both, i, 28, 28).paste;
    assert_true(abs(pasted - DRAWS / 2) < 200); /* four deviations */
}

/* ---- through ls_order_fill */

enum { N = 22, GLOBAL = 8, MICRO = 4 };

static ls_status read_plain(const ls_dataset *set, int64_t i, void *const *to)
{
    (void)set;
    ((uint64_t *)to[0])[0] = 0;
    ((uint64_t *)to[0])[1] = (uint64_t)i;
    return LS_OK;
}

static ls_status read_drawn(const ls_dataset *set, int64_t i, uint64_t draw, void *const *to)
{
    (void)set;
    ((uint64_t *)to[0])[0] = draw;
    ((uint64_t *)to[0])[1] = (uint64_t)i;
    return LS_OK;
}

static void mix(const ls_dataset *set, uint64_t draw, int64_t rows, void *const *to)
{
    (void)set;
    for (int64_t r = 0; r < rows; r++)
        ((uint64_t *)to[0])[3 * r + 2] = draw;
}

static void test_order(void **state)
{
    (void)state;
    const ls_field field = { .name = "x", .type = LS_TYPE(LS_U8, 24) };
    const ls_dataset set = { .name = "draws",
                             .source = "the test",
                             .n = N,
                             .n_fields = 1,
                             .fields = &field,
                             .read = read_plain,
                             .read_drawn = read_drawn,
                             .mix = mix };
    ls_order o = { .n = N, .global_batch = GLOBAL, .micro_batch = MICRO, .seed = 5, .shuffle = true };
    uint64_t draws[2][N] = { { 0 } }, mixed[2][3][2];
    for (int64_t epoch = 0; epoch < 2; epoch++)
        for (int64_t step = 0; step < 3; step++)
            for (int64_t m = 0; m < 2; m++) {
                uint64_t rows[MICRO][3], plain[MICRO][3];
                memset(rows, 0, sizeof rows);
                memset(plain, 0, sizeof plain);
                o.augment = false;
                assert_ok(ls_order_fill(&o, &set, epoch, step, m, (void *const[]){ plain }));
                o.augment = true;
                assert_ok(ls_order_fill(&o, &set, epoch, step, m, (void *const[]){ rows }));
                mixed[epoch][step][m] = rows[0][2];
                for (int64_t r = 0; r < MICRO; r++) {
                    const bool real = ls_order_sample(&o, epoch, step, m, r) >= 0;
                    assert_int_equal(plain[r][0], 0);
                    assert_int_equal(plain[r][2], 0);
                    assert_int_equal(rows[r][1], plain[r][1]);
                    assert_int_equal(rows[r][2] != 0, real); /* padding is not mixed */
                    if (real)
                        draws[epoch][rows[r][1]] = rows[r][0];
                }
            }
    /* each sample of each epoch has its own number, of this seed; so has each micro-batch */
    for (int i = 0; i < 2 * N; i++) {
        assert_true(draws[i / N][i % N] != 0);
        for (int j = 0; j < i; j++)
            assert_true(draws[i / N][i % N] != draws[j / N][j % N]);
    }
    const uint64_t *each = &mixed[0][0][0];
    for (int i = 0; i < 12; i++)
        for (int j = 0; j < i; j++)
            assert_true(each[i] != each[j]);
    /* not of the position: another batch has the same numbers, another seed has others */
    o.global_batch = N;
    o.micro_batch = N;
    uint64_t rows[N][3];
    assert_ok(ls_order_fill(&o, &set, 1, 0, 0, (void *const[]){ rows }));
    for (int r = 0; r < N; r++)
        assert_int_equal(rows[r][0], draws[1][rows[r][1]]);
    o.seed = 6;
    assert_ok(ls_order_fill(&o, &set, 1, 0, 0, (void *const[]){ rows }));
    for (int r = 0; r < N; r++)
        assert_true(rows[r][0] != draws[1][rows[r][1]]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flip_and_shift), cmocka_unit_test(test_erase),    cmocka_unit_test(test_draws),
        cmocka_unit_test(test_mixup_is_beta),  cmocka_unit_test(test_purposes), cmocka_unit_test(test_order),
        cmocka_unit_test(test_central_crop),   cmocka_unit_test(test_mixup_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
