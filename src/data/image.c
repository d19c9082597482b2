/* image.c - images from files: portable anymaps (netpbm's pgm(5) and ppm(5)), PNG through image_png.c and
 * JPEG through image_jpeg.c. The parsers work on memory and are fuzzed. */
#include "data/image.h"

#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/file.h"
#include "data/image_view.h"
#include "data/signature.h"

typedef struct reader {
    const uint8_t *p;
    size_t n, at;
    const char *what;
} reader;

static bool is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static void skip_space(reader *r)
{
    while (r->at < r->n && (is_space(r->p[r->at]) || r->p[r->at] == '#'))
        if (r->p[r->at++] == '#')
            while (r->at < r->n && r->p[r->at] != '\n')
                r->at++;
}

/* Reads a decimal number after white space and comments; it must be at most `most`. */
static ls_status image_number(reader *r, int64_t *out, int64_t most, const char *name)
{
    skip_space(r);
    if (r->at == r->n)
        return ls_fail(LS_E_FORMAT, "%s: truncated at offset %zu, expected the %s", r->what, r->at, name);
    size_t start = r->at;
    int64_t v = 0;
    while (r->at < r->n && r->p[r->at] >= '0' && r->p[r->at] <= '9' && v <= most)
        v = 10 * v + (r->p[r->at++] - '0');
    if (r->at == start)
        return ls_fail(LS_E_FORMAT, "%s: byte 0x%02x at offset %zu, expected the %s", r->what, r->p[r->at],
                       r->at, name);
    if (v > most)
        return ls_fail(LS_E_FORMAT, "%s: the %s at offset %zu is above %lld", r->what, name, start,
                       (long long)most);
    *out = v;
    return LS_OK;
}

static ls_status anymap_samples(reader *r, ls_image *out, bool text, int64_t largest)
{
    size_t pixels = (size_t)out->height * (size_t)out->width, each = largest > 255 ? 2 : 1,
           channels = (size_t)out->channels;
    for (size_t i = 0; i < pixels * channels; i++) {
        int64_t v;
        if (text) {
            LS_TRY(image_number(r, &v, largest, "next sample"));
        } else {
            v = each == 1 ? r->p[r->at] : r->p[r->at] << 8 | r->p[r->at + 1];
            if (v > largest)
                return ls_fail(
                    LS_E_FORMAT,
                    "%s: sample %lld at offset %zu is above the largest value %lld that the header names",
                    r->what, (long long)v, r->at, (long long)largest);
            r->at += each;
        }
        out->data[i % channels * pixels + i / channels] = (uint8_t)((v * 255 + largest / 2) /
                                                                    /* from interleaved pixels to planes */
                                                                    largest);
    }
    return LS_OK;
}

static ls_status anymap(ls_image *out, const uint8_t *p, size_t n, const char *what)
{
    reader r = { .p = p, .n = n, .at = 2, .what = what };
    bool text = p[1] < '4';
    int64_t channels = p[1] == '3' || p[1] == '6' ? 3 : 1, width, height, largest;
    LS_TRY(image_number(&r, &width, 1 << 24, "width"));
    LS_TRY(image_number(&r, &height, 1 << 24, "height"));
    LS_TRY(image_number(&r, &largest, 65535, "largest value"));
    if (largest == 0)
        return ls_fail(LS_E_FORMAT, "%s: the largest value before offset %zu is 0", what, r.at);
    if (r.at == n || !is_space(p[r.at]))
        return ls_fail(LS_E_FORMAT, "%s: expected one white space at offset %zu, after the header", what,
                       r.at);
    r.at++;
    int64_t samples = channels * width * height; /* below 2^50 */
    int64_t needed = text ? samples * 2 - 1 : samples * (largest > 255 ? 2 : 1);
    if ((int64_t)(n - r.at) < needed)
        return ls_fail(
            LS_E_FORMAT,
            "%s: truncated at offset %zu: %lld x %lld pixels need at least %lld bytes from offset %zu", what,
            n, (long long)width, (long long)height, (long long)needed, r.at);
    LS_TRY(ls_image_allocate(out, channels, height, width, what));
    ls_status s;
    LS_TRY_TO(s, anymap_samples(&r, out, text, largest), fail);
    while (r.at < n && is_space(p[r.at]))
        r.at++;
    if (r.at == n)
        return LS_OK;
    s = ls_fail(LS_E_FORMAT, "%s: %zu bytes after the image at offset %zu", what, n - r.at, r.at);
fail:
    ls_image_release(out);
    return s;
}

ls_status ls_image_parse(ls_image *out, const void *bytes, size_t n, const char *what)
{
    LS_ARG(out);
    if (n)
        LS_ARG(bytes);
    LS_ARG(what);
    const uint8_t *p = bytes;
    *out = (ls_image){ 0 };
    if (ls_png_is(p, n))
        LS_TRY(ls_png_parse(out, p, n, what));
    else if (ls_jpeg_is(p, n))
        LS_TRY(ls_jpeg_parse(out, p, n, what));
    else if (n >= 3 && p[0] == 'P' && (p[1] == '2' || p[1] == '3' || p[1] == '5' || p[1] == '6') &&
             (is_space(p[2]) || p[2] == '#'))
        LS_TRY(anymap(out, p, n, what));
    else if (n == 0)
        return ls_fail(LS_E_FORMAT, "%s: the file is empty, expected a JPEG, PNG, PGM or PPM image", what);
    else if (ls_signature(p, n))
        return ls_fail(LS_E_FORMAT, "%s: unknown image format: the file is %s", what, ls_signature(p, n));
    else
        return ls_fail(
            LS_E_FORMAT,
            "%s: unknown image format (it starts with %02x %02x): convert the file to JPEG, PNG, PGM or PPM",
            what, p[0], n > 1 ? p[1] : 0);
    return LS_OK;
}

ls_status ls_image_read(ls_image *out, const char *path)
{
    LS_ARG(out);
    LS_ARG(path);
    ls_mapping m;
    *out = (ls_image){ 0 };
    LS_TRY(ls_file_map(&m, path));
    ls_status s = ls_image_parse(out, m.data, m.size, path);
    ls_file_unmap(&m);
    return s;
}
