/* image_fit.c - makes an image fit a model: its colours and its size. */
#include "base/argument.h"
#include "data/image.h"
#include "data/resample.h"

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

static ls_status resize(ls_image *image, int height, int width, const char *what)
{
    ls_image to;
    ls_resampler plan;
    ls_room room = { 0 };
    const ls_cut whole = { .width = image->width, .height = image->height };
    const size_t stride = (size_t)image->width, plane = stride * (size_t)image->height;
    LS_TRY(ls_image_allocate(&to, image->channels, height, width, what));
    ls_status s = ls_resample_plan(&plan, &whole, 1, image->height, image->width, height, width, &room);
    for (int k = 0; k < image->channels && s == LS_OK; k++) /* the plan may begin behind the first pixel */
        s = ls_resample(&plan, image->data + (size_t)k * plane + (size_t)plan.y * stride + (size_t)plan.x,
                        stride, 1, to.data + (size_t)k * (size_t)height * (size_t)width, &room);
    ls_room_release(&room);
    ls_image_release(s == LS_OK ? image : &to);
    if (s == LS_OK)
        *image = to;
    return s;
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
