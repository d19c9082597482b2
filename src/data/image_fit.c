/* image_fit.c - makes an image fit a model: its colours and its size. */
#include <math.h>
#include <stdlib.h>

#include "data/image.h"
#include "base/argument.h"
#include "base/sys.h"

/* Luma of ITU-R BT.601, as torchvision's Grayscale uses it. */
static ls_status to_gray(ls_image *image, const char *what)
{
    ls_image gray;
    LS_TRY(ls_image_allocate(&gray, 1, image->height, image->width, what));
    size_t n = (size_t)image->height * (size_t)image->width;
    const uint8_t *r = image->data, *g = r + n, *b = g + n;
    for (size_t i = 0; i < n; i++)
        gray.data[i] = (uint8_t)((299u * r[i] + 587u * g[i] + 114u * b[i] + 500u) / 1000u);
    ls_image_release(image);
    *image = gray;
    return LS_OK;
}

static ls_status to_colour(ls_image *image, const char *what)
{
    ls_image colour;
    LS_TRY(ls_image_allocate(&colour, 3, image->height, image->width, what));
    size_t n = (size_t)image->height * (size_t)image->width;
    for (size_t i = 0; i < 3 * n; i++)
        colour.data[i] = image->data[i % n];
    ls_image_release(image);
    *image = colour;
    return LS_OK;
}

/* Resamples `lines` lines of `from` elements to `to` elements. Element i of line l is at l * line + i * step.
 * The filter is a triangle (bilinear), and pixels have their centres at half. When the image shrinks, the
 * filter is wider by the same factor, so that every pixel counts. */
static void resample(float *out, const float *in, int lines, int out_line, int in_line, int from,
                     int out_step, int in_step, int to)
{
    float scale = (float)from / (float)to, reach = scale > 1 ? scale : 1;
    for (int o = 0; o < to; o++) {
        float centre = ((float)o + 0.5f) * scale;
        int first = (int)(centre - reach + 0.5f), last = (int)(centre + reach + 0.5f);
        first = first < 0 ? 0 : first;
        last = last > from ? from : last;
        for (int l = 0; l < lines; l++) {
            float sum = 0, weights = 0;
            for (int i = first; i < last; i++) {
                float w = 1 - fabsf(((float)i + 0.5f - centre) / reach);
                if (w <= 0)
                    continue;
                sum += w * in[(size_t)l * (size_t)in_line + (size_t)i * (size_t)in_step];
                weights += w;
            }
            out[(size_t)l * (size_t)out_line + (size_t)o * (size_t)out_step] = sum / weights;
        }
    }
}

static ls_status resize(ls_image *image, int height, int width, const char *what)
{
    ls_image r;
    LS_TRY(ls_image_allocate(&r, image->channels, height, width, what));
    int h = image->height, w = image->width;
    size_t n = (size_t)h * (size_t)w, n_out = (size_t)height * (size_t)width;
    float *a = ls_sys_malloc(n * sizeof *a), *b = ls_sys_malloc((size_t)h * (size_t)width * sizeof *b),
          *c = ls_sys_malloc(n_out * sizeof *c);
    bool ok = a && b && c;
    for (int k = 0; ok && k < image->channels; k++) {
        for (size_t i = 0; i < n; i++)
            a[i] = image->data[(size_t)k * n + i];
        resample(b, a, h, width, w, w, 1, 1, width);          /* each row */
        resample(c, b, width, 1, 1, h, width, width, height); /* each column */
        for (size_t i = 0; i < n_out; i++)
            r.data[(size_t)k * n_out + i] = (uint8_t)(c[i] + 0.5f);
    }
    free(a);
    free(b);
    free(c);
    ls_image_release(ok ? image : &r);
    if (ok)
        *image = r;
    return ok ? LS_OK : ls_fail(LS_E_MEMORY, "%s: no memory for resizing", what);
}

ls_status ls_image_fit(ls_image *image, int channels, int height, int width, bool may_resize,
                       const char *what)
{
    LS_ARG(image);
    LS_ARG(what);
    if (channels != 1 && channels != 3)
        return ls_fail(LS_E_SHAPE, "%s: images have 1 or 3 channels, the model takes %d", what, channels);
    if ((image->height != height || image->width != width) && !may_resize)
        return ls_fail(LS_E_SHAPE,
                       "%s: image of %d x %d pixels (width, height), the model takes %d x %d; give one of "
                       "that size, or ask for "
                       "resizing (predict --resize)",
                       what, image->width, image->height, width, height);
    if (channels == 1 && image->channels == 3)
        LS_TRY(to_gray(image, what));
    if (image->height != height || image->width != width)
        LS_TRY(resize(image, height, width, what));
    if (channels == 3 && image->channels == 1)
        LS_TRY(to_colour(image, what));
    return LS_OK;
}
