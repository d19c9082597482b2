/* picture_svg.c - a drawing as SVG: text stays text, and images are embedded as PNG and shown with sharp
 * pixels. It refers to no other files. */
#include <stdlib.h>

#include "base/sys.h"
#include "data/image.h"
#include "data/picture.h"

static void add_escaped(ls_str *out, const char *text)
{
    while (*text) {
        const char *start = text;
        uint32_t c = ls_next_codepoint(&text);
        switch (c) {
        case '<': ls_str_add(out, "&lt;"); break;
        case '>': ls_str_add(out, "&gt;"); break;
        case '&': ls_str_add(out, "&amp;"); break;
        case '"': ls_str_add(out, "&quot;"); break;
        default:
            if (c == 0xfffd || c < 32 || c == 0xfffe || c == 0xffff || (c >= 0xd800 && c < 0xe000))
                ls_str_add(out, "\xef\xbf\xbd"); /* XML allows neither control characters nor invalid UTF-8 */
            else
                ls_str_add_n(out, start, (size_t)(text - start));
        }
    }
}

static ls_status add_image(ls_str *out, const ls_drawing_mark *m)
{
    size_t n = (size_t)m->rows * (size_t)m->columns, channels = (size_t)m->channels, size;
    uint8_t *pixels = ls_sys_malloc(n * channels), *png;
    if (!pixels)
        return ls_fail(LS_E_MEMORY, "no memory for an image of a picture");
    for (size_t i = 0; i < n * channels; i++)
        pixels[i] = m->image[i % channels * n + i / channels]; /* from planes to interleaved pixels */
    ls_status s = ls_png_encode(&png, &size, m->channels, m->rows, m->columns, pixels);
    free(pixels);
    LS_TRY(s);
    ls_str_printf(out,
                  "<image x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" style=\"image-rendering:pixelated\" "
                  "href=\"data:image/png;base64,",
                  m->x, m->y, m->width, m->height);
    ls_str_add_base64(out, png, size);
    ls_str_add(out, "\"/>\n");
    free(png);
    return LS_OK;
}

ls_status ls_drawing_svg(const ls_drawing *d, ls_str *out)
{
    ls_str_printf(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
        "font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\">\n<title>",
        d->width, d->height, d->width, d->height);
    add_escaped(out, d->title);
    ls_str_printf(out, "</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", d->width,
                  d->height);
    for (int64_t i = 0; i < d->n; i++) {
        const ls_drawing_mark *m = &d->marks[i];
        if (m->kind == LS_DRAWING_RECT) {
            ls_str_printf(out, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#%06x\"/>\n", m->x,
                          m->y, m->width, m->height, m->colour);
        } else if (m->kind == LS_DRAWING_TEXT) {
            /* A monospaced letter is about 0.6 times as wide as the font's size, so size 9.6 fills the grid.
             * The baseline is at y + height. */
            ls_str_printf(out,
                          "<text x=\"%d\" y=\"%d\" font-size=\"%.1f\" fill=\"#%06x\" xml:space=\"preserve\">",
                          m->x, m->y + LS_GLYPH_HEIGHT * m->size, 9.6 * m->size, m->colour);
            add_escaped(out, m->text);
            ls_str_add(out, "</text>\n");
        } else {
            LS_TRY(add_image(out, m));
        }
    }
    ls_str_add(out, "</svg>\n");
    return LS_OK;
}
