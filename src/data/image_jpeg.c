/* image_jpeg.c - reads JPEG; the only file that includes libjpeg. libjpeg reports errors by longjmp, so
 * variables that must survive one are in `job`. Without libjpeg at build time a JPEG is refused. */
#include "data/image_view.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "data/image.h"

bool ls_jpeg_is(const void *bytes, size_t n)
{
    const uint8_t *p = bytes;
    return n >= 3 && p[0] == 0xff && p[1] == 0xd8 && p[2] == 0xff;
}

#ifdef LS_HAVE_JPEG
#include <jerror.h>
#include <jpeglib.h>

const bool ls_jpeg_is_read = true;

/* Of a progressive file: each scan costs a pass over the whole picture, however few bytes it has. Cameras and
 * tools write about ten. A picture of 64 megapixels may have 32, which take some seconds. */
enum { MOST_SCANS = 500 };
int64_t ls_jpeg_work = (int64_t)1 << 31;

typedef struct job {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf failed;
    const char *what;
    size_t n;
    ls_status status;
    const ls_view *view;
    ls_room *room;
    ls_resampler *plan;
    ls_pixels *out;
} job;

static job *image_jpeg_job_of(j_common_ptr jpeg) { return jpeg->client_data; }

static void on_error(j_common_ptr jpeg)
{
    char text[JMSG_LENGTH_MAX];
    job *j = image_jpeg_job_of(jpeg);
    jpeg->err->format_message(jpeg, text);
    j->status = jpeg->err->msg_code == JERR_OUT_OF_MEMORY
                    ? ls_fail(LS_E_MEMORY, "%s: no memory for decoding", j->what)
                    : ls_fail(LS_E_FORMAT, "%s: damaged JPEG of %zu bytes: %s", j->what, j->n, text);
    longjmp(j->failed, 1);
}

/* libjpeg fills the missing rest of a picture with grey and goes on with a warning. Here it is an error. */
static void on_message(j_common_ptr jpeg, int level)
{
    if (level < 0 && (jpeg->err->msg_code == JWRN_JPEG_EOF || jpeg->err->msg_code == JWRN_HIT_MARKER))
        on_error(jpeg);
}

static void on_progress(j_common_ptr jpeg)
{
    j_decompress_ptr d = (j_decompress_ptr)jpeg;
    const int64_t pixels = (int64_t)d->image_width * d->image_height, scans = d->input_scan_number;
    job *j = image_jpeg_job_of(jpeg);
    if (scans > MOST_SCANS || scans * pixels > ls_jpeg_work) {
        j->status = ls_fail(LS_E_FORMAT,
                            "%s: a JPEG of %u x %u pixels in more than %lld scans; save the picture again",
                            j->what, d->image_width, d->image_height, (long long)scans - 1);
        longjmp(j->failed, 1);
    }
}

/* C, M, Y, K of Adobe's files are stored inverted, and then are the light that each ink leaves. */
static void from_cmyk(uint8_t *to, int kinds, const uint8_t *from, size_t n, bool inverted)
{
    for (size_t i = 0; i < n; i++, from += 4) {
        unsigned rgb[3];
        for (int c = 0; c < 3; c++)
            rgb[c] = inverted ? (from[c] * from[3] + 127u) / 255u
                              : ((255u - from[c]) * (255u - from[3]) + 127u) / 255u;
        if (kinds == 1)
            *to++ = (uint8_t)((299u * rgb[0] + 587u * rgb[1] + 114u * rgb[2] + 500u) / 1000u);
        for (int c = 0; c < 3 && kinds == 3; c++)
            *to++ = (uint8_t)rgb[c];
    }
}

static int shrunk_side(int side, int by) { return (side + by - 1) / by; }

/* The strongest reduction after which the part still has at least as many pixels as the result. */
static int reduction(const ls_view *v, const ls_cut *cut)
{
    int by = 8;
    while (by > 1 && (cut->width / by < v->width || cut->height / by < v->height))
        by /= 2;
    return by;
}

/* Skips what the plan does not read. Rows are read from the plan's first one on, and columns from those where
 * libjpeg can begin. */
static void read_rows(job *j, int kinds)
{
    j_decompress_ptr d = &j->jpeg;
    const ls_resampler *p = j->plan;
    JDIMENSION x = (JDIMENSION)p->x, width = (JDIMENSION)p->width;
    if (p->width < (int)d->output_width)
        jpeg_crop_scanline(d, &x, &width); /* moves x to the left and makes it wider */
    const bool cmyk = d->out_color_components == 4;
    const size_t each = cmyk ? 4 : (size_t)kinds, stride = (size_t)width * each,
                 skip = (size_t)((JDIMENSION)p->x - x) * (size_t)kinds, rows = (size_t)p->height,
                 own = (size_t)width * (size_t)kinds;
    uint8_t *pixels = ls_room_get(j->room, LS_ROOM_PIXELS, own * rows + (cmyk ? stride : 0));
    if (!pixels) {
        j->status = ls_fail(LS_E_MEMORY, "%s: no memory for %zu rows of %u pixels", j->what, rows, width);
        longjmp(j->failed, 1);
    }
    if (p->y)
        jpeg_skip_scanlines(d, (JDIMENSION)p->y);
    for (size_t done = 0; done < rows;) {
        JSAMPROW to[16];
        uint8_t *line = cmyk ? pixels + own * rows : pixels + done * own;
        const size_t ask = cmyk ? 1 : rows - done < 16 ? rows - done : 16;
        for (size_t i = 0; i < ask; i++)
            to[i] = line + i * stride;
        const size_t got = jpeg_read_scanlines(d, to, (JDIMENSION)ask);
        if (cmyk && got)
            from_cmyk(pixels + done * own, kinds, line, width, d->saw_Adobe_marker);
        done += got;
    }
    *j->out = (ls_pixels){ .at = pixels + skip, .stride = own, .kinds = kinds };
}

/* Everything that may jump to j->failed. */
static void decode(job *j, const void *bytes)
{
    j_decompress_ptr d = &j->jpeg;
    const ls_view *v = j->view;
    ls_cut cut;
    if (setjmp(j->failed))
        return;
    jpeg_mem_src(d, bytes, (unsigned long)j->n);
    jpeg_read_header(d, TRUE);
    const int64_t width = d->image_width, height = d->image_height;
    if (width * height > 1 << 26) {
        j->status = ls_fail(
            LS_E_FORMAT, "%s: image of %lld x %lld pixels, more than the 2^26 this reader takes; shrink it",
            j->what, (long long)width, (long long)height);
        return;
    }
    v->choose(v->context, (int)height, (int)width, &cut);
    const int by = reduction(v, &cut);
    d->scale_num = 1;
    d->scale_denom = (unsigned)by;
    const bool cmyk = d->jpeg_color_space == JCS_CMYK || d->jpeg_color_space == JCS_YCCK;
    d->out_color_space = cmyk ? JCS_CMYK : v->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    j->status = ls_resample_plan(j->plan, &cut, by, shrunk_side((int)height, by), shrunk_side((int)width, by),
                                 v->height, v->width, j->room);
    if (j->status != LS_OK)
        return;
    jpeg_start_decompress(d);
    read_rows(j, v->channels);
}

ls_status ls_jpeg_pixels(ls_pixels *out, ls_resampler *plan, const ls_view *v, const void *bytes, size_t n,
                         const char *what, ls_room *room)
{
    job j = { .what = what, .n = n, .status = LS_OK, .view = v, .room = room, .plan = plan, .out = out };
    j.jpeg.err = jpeg_std_error(&j.errors);
    j.errors.error_exit = on_error;
    j.errors.emit_message = on_message;
    j.jpeg.client_data = &j;
    if (setjmp(j.failed) == 0) {
        jpeg_create_decompress(&j.jpeg);
        j.progress.progress_monitor = on_progress;
        j.jpeg.progress = &j.progress;
        decode(&j, bytes);
    }
    jpeg_destroy_decompress(&j.jpeg);
    return j.status;
}

/* ---- whole pictures */

static void choose_whole(const void *context, int height, int width, ls_cut *out)
{
    (void)context;
    *out = (ls_cut){ .width = width, .height = height };
}

/* Only the header. The channels of the result: 1 for a grey picture, else 3. */
static ls_status read_header(ls_view *out, const void *bytes, size_t n, const char *what)
{
    job j = { .what = what, .n = n, .status = LS_OK };
    j.jpeg.err = jpeg_std_error(&j.errors);
    j.errors.error_exit = on_error;
    j.errors.emit_message = on_message;
    j.jpeg.client_data = &j;
    if (setjmp(j.failed) == 0) {
        jpeg_create_decompress(&j.jpeg);
        jpeg_mem_src(&j.jpeg, bytes, (unsigned long)n);
        jpeg_read_header(&j.jpeg, TRUE);
        *out = (ls_view){ .channels = j.jpeg.jpeg_color_space == JCS_GRAYSCALE ? 1 : 3,
                          .height = (int)j.jpeg.image_height,
                          .width = (int)j.jpeg.image_width,
                          .choose = choose_whole };
    }
    jpeg_destroy_decompress(&j.jpeg);
    return j.status;
}

ls_status ls_jpeg_parse(ls_image *out, const void *bytes, size_t n, const char *what)
{
    ls_view v;
    ls_pixels pixels;
    ls_resampler plan;
    ls_room room = { 0 };
    LS_TRY(read_header(&v, bytes, n, what));
    LS_TRY(ls_image_allocate(out, v.channels, v.height, v.width, what));
    ls_status s = ls_jpeg_pixels(&pixels, &plan, &v, bytes, n, what, &room);
    if (s == LS_OK)
        s = ls_resample(&plan, pixels.at, pixels.stride, pixels.kinds, out->data, &room);
    ls_room_release(&room);
    if (s != LS_OK)
        ls_image_release(out);
    return s;
}

#else
const bool ls_jpeg_is_read = false;
int64_t ls_jpeg_work = 0;

static ls_status no_jpeg(const char *what)
{
    return ls_fail(LS_E_UNSUPPORTED,
                   "%s: this build cannot read JPEG: install the package libjpeg-dev and build again, or "
                   "convert the pictures to PNG",
                   what);
}

ls_status ls_jpeg_pixels(ls_pixels *out, ls_resampler *plan, const ls_view *v, const void *bytes, size_t n,
                         const char *what, ls_room *room)
{
    (void)out, (void)plan, (void)v, (void)bytes, (void)n, (void)room;
    return no_jpeg(what);
}

ls_status ls_jpeg_parse(ls_image *out, const void *bytes, size_t n, const char *what)
{
    (void)out, (void)bytes, (void)n;
    return no_jpeg(what);
}
#endif
