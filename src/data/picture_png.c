/* picture_png.c - a drawing as PNG: painted in RGB memory with the dot font. */
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "data/image.h"
#include "data/picture.h"

typedef struct canvas {
    uint8_t *rgb; /* [height, width, 3] */
    int width, height;
} canvas;

static void paint(canvas *c, int x, int y, int width, int height, uint32_t colour)
{
    for (int j = y < 0 ? 0 : y; j < y + height && j < c->height; j++)
        for (int i = x < 0 ? 0 : x; i < x + width && i < c->width; i++) {
            uint8_t *p = c->rgb + ((size_t)j * (size_t)c->width + (size_t)i) * 3;
            p[0] = (uint8_t)(colour >> 16);
            p[1] = (uint8_t)(colour >> 8);
            p[2] = (uint8_t)colour;
        }
}

static void paint_text(canvas *c, const ls_drawing_mark *m)
{
    int x = m->x;
    for (const char *t = m->text; *t; x += LS_GLYPH_ADVANCE * m->size) {
        const uint8_t *rows = ls_glyph(ls_next_codepoint(&t));
        for (int y = 0; y < LS_GLYPH_ROWS; y++)
            for (int k = 0; k < LS_GLYPH_WIDTH; k++)
                if (rows[y] >> (4 - k) & 1)
                    paint(c, x + k * m->size, m->y + y * m->size, m->size, m->size, m->colour);
    }
}

static void paint_image(canvas *c, const ls_drawing_mark *m)
{
    int scale = m->width / m->columns;
    size_t plane = m->channels == 3 ? (size_t)m->rows * (size_t)m->columns : 0;
    for (int y = 0; y < m->rows; y++)
        for (int x = 0; x < m->columns; x++) {
            const uint8_t *p = m->image + (size_t)y * (size_t)m->columns + (size_t)x;
            paint(c, m->x + x * scale, m->y + y * scale, scale, scale,
                  (uint32_t)p[0] << 16 | (uint32_t)p[plane] << 8 | p[2 * plane]);
        }
}

ls_status ls_drawing_png(const ls_drawing *d, uint8_t **out, size_t *n)
{
    canvas c = { .width = d->width, .height = d->height };
    size_t bytes = (size_t)c.width * (size_t)c.height * 3;
    c.rgb = ls_sys_malloc(bytes);
    if (!c.rgb)
        return ls_fail(LS_E_MEMORY, "out of memory for a PNG of %d x %d pixels: fewer samples, or .svg",
                       d->width, d->height);
    memset(c.rgb, 255, bytes);
    for (int64_t i = 0; i < d->n; i++) {
        const ls_drawing_mark *m = &d->marks[i];
        if (m->kind == LS_DRAWING_RECT)
            paint(&c, m->x, m->y, m->width, m->height, m->colour);
        else if (m->kind == LS_DRAWING_TEXT)
            paint_text(&c, m);
        else
            paint_image(&c, m);
    }
    ls_status s = ls_png_encode(out, n, 3, c.height, c.width, c.rgb);
    free(c.rgb);
    return s;
}
