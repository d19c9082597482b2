/* image_png.c - reads and writes PNG; the only file that includes libpng. Stored values are taken as they
 * are, without gamma correction, as the usual Python tools do. libpng reports errors by longjmp, so variables
 * that must survive one are in `job`. */
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "data/image.h"

typedef struct job {
    const uint8_t *p;
    size_t n, at;
    bool values, other; /* values, not colours, are wanted; `other`: the file has none */
    char message[200];
    uint8_t *pixels; /* [height, width, kinds] */
    png_bytep *rows;
    int64_t height, width, kinds; /* kinds: 1 gray or index, 2 gray and alpha, 3 colour, 4 colour and alpha */
} job;

bool ls_png_is(const void *bytes, size_t n)
{
    return n >= 8 && png_sig_cmp((png_const_bytep)bytes, 0, 8) == 0;
}

/* Checks that chunks lie inside the file and end in IEND. libpng allocates (and clears) as much memory as a
 * chunk's length claims before it reads the bytes, so a file of 70 bytes could take gigabytes. Checking here
 * also lets the message say where the file is cut. */
static ls_status check_chunks(const uint8_t *p, size_t n, const char *what)
{
    for (size_t at = 8;;) {
        if (n - at < 12)
            return ls_fail(
                LS_E_FORMAT,
                "%s: PNG truncated at offset %zu, expected a chunk of at least 12 bytes at offset %zu", what,
                n, at);
        uint32_t length = (uint32_t)p[at] << 24 | (uint32_t)p[at + 1] << 16 | (uint32_t)p[at + 2] << 8 |
                          p[at + 3];
        if (length > n - at - 12)
            return ls_fail(LS_E_FORMAT,
                           "%s: PNG truncated at offset %zu: the chunk at offset %zu promises %u bytes of "
                           "data, %zu are left",
                           what, n, at, length, n - at - 12);
        bool last = !memcmp(p + at + 4, "IEND", 4);
        at += 12 + (size_t)length;
        if (last)
            return LS_OK;
    }
}

static void on_error(png_structp png, png_const_charp text)
{
    job *j = png_get_error_ptr(png);
    snprintf(j->message, sizeof j->message, "%s", text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png, (void)text; /* a warning: libpng continues */
}

static void on_read(png_structp png, png_bytep to, size_t n)
{
    job *j = png_get_io_ptr(png);
    if (n > j->n - j->at)
        png_error(png, "the file is truncated");
    memcpy(to, j->p + j->at, n);
    j->at += n;
}

/* Replaces the indices in j->pixels by colours. libpng could do it, but would silently take an index outside
 * of the palette for black. */
static void look_up(job *j, png_structp png, png_infop info)
{
    png_colorp palette = NULL;
    png_bytep alpha = NULL;
    int colours = 0, alphas = 0;
    png_get_PLTE(png, info, &palette, &colours);
    png_get_tRNS(png, info, &alpha, &alphas, NULL);
    const size_t n = (size_t)(j->width * j->height), kinds = alphas ? 4 : 3;
    uint8_t *indices = j->pixels;
    for (size_t i = 0; i < n; i++)
        if (indices[i] >= colours) {
            snprintf(j->message, sizeof j->message,
                     "pixel (%lld, %lld) has colour %d of a palette of %d; save the image again",
                     (long long)i % (long long)j->width, (long long)i / (long long)j->width, indices[i],
                     colours);
            return;
        }
    uint8_t *to = ls_sys_malloc(n * kinds);
    if (!to)
        png_error(png, "no memory for the pixels");
    for (size_t i = 0; i < n; i++) {
        const png_color c = palette[indices[i]];
        memcpy(to + i * kinds,
               (const uint8_t[4]){ c.red, c.green, c.blue, indices[i] < alphas ? alpha[indices[i]] : 255 },
               kinds);
    }
    free(indices);
    j->pixels = to;
    j->kinds = (int64_t)kinds;
}

/* Leaves 8-bit samples in j->pixels, or the reason of a failure in j->message. */
static void decode(job *j, png_structp png, png_infop info)
{
    if (setjmp(png_jmpbuf(png)))
        return;
    png_set_user_limits(png, 1 << 16, 1 << 16);
    png_set_chunk_malloc_max(png, 1 << 24);
    /* texts, profiles and other chunks without pixels: each could inflate to as much */
    png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_read_fn(png, j, on_read);
    png_read_info(png, info);
    j->width = png_get_image_width(png, info);
    j->height = png_get_image_height(png, info);
    if (j->width * j->height > 1 << 26)
        png_error(png, "more than 2^26 pixels; shrink it");
    /* The best possible compression of deflate is 1032 : 1. So a small file that claims to be a huge image is
     * an error before memory is allocated. */
    if ((uint64_t)png_get_rowbytes(png, info) * (uint64_t)j->height / 1032 > j->n)
        png_error(png, "the file is too small for the size it claims");
    const int type = png_get_color_type(png, info);
    const bool indexed = type == PNG_COLOR_TYPE_PALETTE;
    j->other = j->values && ((type != PNG_COLOR_TYPE_GRAY && !indexed) || png_get_bit_depth(png, info) > 8);
    if (j->other)
        return;
    if (indexed || j->values)
        png_set_packing(png); /* one byte for each index */
    else
        png_set_expand(png); /* expands 1, 2 and 4 bits to 8, and transparency to alpha */
    png_set_scale_16(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    j->kinds = png_get_channels(png, info);
    size_t row = png_get_rowbytes(png, info);
    if (row != (size_t)(j->width * j->kinds))
        png_error(png, "unexpected row size");
    j->pixels = ls_sys_calloc((size_t)j->height, row);
    j->rows = ls_sys_calloc((size_t)j->height, sizeof *j->rows);
    if (!j->pixels || !j->rows)
        png_error(png, "no memory for the pixels");
    for (int64_t y = 0; y < j->height; y++)
        j->rows[y] = j->pixels + (size_t)y * row;
    png_read_image(png, j->rows);
    png_read_end(png, NULL);
    if (indexed && !j->values)
        look_up(j, png, info);
}

/* From [h, w, kinds], alpha last, to [channels, h, w] over black. */
static void to_planes(ls_image *out, const job *j)
{
    size_t pixels = (size_t)out->height * (size_t)out->width, kinds = (size_t)j->kinds;
    bool alpha = kinds % 2 == 0;
    for (size_t i = 0; i < pixels; i++) {
        const uint8_t *from = j->pixels + i * kinds;
        unsigned a = alpha ? from[kinds - 1] : 255;
        for (size_t c = 0; c < (size_t)out->channels; c++)
            out->data[c * pixels + i] = (uint8_t)((from[c] * a + 127) / 255);
    }
}

static ls_status parse(ls_image *out, const void *bytes, size_t n, const char *what, bool values)
{
    LS_TRY(check_chunks(bytes, n, what));
    job j = { .p = bytes, .n = n, .values = values };
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &j, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    ls_status s = LS_OK;
    if (info)
        decode(&j, png, info);
    else
        s = ls_fail(LS_E_MEMORY, "%s: libpng cannot start", what);
    png_destroy_read_struct(&png, &info, NULL);
    if (s == LS_OK && *j.message)
        s = ls_fail(LS_E_FORMAT, "%s: damaged PNG near offset %zu of %zu: %s", what, j.at, n, j.message);
    if (s == LS_OK && j.other)
        s = ls_fail(LS_E_FORMAT,
                    "%s: a PNG with colours, an alpha channel or 16 bits. The pixels of a mask are classes: "
                    "save it as gray of 8 bits or with a palette",
                    what);
    if (s == LS_OK)
        s = ls_image_allocate(out, j.kinds < 3 ? 1 : 3, j.height, j.width, what);
    if (s == LS_OK)
        to_planes(out, &j);
    free(j.rows);
    free(j.pixels);
    return s;
}

ls_status ls_png_parse(ls_image *out, const void *bytes, size_t n, const char *what)
{
    *out = (ls_image){ 0 };
    return parse(out, bytes, n, what, false);
}

ls_status ls_png_values(ls_image *out, const void *bytes, size_t n, const char *what)
{
    *out = (ls_image){ 0 };
    return ls_png_is(bytes, n) ? parse(out, bytes, n, what, true)
                               : ls_fail(LS_E_FORMAT, "%s: a mask is a PNG file, and this is none", what);
}

ls_status ls_png_encode(uint8_t **out, size_t *n, int channels, int height, int width, const uint8_t *pixels)
{
    *out = NULL;
    *n = 0;
    png_image image = { .version = PNG_IMAGE_VERSION,
                        .width = (png_uint_32)width,
                        .height = (png_uint_32)height,
                        .format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB };
    png_alloc_size_t size = 0;
    if (!png_image_write_get_memory_size(image, size, 0, pixels, 0, NULL))
        return ls_fail(LS_E_INTERNAL, "libpng cannot encode %d x %d pixels: %s", width, height,
                       image.message);
    uint8_t *memory = ls_sys_malloc(size);
    if (!memory)
        return ls_fail(LS_E_MEMORY, "no memory for a PNG of %zu bytes", (size_t)size);
    if (!png_image_write_to_memory(&image, memory, &size, 0, pixels, 0, NULL)) {
        free(memory);
        return ls_fail(LS_E_INTERNAL, "libpng cannot encode %d x %d pixels: %s", width, height,
                       image.message);
    }
    *out = memory;
    *n = size;
    return LS_OK;
}
