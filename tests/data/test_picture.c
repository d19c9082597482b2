/* test_picture.c - pictures of predictions: the file has everything that it should, in sharp pixels, and no
 * text can break it. */
#include "files.h"

#include "data/picture.h"

static int count_colour(const ls_image *im, uint32_t colour)
{
    size_t n = (size_t)im->height * (size_t)im->width;
    int count = 0;
    for (size_t i = 0; i < n; i++)
        count += ((uint32_t)im->data[i] << 16 | (uint32_t)im->data[n + i] << 8 | im->data[2 * n + i]) ==
                 colour;
    return count;
}

static const uint32_t GREEN = 0x1a7f37, RED = 0xcf222e, BLUE = 0x0550ae, AMBER = 0x9a6700;

static ls_image read_png(const char *path)
{
    ls_image im;
    assert_ok(ls_image_read(&im, path));
    assert_int_equal(im.channels, 3);
    return im;
}

static void test_png(void **state)
{
    (void)state;
    char *dir = make_folder();
    uint8_t a[6] = { 137, 137, 20, 20, 20, 20 }, b[6] = { 30, 137, 30, 30, 30, 30 };
    ls_picture_cell cells[3] = { { a, "cat", "cat", 0.75 },
                                 { b, "cat", "dog", 0.5 },
                                 { a, NULL, "dog", -1 } };
    ls_picture p = { .title = "a title",
                     .note = "",
                     .channels = 1,
                     .height = 2,
                     .width = 3,
                     .columns = 2,
                     .n = 1,
                     .cells = cells };
    const char *path = in(dir, "x.PNG");

    assert_ok(ls_picture_write(path, &p));
    ls_image im = read_png(path);
    assert_int_equal(count_colour(&im, 0x898989), 2 * 56 * 56); /* 168 / 3 pixels each, hard edges */
    assert_int_equal(count_colour(&im, 0x141414), 4 * 56 * 56);
    int one = count_colour(&im, GREEN), height = im.height;
    assert_true(one > 1000);
    assert_int_equal(count_colour(&im, RED) + count_colour(&im, AMBER) + count_colour(&im, BLUE), 0);
    ls_image_release(&im);

    p.n = 2;
    assert_ok(ls_picture_write(path, &p));
    im = read_png(path);
    assert_int_equal(count_colour(&im, GREEN), one);
    assert_true(count_colour(&im, RED) > 2000);
    assert_int_equal(im.height, height); /* beside each other */
    ls_image_release(&im);

    p.n = 3;
    p.note = "a note";
    assert_ok(ls_picture_write(path, &p));
    im = read_png(path);
    assert_int_equal(count_colour(&im, 0x898989), 5 * 56 * 56);
    assert_true(count_colour(&im, AMBER) > 50);
    assert_true(count_colour(&im, BLUE) > 50); /* no label: neither right nor wrong */
    assert_true(im.height > height);
    ls_image_release(&im);
    remove_tree(dir);
}

static void test_colour_and_large_images(void **state)
{
    (void)state;
    char *dir = make_folder();
    uint8_t rgb[3] = { 10, 200, 30 }, *large = malloc(300 * 200);
    memset(large, 77, 300 * 200);
    ls_picture_cell one = { rgb, "x", "x", 1 };
    assert_ok(ls_picture_write(
        in(dir, "c.png"),
        &(ls_picture){
            .title = "t", .note = "", .channels = 3, .height = 1, .width = 1, .n = 1, .cells = &one }));
    ls_image im = read_png(in(dir, "c.png"));
    assert_int_equal(count_colour(&im, 0x0ac81e), 168 * 168);
    ls_image_release(&im);
    ls_picture_cell big = { large, NULL, NULL, -1 };
    assert_ok(ls_picture_write(
        in(dir, "l.png"),
        &(ls_picture){
            .title = "t", .note = "", .channels = 1, .height = 200, .width = 300, .n = 1, .cells = &big }));
    im = read_png(in(dir, "l.png"));
    assert_int_equal(count_colour(&im, 0x4d4d4d), 300 * 200);
    ls_image_release(&im);
    free(large);
    remove_tree(dir);
}

static int occurrences(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)); text += strlen(what))
        n++;
    return n;
}

/* Nine stand three by three. */
static void test_square(void **state)
{
    (void)state;
    char *dir = make_folder(), *chosen, *three;
    uint8_t a[4] = { 0, 255, 100, 50 };
    ls_picture_cell cells[9];
    for (int i = 0; i < 9; i++)
        cells[i] = (ls_picture_cell){ a, "7", "7", 0.5 };
    ls_picture p = { .title = "nine",
                     .note = "",
                     .channels = 1,
                     .height = 2,
                     .width = 2,
                     .columns = 0,
                     .n = 9,
                     .cells = cells };
    assert_ok(ls_picture_write(in(dir, "chosen.svg"), &p));
    assert_ok(ls_file_read(&chosen, NULL, in(dir, "chosen.svg")));
    p.columns = 3;
    assert_ok(ls_picture_write(in(dir, "three.svg"), &p));
    assert_ok(ls_file_read(&three, NULL, in(dir, "three.svg")));
    assert_string_equal(chosen, three);
    free(chosen);
    free(three);
    remove_tree(dir);
}

static void test_svg(void **state)
{
    (void)state;
    char *dir = make_folder(), *text;
    uint8_t a[4] = { 0, 255, 100, 50 };
    ls_picture_cell cells[3] = { { a, "Ankle boot", "Ankle boot", 0.983 },
                                 { a, "<&\"\x01\xff", "\xc3\xa4 na\xc3\xafve", 1.0 },
                                 { a, "a name that is far too long to be shown in a cell of any width", "b",
                                   0.125 } };
    ls_picture p = { .title = "5 < 6 & so on",
                     .note = "",
                     .channels = 1,
                     .height = 2,
                     .width = 2,
                     .columns = 0,
                     .n = 3,
                     .cells = cells };
    assert_ok(ls_picture_write(in(dir, "x.svg"), &p));
    assert_ok(ls_file_read(&text, NULL, in(dir, "x.svg")));
    assert_int_equal(strncmp(text, "<svg ", 5), 0);
    assert_string_equal(text + strlen(text) - 7, "</svg>\n");
    assert_int_equal(occurrences(text, ">Ankle boot</text>"), 2); /* text is text */
    assert_int_equal(occurrences(text, ">0.98</text>"), 1);
    assert_int_equal(occurrences(text, "5 &lt; 6 &amp; so on"), 2);
    assert_int_equal(occurrences(text, "&lt;&amp;&quot;\xef\xbf\xbd\xef\xbf\xbd</text>"), 1);
    assert_int_equal(occurrences(text, "\xc3\xa4 na\xc3\xafve</text>"), 1);
    assert_int_equal(occurrences(text, "a name that is far"), 1);
    assert_int_equal(occurrences(text, "..</text>"), 1);
    assert_int_equal(occurrences(text, "of any width"), 0);
    assert_int_equal(occurrences(text, "image-rendering:pixelated"), 3);
    assert_int_equal(occurrences(text, "http"), 1); /* the name space; nothing is fetched */

    /* The image inside is the image. */
    const char *data = strstr(text, "base64,") + 7;
    uint8_t png[4096];
    size_t n = 0;
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t v = 0;
    for (int bits = 0; *data != '"' && *data != '='; data++) {
        v = v << 6 | (uint32_t)(strchr(DIGITS, *data) - DIGITS);
        if ((bits += 6) >= 8)
            png[n++] = (uint8_t)(v >> (bits -= 8));
    }
    ls_image im;
    assert_ok(ls_image_parse(&im, png, n, "inside"));
    assert_int_equal(im.channels, 1);
    assert_int_equal(im.width * 10 + im.height, 22);
    assert_memory_equal(im.data, a, 4);
    ls_image_release(&im);
    free(text);
    remove_tree(dir);
}

static void test_refused(void **state)
{
    (void)state;
    char *dir = make_folder();
    uint8_t a[4] = { 0 };
    ls_picture_cell cell = { a, "x", "y", 0.5 };
    ls_picture p = {
        .title = "t", .note = "", .channels = 1, .height = 2, .width = 2, .n = 1, .cells = &cell
    };
    assert_fails(LS_E_USAGE, ls_picture_write(in(dir, "x.jpg"), &p), "x.jpg", ".svg or .png");
    assert_fails(LS_E_USAGE, ls_picture_write(".png", &p), ".svg or .png", "");
    assert_fails(LS_E_IO, ls_picture_write(in(dir, "no/x.png"), &p), "no/x.png", "");
    p.n = 0;
    assert_fails(LS_E_ARG, ls_picture_write(in(dir, "x.png"), &p), "0 samples", "");
    p.n = 1;
    p.channels = 2;
    assert_fails(LS_E_ARG, ls_picture_write(in(dir, "x.png"), &p), "2 x 2 x 2", "");
    assert_false(ls_file_exists(in(dir, "x.png")));
    remove_tree(dir);
}

static void test_terminal(void **state)
{
    (void)state;
    const uint8_t gray[6] = { 0, 255, 0, 255, 128, 129 }, rgb[3] = { 1, 2, 3 };
    char *text = ls_image_text(gray, 1, 3, 2, false);
    assert_string_equal(text, " @\n::\n"); /* the last row has nothing below it */
    free(text);
    text = ls_image_text(gray, 1, 2, 2, true);
    assert_string_equal(text, "\033[38;2;0;0;0m\033[48;2;0;0;0m\xe2\x96\x80\033[38;2;255;255;255m\033[48;2;"
                              "255;255;255m\xe2\x96\x80\033[0m\n");
    free(text);
    text = ls_image_text(rgb, 3, 1, 1, true);
    assert_string_equal(text, "\033[38;2;1;2;3m\033[48;2;0;0;0m\xe2\x96\x80\033[0m\n");
    free(text);
}

static void test_font(void **state)
{
    (void)state;
    for (uint32_t c = 33; c < 127; c++) {
        int ink = 0;
        for (int y = 0; y < LS_GLYPH_ROWS; y++)
            ink += ls_glyph(c)[y] != 0;
        assert_true(ink > 0);
        for (uint32_t d = 32; d < c; d++)
            if (!memcmp(ls_glyph(c), ls_glyph(d), LS_GLYPH_ROWS))
                fail_msg("'%c' looks like '%c'", (int)c, (int)d);
    }
    assert_memory_equal(ls_glyph(0x20ac), ls_glyph(0x1f600), LS_GLYPH_ROWS); /* the box */
    const char *text = "a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\x80\xe2\x82";
    const uint32_t expect[] = { 'a', 0xe4, 0x20ac, 0x1f600, 0xfffd, 0xfffd, 0xfffd };
    for (int i = 0; i < 7; i++)
        assert_int_equal(ls_next_codepoint(&text), expect[i]);
    assert_int_equal(*text, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_png),     cmocka_unit_test(test_colour_and_large_images),
        cmocka_unit_test(test_square),  cmocka_unit_test(test_svg),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_terminal),
        cmocka_unit_test(test_font),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
