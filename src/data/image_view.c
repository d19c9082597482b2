/* image_view.c - see image_view.h. */
#include "data/image_view.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "data/image.h"

/* A picture that is decoded as a whole, in planes. */
static ls_status view_planes(uint8_t *to, const ls_view *v, const void *bytes, size_t n, const char *what,
                             ls_room *room)
{
    ls_image image;
    ls_cut cut;
    ls_resampler plan;
    LS_TRY(ls_image_parse(&image, bytes, n, what));
    v->choose(v->context, image.height, image.width, &cut);
    ls_status s = LS_OK;
    if (v->channels == 1) /* of the same size, so that only the colours change */
        s = ls_image_fit(&image, 1, image.height, image.width, false, what);
    if (s == LS_OK)
        s = ls_resample_plan(&plan, &cut, 1, image.height, image.width, v->height, v->width, room);
    const size_t whole = (size_t)image.height * (size_t)image.width,
                 plane = (size_t)v->height * (size_t)v->width, stride = (size_t)image.width;
    for (int c = 0; c < image.channels && s == LS_OK; c++)
        s = ls_resample(&plan, image.data + (size_t)c * whole + (size_t)plan.y * stride + (size_t)plan.x,
                        stride, 1, to + (size_t)c * plane, room);
    for (int c = image.channels; c < v->channels && s == LS_OK; c++)
        memcpy(to + (size_t)c * plane, to, plane);
    ls_image_release(&image);
    return s;
}

ls_status ls_image_view(uint8_t *to, const ls_view *v, const void *bytes, size_t n, const char *what,
                        ls_room *room)
{
    ls_pixels pixels;
    ls_resampler plan;
    if (!ls_jpeg_is(bytes, n))
        return view_planes(to, v, bytes, n, what, room);
    LS_TRY(ls_jpeg_pixels(&pixels, &plan, v, bytes, n, what, room));
    return ls_resample(&plan, pixels.at, pixels.stride, pixels.kinds, to, room);
}

/* Sizes and offsets are rounded as torchvision's Resize and CenterCrop round them (Python's round: to even).
 */
void ls_image_choose_middle(const void *context, int height, int width, ls_cut *out)
{
    const ls_image_eval *e = context;
    const int shorter = height < width ? height : width;
    const double h = floor((double)e->resize * height / shorter),
                 w = floor((double)e->resize * width / shorter), top = nearbyint((h - e->size) / 2),
                 left = nearbyint((w - e->size) / 2);
    *out = (ls_cut){ .x = left * width / w,
                     .y = top * height / h,
                     .width = e->size * width / w,
                     .height = e->size * height / h,
                     .around = true };
}

ls_image_eval ls_image_eval_of(int size, int resize)
{
    return (ls_image_eval){ .size = size, .resize = resize ? resize : size * 256 / 224 };
}

ls_status ls_image_view_file(uint8_t *to, int channels, const ls_image_eval *e, const char *path)
{
    const ls_view v = { .channels = channels,
                        .height = e->size,
                        .width = e->size,
                        .choose = ls_image_choose_middle,
                        .context = e };
    ls_room room = { 0 };
    ls_mapping m;
    LS_TRY(ls_file_map(&m, path));
    const ls_status s = ls_image_view(to, &v, m.data, m.size, path, &room);
    ls_file_unmap(&m);
    ls_room_release(&room);
    return s;
}
