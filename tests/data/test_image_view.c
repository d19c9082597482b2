/* test_image_view.c - resizing against Pillow's values; the middle as torchvision's Resize and CenterCrop
 * choose it; JPEG of every kind, as a whole and in parts, damaged and cut off. */
#include "files.h"

#include <math.h>

#include "data/image_view.h"

static void assert_near(const uint8_t *have, const uint8_t *want, int n)
{
    for (int i = 0; i < n; i++)
        if (abs(have[i] - want[i]) > 1) /* the result is rounded once for each direction, from 14 bits */
            fail_msg("pixel %d is %d, Pillow has %d", i, have[i], want[i]);
}

/* Image.fromarray(a).resize(size, Image.BILINEAR) of Pillow 11, with a[y, x] = (37 x^2 + 91 y + 13 x y) %
 * 256. */
static void test_resize_is_pillows(void **state)
{
    (void)state;
    static const uint8_t SMALL[] = { 100, 123, 135, 105, 134, 161, 132, 126, 123, 132, 110, 125 };
    static const uint8_t LARGE[] = {
        0,   20,  63,  139, 104, 78,  80,  133, 117, 50,  28,  41,  64,  50,  74,  89,  73,  119, 152,
        159, 119, 119, 143, 126, 79,  30,  114, 143, 138, 48,  123, 182, 195, 126, 136, 199, 188, 124,
        52,  177, 211, 213, 129, 100, 96,  116, 177, 180, 138, 134, 159, 188, 75,  113, 159, 197, 179,
        177, 203, 165, 121, 78,  80,  117, 158, 49,  92,  145, 189, 177, 181, 213, 120, 89,  107, 116,
        117, 116, 113, 154, 172, 116, 98,  105, 134, 56,  94,  214, 228, 160, 73,  176, 126, 109, 183,
        186, 143, 55,  107, 138, 154, 174, 112, 30,  125, 107, 108, 153, 158, 138, 91,  114, 111, 93,
        120, 118, 103, 34,  96,  134, 87,  86,  114, 170, 100, 59,  46,  78,  145, 210
    };
    for (int large = 0; large < 2; large++) {
        ls_image image = { .channels = 1, .height = 7, .width = 9, .data = malloc(63) };
        for (int i = 0; i < 63; i++)
            image.data[i] = (uint8_t)(37 * (i % 9) * (i % 9) + 91 * (i / 9) + 13 * (i % 9) * (i / 9));
        const int height = large ? 10 : 3, width = large ? 13 : 4;
        assert_ok(ls_image_fit(&image, 1, height, width, true, "a"));
        assert_near(image.data, large ? LARGE : SMALL, height * width);
        ls_image_release(&image);
    }
}

/* The weights of a pixel sum to one exactly: a plain surface stays as it is, at any size. */
static void test_plain_stays_plain(void **state)
{
    (void)state;
    enum { HEIGHT = 37, WIDTH = 53, MOST = 90 };
    for (int size = 1; size <= MOST; size++)
        for (int level = 1; level <= 255; level += 127) {
            ls_image image = {
                .channels = 1, .height = HEIGHT, .width = WIDTH, .data = malloc(HEIGHT * WIDTH)
            };
            memset(image.data, level, HEIGHT * WIDTH);
            assert_ok(ls_image_fit(&image, 1, MOST + 1 - size, size, true, "a"));
            for (int i = 0; i < size * (MOST + 1 - size); i++)
                assert_int_equal(image.data[i], level);
            ls_image_release(&image);
        }
    for (int width = 6000; width < 9000; width += 379) { /* of thousands of weights each is rounded */
        ls_image image = { .channels = 1, .height = 1, .width = width, .data = malloc((size_t)width) };
        memset(image.data, 255, (size_t)width);
        assert_ok(ls_image_fit(&image, 1, 1, 1, true, "a"));
        assert_int_equal(image.data[0], 255);
        ls_image_release(&image);
    }
}

/* Sizes and offsets of torchvision 0.28: Resize(256) of 500 x 375 gives 341 x 256, and CenterCrop(224) begins
 * at (58, 16); round(0.5) is 0, round(1.5) is 2. */
static void test_middle(void **state)
{
    (void)state;
    static const struct {
        int height, width, size, resize;
        double top, left, h, w; /* in the resized picture; its size */
    } CASES[] = {
        { 375, 500, 224, 0, 16, 58, 256, 341 }, { 500, 375, 224, 0, 58, 16, 341, 256 },
        { 256, 257, 224, 0, 16, 16, 256, 257 }, /* 16.5 */
        { 256, 259, 224, 0, 16, 18, 256, 259 }, /* 17.5 */
        { 10, 10, 32, 32, 0, 0, 32, 32 },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const ls_image_eval e = ls_image_eval_of(CASES[i].size, CASES[i].resize);
        ls_cut cut;
        ls_image_choose_middle(&e, CASES[i].height, CASES[i].width, &cut);
        assert_true(fabs(cut.y * CASES[i].h / CASES[i].height - CASES[i].top) < 1e-9);
        assert_true(fabs(cut.x * CASES[i].w / CASES[i].width - CASES[i].left) < 1e-9);
        assert_true(fabs(cut.height * CASES[i].h / CASES[i].height - CASES[i].size) < 1e-9);
        assert_true(cut.around);
    }
}

/* One of the fuzzer's pictures. */
static bytes corpus(const char *name)
{
    if (!ls_jpeg_is_read)
        ls_test_skip("this build has no libjpeg (Debian: libjpeg-dev)");
    char path[512], *text;
    bytes b = { 0 };
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/image/%s", LS_TEST_SOURCE_DIR, name);
    assert_ok(ls_file_read(&text, &b.size, path));
    b.data = (uint8_t *)text;
    return b;
}

static void test_jpeg(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int channels, height, width, first[3];
    } CASES[] = {
        /* the colour that make_jpeg was asked for, 200 30 40 and -11 at the first pixel; gray is of 200 alone
         */
        { "rgb.jpg", 3, 7, 9, { 189, 19, 29 } },
        { "gray.jpg", 1, 7, 9, { 189 } },
        { "progressive.jpg", 3, 9, 20, { 189, 19, 29 } },
        { "cmyk.jpg", 3, 8, 8, { 181, 18, 28 } }, /* times K = 244 of 255 */
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        bytes b = corpus(CASES[i].name);
        ls_image image;
        assert_ok(ls_image_parse(&image, b.data, b.size, "a.jpg"));
        assert_int_equal(image.channels, CASES[i].channels);
        assert_int_equal(image.height, CASES[i].height);
        assert_int_equal(image.width, CASES[i].width);
        const int plane = image.height * image.width;
        for (int c = 0; c < image.channels; c++)
            if (abs(image.data[c * plane] - CASES[i].first[c]) >
                12) /* what quality 95 and halved colours lose */
                fail_msg("%s: channel %d begins with %d", CASES[i].name, c, image.data[c * plane]);
        /* every truncation is refused, or stands behind all pixels */
        for (size_t n = 3; n < b.size; n++) {
            ls_image cut;
            if (ls_image_parse(&cut, b.data, n, "a.jpg") == LS_OK) {
                assert_true(n + 3 > b.size);
                assert_memory_equal(cut.data, image.data, (size_t)(plane * image.channels));
                ls_image_release(&cut);
            } else
                assert_true(!strncmp(ls_error_message(), "a.jpg: damaged JPEG", 19));
        }
        ls_image_release(&image);
        free(b.data);
    }
}

/* Each scan of a progressive JPEG costs a pass over the picture, however few bytes it takes. */
static void test_jpeg_scans(void **state)
{
    (void)state;
    enum { PIXELS = 20 * 9 };
    bytes b = corpus("progressive.jpg");
    const int64_t work = ls_jpeg_work;
    ls_image image;
    assert_true(work == (int64_t)1 << 31);
    ls_jpeg_work = 4 * PIXELS + 3;
    assert_fails(LS_E_FORMAT, ls_image_parse(&image, b.data, b.size, "a.jpg"),
                 "a.jpg: a JPEG of 20 x 9 pixels in more than 4 scans", "save the picture again");
    ls_jpeg_work = 20 * PIXELS;
    assert_ok(ls_image_parse(&image, b.data, b.size, "a.jpg"));
    ls_jpeg_work = work;
    ls_image_release(&image);
    free(b.data);
}

/* A header that claims 60000 x 60000 pixels is refused before anything is decoded. */
static void test_jpeg_bomb(void **state)
{
    (void)state;
    bytes b = corpus("rgb.jpg");
    const uint8_t *frame = memmem(b.data, b.size, "\xff\xc0", 2);
    assert_non_null(frame);
    uint8_t *size = b.data + (frame - b.data) + 5;
    size[0] = size[2] = 60000 >> 8;
    size[1] = size[3] = 60000 & 255;
    ls_image image;
    assert_fails(LS_E_FORMAT, ls_image_parse(&image, b.data, b.size, "a.jpg"),
                 "a.jpg: image of 60000 x 60000", "more than the 2^26");
    uint8_t to[3 * 8 * 8];
    ls_room room = { 0 };
    const ls_image_eval eval = ls_image_eval_of(8, 0);
    const ls_view v = {
        .channels = 3, .height = 8, .width = 8, .choose = ls_image_choose_middle, .context = &eval
    };
    assert_fails(LS_E_FORMAT, ls_image_view(to, &v, b.data, b.size, "a.jpg", &room), "60000 x 60000", "2^26");
    ls_room_release(&room);
    free(b.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resize_is_pillows), cmocka_unit_test(test_plain_stays_plain),
        cmocka_unit_test(test_middle),
        cmocka_unit_test(test_jpeg),
        cmocka_unit_test(test_jpeg_bomb),
        cmocka_unit_test(test_jpeg_scans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
