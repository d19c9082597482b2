/* test_image.c - image files: every supported kind gives the right values; every truncation and many other
 * damages are refused with a reason. */
#include "files.h"

#include <png.h>
#include <sys/resource.h>
#include <zlib.h>

#include "data/image.h"

static void parse_text(ls_image *im, const char *text, size_t n)
{
    assert_ok(ls_image_parse(im, text, n, "x"));
}

#define TEXT(s) (s), sizeof(s) - 1

static void test_anymaps(void **state)
{
    (void)state;
    ls_image im;
    parse_text(&im, TEXT("P2\n# a comment\n3 2 # another\n255\n0 1 2\n253 254 255\n"));
    assert_int_equal(im.channels, 1);
    assert_int_equal(im.height, 2);
    assert_int_equal(im.width, 3);
    assert_memory_equal(im.data, "\0\1\2\375\376\377", 6);
    ls_image_release(&im);
    parse_text(&im, TEXT("P5 3 1 255\n\0#\377"));
    assert_memory_equal(im.data, "\0#\377", 3);
    ls_image_release(&im);
    parse_text(&im, TEXT("P5 3 1 15\n\0\7\17")); /* 7 of 15 is 119 of 255 */
    assert_memory_equal(im.data, "\0\167\377", 3);
    ls_image_release(&im);
    parse_text(&im, TEXT("P5 2 1 65535\n\200\0\377\377")); /* two bytes, the high one first */
    assert_memory_equal(im.data, "\200\377", 2);
    ls_image_release(&im);
    parse_text(&im, TEXT("P6 2 1 255\nabcdef\n")); /* pixels become planes */
    assert_int_equal(im.channels, 3);
    assert_memory_equal(im.data, "adbecf", 6);
    ls_image_release(&im);
    parse_text(&im, TEXT("P3 1 1 100 100 50 0"));
    assert_memory_equal(im.data, "\377\200\0", 3);
    ls_image_release(&im);
    ls_image_release(&im);
}

static void test_damaged_anymaps(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t n;
        const char *says, *says_too;
    } CASES[] = {
        { TEXT(""), "file is empty", "PNG, PGM" },
        { TEXT("GIF89a"), "unknown image format", "a GIF image; convert it" },
        { TEXT("RIFF\1\2\3\4WEBPVP8 "), "unknown image format", "a WebP image; convert it" },
        { TEXT("II*\0\1"), "unknown image format", "a TIFF image" },
        { TEXT("MM\0*\1"), "unknown image format", "a TIFF image" },
        { TEXT("BM\1\2\3\4"), "unknown image format", "a BMP image" },
        { TEXT("\0\0\0\040ftypavif"), "unknown image format", "an AVIF image" },
        { TEXT("\0\0\0\040ftypheic"), "unknown image format", "a HEIC image" },
        { TEXT("PAR1\1"), "unknown image format", "a Parquet file" },
        { TEXT("BMW"), "unknown image format", "42 4d" }, /* a text */
        { TEXT("P4 1 1 "), "unknown image format", "50 34" },
        { TEXT("P5"), "unknown image format", "x:" },
        { TEXT("P5 "), "truncated at offset 3", "width" },
        { TEXT("P5 2 x"), "0x78 at offset 5", "height" },
        { TEXT("P5 2 2 70000 ...."), "largest value", "65535" },
        { TEXT("P5 2 2 0 ...."), "is 0", "offset 8" },
        { TEXT("P5 2 2 255 abc"), "truncated at offset 14", "4 bytes from offset 11" },
        { TEXT("P5 2 2 255 abcde"), "1 bytes after the image at offset 15", "x:" },
        { TEXT("P5 2 2 255"), "white space at offset 10", "x:" },
        { TEXT("P5 0 2 255 a"), "0 x 2 pixels", "x:" },
        { TEXT("P5 99999999999999999999 2 255 a"), "width", "above" },
        { TEXT("P5 16777216 16777216 255 a"), "truncated", "281474976710656" },
        { TEXT("P5 1 1 100 \310"), "sample 200 at offset 11", "100" },
        { TEXT("P2 2 1 255 3 256"), "next sample at offset 13", "above 255" },
        { TEXT("P2 3 1 255 3 25"), "truncated", "x:" },
        { TEXT("P2 2 1 255 3 b"), "0x62 at offset 13", "next sample" },
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        ls_image im;
        uint8_t *copy = malloc(CASES[i].n ? CASES[i].n : 1);
        memcpy(copy, CASES[i].text, CASES[i].n);
        assert_fails(LS_E_FORMAT, ls_image_parse(&im, copy, CASES[i].n, "x"), CASES[i].says,
                     CASES[i].says_too);
        assert_null(im.data);
        free(copy);
    }
}

/* ---- PNG of all kinds, written by libpng's own writer */

static void collect(png_structp png, png_bytep data, size_t n)
{
    bytes *b = png_get_io_ptr(png);
    b->data = realloc(b->data, b->size + n);
    memcpy(b->data + b->size, data, n);
    b->size += n;
}

static void flush_nothing(png_structp png) { (void)png; }

/* `rows` in PNG's own packing, row after row. */
static bytes make_png(int width, int height, int depth, int type, int interlace, const uint8_t *rows,
                      size_t row_bytes, const png_color *palette, int colours, const uint8_t *transparent)
{
    bytes b = { 0 };
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    if (setjmp(png_jmpbuf(png)))
        fail_msg("libpng cannot write the test's image");
    png_set_write_fn(png, &b, collect, flush_nothing);
    png_set_check_for_invalid_index(png, 0);
    png_set_IHDR(png, info, (png_uint_32)width, (png_uint_32)height, depth, type, interlace,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (palette)
        png_set_PLTE(png, info, palette, colours);
    if (transparent)
        png_set_tRNS(png, info, transparent, colours, NULL);
    png_write_info(png, info);
    png_bytep pointers[8];
    for (int y = 0; y < height; y++)
        pointers[y] = (png_bytep)(uintptr_t)(rows + (size_t)y * row_bytes);
    png_write_image(png, pointers);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    return b;
}

/* A text of `n` bytes, compressed, in front of the pixels; `times` of them. */
static bytes with_texts(bytes png, const uint8_t *text, size_t n, int times)
{
    const size_t head = 33; /* the signature and IHDR */
    uLongf packed = compressBound(n);
    bytes b = { calloc(1, png.size + (size_t)times * (packed + 32)), head };
    uint8_t *chunk = malloc(packed + 32);
    memcpy(chunk + 4, "zTXtx\0", 7); /* a keyword, its NUL, and the method, 0 */
    assert_int_equal(compress2(chunk + 11, &packed, text, n, 9), Z_OK);
    const uint32_t length = (uint32_t)packed + 3, crc = (uint32_t)crc32_z(0, chunk + 4, length + 4);
    for (int i = 0; i < 4; i++) {
        chunk[i] = (uint8_t)(length >> (24 - 8 * i));
        chunk[8 + length + (size_t)i] = (uint8_t)(crc >> (24 - 8 * i));
    }
    memcpy(b.data, png.data, head);
    for (int i = 0; i < times; i++, b.size += length + 12)
        memcpy(b.data + b.size, chunk, length + 12);
    memcpy(b.data + b.size, png.data + head, png.size - head);
    b.size += png.size - head;
    free(chunk);
    return b;
}

/* Texts of a PNG are not inflated: here they would be 160 MB, of a file of 170 KB. */
static void test_png_texts(void **state)
{
    (void)state;
    enum { EACH = 8 << 20 };
    uint8_t *text = malloc(EACH), gray[] = { 1, 2 };
    memset(text, 'a', EACH);
    bytes plain = make_png(2, 1, 8, PNG_COLOR_TYPE_GRAY, 0, gray, 2, NULL, 0, NULL),
          b = with_texts(plain, text, EACH, 20);
    struct rusage before, after;
    ls_image image;
    free(text);
    getrusage(RUSAGE_SELF, &before);
    assert_ok(ls_image_parse(&image, b.data, b.size, "a.png"));
    getrusage(RUSAGE_SELF, &after);
    assert_true(image.data[0] == 1 && image.data[1] == 2);
    assert_true(after.ru_maxrss - before.ru_maxrss < 32 << 10); /* KB */
    ls_image_release(&image);
    free_bytes(&plain);
    free_bytes(&b);
}

static void assert_png(bytes b, int channels, int height, int width, const char *planes)
{
    ls_image im;
    assert_ok(ls_image_parse(&im, b.data, b.size, "x"));
    assert_int_equal(im.channels, channels);
    assert_int_equal(im.height, height);
    assert_int_equal(im.width, width);
    assert_memory_equal(im.data, planes, (size_t)(channels * height * width));
    ls_image_release(&im);
    free_bytes(&b);
}

static void test_png_kinds(void **state)
{
    (void)state;
    const png_color palette[3] = { { 1, 2, 3 }, { 40, 50, 60 }, { 255, 0, 7 } };
    const uint8_t alpha[3] = { 255, 128, 0 };
    for (int lace = PNG_INTERLACE_NONE; lace <= PNG_INTERLACE_ADAM7; lace++) {
        assert_png(make_png(3, 2, 8, PNG_COLOR_TYPE_GRAY, lace, (const uint8_t *)"abcdef", 3, NULL, 0, NULL),
                   1, 2, 3, "abcdef");
        assert_png(
            make_png(2, 1, 16, PNG_COLOR_TYPE_GRAY, lace, (const uint8_t *)"\1\0\377\377", 4, NULL, 0, NULL),
            1, 1, 2, "\1\377");
        assert_png(make_png(8, 1, 1, PNG_COLOR_TYPE_GRAY, lace, (const uint8_t *)"\245", 1, NULL, 0, NULL), 1,
                   1, 8, "\377\0\377\0\0\377\0\377");
        assert_png(make_png(2, 1, 4, PNG_COLOR_TYPE_GRAY, lace, (const uint8_t *)"\57", 1, NULL, 0, NULL), 1,
                   1, 2, "\42\377");
        assert_png(make_png(2, 1, 8, PNG_COLOR_TYPE_RGB, lace, (const uint8_t *)"abcdef", 6, NULL, 0, NULL),
                   3, 1, 2, "adbecf");
        assert_png(
            make_png(1, 1, 16, PNG_COLOR_TYPE_RGB, lace, (const uint8_t *)"\1\0\2\0\3\0", 6, NULL, 0, NULL),
            3, 1, 1, "\1\2\3");
        assert_png(
            make_png(3, 1, 8, PNG_COLOR_TYPE_PALETTE, lace, (const uint8_t *)"\2\0\1", 3, palette, 3, NULL),
            3, 1, 3, "\377\1\50\0\2\62\7\3\74");
        assert_png(
            make_png(3, 1, 8, PNG_COLOR_TYPE_PALETTE, lace, (const uint8_t *)"\2\0\1", 3, palette, 3, alpha),
            3, 1, 3, "\0\1\24\0\2\31\0\3\36"); /* over black */
        assert_png(make_png(3, 1, 8, PNG_COLOR_TYPE_GRAY_ALPHA, lace,
                            (const uint8_t *)"\310\377\310\200\310\0", 6, NULL, 0, NULL),
                   1, 1, 3, "\310\144\0");
        assert_png(make_png(1, 1, 8, PNG_COLOR_TYPE_GRAY_ALPHA, lace, (const uint8_t *)"\311\144", 2, NULL,
                            0, NULL),
                   1, 1, 1, "\117"); /* 201 * 100 / 255 is 78.8 */
        assert_png(make_png(1, 1, 8, PNG_COLOR_TYPE_RGB_ALPHA, lace, (const uint8_t *)"\310\144\62\200", 4,
                            NULL, 0, NULL),
                   3, 1, 1, "\144\62\31");
    }
}

static void test_damaged_png(void **state)
{
    (void)state;
    uint8_t rows[5 * 7];
    for (int i = 0; i < 35; i++)
        rows[i] = (uint8_t)(i * 37);
    bytes b = make_png(7, 5, 8, PNG_COLOR_TYPE_GRAY, 0, rows, 7, NULL, 0, NULL);
    ls_image im;
    for (size_t n = 8; n < b.size; n++) {
        uint8_t *copy = malloc(n);
        memcpy(copy, b.data, n);
        assert_fails(LS_E_FORMAT, ls_image_parse(&im, copy, n, "x.png"), "x.png: PNG truncated at offset",
                     "chunk");
        assert_null(im.data);
        free(copy);
    }
    b.data[29] ^= 1; /* CRC of the header */
    assert_fails(LS_E_FORMAT, ls_image_parse(&im, b.data, b.size, "x.png"), "damaged PNG", "CRC");
    b.data[29] ^= 1;
    b.data[b.size - 20] ^= 1; /* inside the pixels */
    assert_fails(LS_E_FORMAT, ls_image_parse(&im, b.data, b.size, "x.png"), "damaged PNG", "");
    free_bytes(&b);
    uint8_t *zero = calloc(1, 1 << 13);
    png_bytep wide = zero;
    b = make_png(1 << 16, 1, 1, PNG_COLOR_TYPE_GRAY, 0, wide, 0, NULL, 0, NULL);
    /* 65536 x 1 is fine; the same file claiming 65536 x 65536 is not asked for memory (the header's CRC is
     * made right again) */
    assert_ok(ls_image_parse(&im, b.data, b.size, "x"));
    ls_image_release(&im);
    b.data[20] = 0, b.data[21] = 0, b.data[22] = 4, b.data[23] = 0;
    png_uint_32 crc = 0;
    {
        uint32_t c = 0xffffffffu;
        for (int i = 12; i < 29; i++) {
            c ^= b.data[i];
            for (int k = 0; k < 8; k++)
                c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
        }
        crc = ~c;
    }
    for (int i = 0; i < 4; i++)
        b.data[29 + i] = (uint8_t)(crc >> (24 - 8 * i));
    assert_fails(LS_E_FORMAT, ls_image_parse(&im, b.data, b.size, "x"), "too small for the size it claims",
                 "x:");
    free_bytes(&b);
    free(zero);
}

/* Decompression bombs: few bytes, and many pixels. They are refused by their headers; limits on memory would
 * catch one that is decoded. */
static void test_bombs(void **state)
{
    (void)state;
    const png_uint_32 side = (1 << 13) + 1; /* 2^26 pixels and a few more: 8 MiB of bits in some KiB */
    bytes b = { 0 };
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    uint8_t *row = calloc(1, side);
    if (setjmp(png_jmpbuf(png)))
        fail_msg("libpng cannot write the test's image");
    png_set_write_fn(png, &b, collect, flush_nothing);
    png_set_IHDR(png, info, side, side, 1, PNG_COLOR_TYPE_GRAY, 0, PNG_COMPRESSION_TYPE_DEFAULT,
                 PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (png_uint_32 y = 0; y < side; y++)
        png_write_row(png, row);
    png_write_end(png, NULL);
    png_destroy_write_struct(&png, &info);
    free(row);
    ls_image im;
    assert_true(b.size < 20000);
    assert_fails(LS_E_FORMAT, ls_image_parse(&im, b.data, b.size, "x.png"), "x.png: damaged PNG",
                 "more than 2^26 pixels");
    assert_null(im.data);
    free_bytes(&b);
}

static void test_index_outside_the_palette(void **state)
{
    (void)state;
    const png_color palette[3] = { { 1, 2, 3 }, { 40, 50, 60 }, { 255, 0, 7 } };
    ls_image im;
    for (int lace = PNG_INTERLACE_NONE; lace <= PNG_INTERLACE_ADAM7; lace++) {
        /* 2 0 1 2 */
        assert_png(
            make_png(4, 1, 2, PNG_COLOR_TYPE_PALETTE, lace, (const uint8_t *)"\x86", 1, palette, 3, NULL), 3,
            1, 4, "\377\1\50\377\0\2\62\0\7\3\74\7");
        bytes b = make_png(2, 2, 8, PNG_COLOR_TYPE_PALETTE, lace, (const uint8_t *)"\0\1\2\3", 2, palette, 3,
                           NULL);
        assert_fails(LS_E_FORMAT, ls_image_parse(&im, b.data, b.size, "x.png"), "x.png: damaged PNG",
                     "pixel (1, 1) has colour 3 of a palette of 3");
        assert_null(im.data);
        free_bytes(&b);
    }
}

static void test_encode_and_read_back(void **state)
{
    (void)state;
    char *dir = make_folder();
    bytes b = { 0 };
    assert_ok(ls_png_encode(&b.data, &b.size, 3, 1, 2, (const uint8_t *)"abcdef"));
    write_bytes(in(dir, "a.png"), b);
    ls_image im;
    assert_ok(ls_image_read(&im, in(dir, "a.png")));
    assert_memory_equal(im.data, "adbecf", 6);
    ls_image_release(&im);
    free_bytes(&b);
    assert_fails(LS_E_IO, ls_image_read(&im, in(dir, "b.png")), "b.png", "");
    assert_null(im.data);
    write_bytes(in(dir, "e.png"), (bytes){ (uint8_t *)"", 0 });
    assert_fails(LS_E_FORMAT, ls_image_read(&im, in(dir, "e.png")), "e.png", "empty");
    remove_tree(dir);
}

static void test_fit(void **state)
{
    (void)state;
    ls_image im;
    parse_text(&im, TEXT("P6 2 1 255\n\377\0\0\0\377\0"));
    assert_fails(LS_E_SHAPE, ls_image_fit(&im, 1, 28, 28, false, "a.ppm"), "a.ppm: image of 2 x 1",
                 "28 x 28");
    assert_fails(LS_E_SHAPE, ls_image_fit(&im, 2, 1, 2, false, "a.ppm"), "1 or 3", "takes 2");
    assert_ok(ls_image_fit(&im, 1, 1, 2, false, "a.ppm"));
    assert_memory_equal(im.data, "\114\226", 2); /* 76, 150 */
    assert_ok(ls_image_fit(&im, 3, 1, 2, false, "a.ppm"));
    assert_memory_equal(im.data, "\114\226\114\226\114\226", 6);
    ls_image_release(&im);

    /* Twice as large: PyTorch's interpolate(bilinear, align_corners=False) of [0 100] is [0 25 75 100]. */
    parse_text(&im, TEXT("P2 2 1 255 0 100"));
    assert_ok(ls_image_fit(&im, 1, 1, 4, true, "a"));
    assert_memory_equal(im.data, "\0\31\113\144", 4);
    ls_image_release(&im);
    /* Half as large, antialiased (a triangle 4 wide): out[0] = (0.75*0 + 0.75*0 + 0.25*200) / 1.75 */
    parse_text(&im, TEXT("P2 1 4 255 0 0 200 200"));
    assert_ok(ls_image_fit(&im, 1, 2, 1, true, "a"));
    assert_int_equal(im.data[0], 29);
    assert_int_equal(im.data[1], 171);
    ls_image_release(&im);
    /* A flat image stays flat at any size, in both directions at once. */
    for (int size = 1; size < 40; size += 6) {
        ls_image flat;
        assert_ok(ls_image_allocate(&flat, 3, 13, 7, "flat"));
        memset(flat.data, 201, 3 * 13 * 7);
        assert_ok(ls_image_fit(&flat, 3, size, 41 - size, true, "flat"));
        for (int i = 0; i < 3 * size * (41 - size); i++)
            assert_int_equal(flat.data[i], 201);
        ls_image_release(&flat);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_png_texts),
        cmocka_unit_test(test_anymaps),
        cmocka_unit_test(test_damaged_anymaps),
        cmocka_unit_test(test_png_kinds),
        cmocka_unit_test(test_damaged_png),
        cmocka_unit_test(test_encode_and_read_back),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_index_outside_the_palette),
        cmocka_unit_test(test_bombs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
