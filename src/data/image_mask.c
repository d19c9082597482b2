/* image_mask.c - see image_mask.h. */
#include "data/image_mask.h"

#include <math.h>
#include <string.h>

#include "data/image.h"

void ls_mask_path(ls_str *out, const char *root, const char *name)
{
    const char *inside = strchr(name, '/'), *dot = strrchr(name, '.');
    ls_str_printf(out, "%s/masks", root);
    ls_str_add_n(out, inside, (size_t)(dot - inside));
    ls_str_add(out, ".png");
}

/* Puts class + 1, or 0, in place of each value. All values of the file must be right, whatever is cut out. */
static ls_status image_mask_number(ls_image *image, const ls_mask_values *m, const char *what)
{
    const size_t n = (size_t)image->height * (size_t)image->width, width = (size_t)image->width;
    for (size_t i = 0; i < n; i++) {
        const int value = image->data[i];
        if (value != m->ignore && value >= m->classes)
            return ls_fail(LS_E_SHAPE,
                           "%s: the pixel (%zu, %zu) has the value %d, and with %d classes values are 0 to "
                           "%d: correct the mask, give the model more classes, or name %d as the value to "
                           "ignore (docs/images.md)",
                           what, i % width, i / width, value, m->classes, m->classes - 1, value);
        image->data[i] = (uint8_t)(value == m->ignore ? 0 : value + 1);
    }
    return LS_OK;
}

/* The pixel of a row or column of `whole` pixels that lies under pixel i of n. */
static size_t nearest(double from, double size, int n, int i, int whole)
{
    const int at = (int)floor(from + (i + 0.5) * size / n);
    return (size_t)(at < 0 ? 0 : at < whole ? at : whole - 1);
}

static void cut_out(uint8_t *to, const ls_view *v, const ls_image *from)
{
    ls_cut cut;
    v->choose(v->context, from->height, from->width, &cut);
    for (int y = 0; y < v->height; y++) {
        const uint8_t *row = from->data +
                             nearest(cut.y, cut.height, v->height, y, from->height) * (size_t)from->width;
        for (int x = 0; x < v->width; x++)
            *to++ = row[nearest(cut.x, cut.width, v->width, x, from->width)];
    }
}

ls_status ls_mask_view(uint8_t *to, const ls_view *v, const ls_mask_values *m, const int picture[2],
                       const void *bytes, size_t n, const char *what)
{
    ls_image image;
    LS_TRY(ls_png_values(&image, bytes, n, what));
    ls_status s = LS_OK;
    if (picture[0] && (image.height != picture[0] || image.width != picture[1]))
        s = ls_fail(LS_E_FORMAT,
                    "%s: the mask has %d x %d pixels (width, height), and its picture has %d x %d: save it "
                    "in the size of the picture",
                    what, image.width, image.height, picture[1], picture[0]);
    if (s == LS_OK)
        s = image_mask_number(&image, m, what);
    if (s == LS_OK)
        cut_out(to, v, &image);
    ls_image_release(&image);
    return s;
}

void ls_mask_labels(int32_t *to, const uint8_t *mask, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = mask[i] ? mask[i] - 1 : LS_IGNORE_LABEL;
}
