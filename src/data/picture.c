/* picture.c - lays out a grid of samples. Each has an image in a frame, its label, the prediction, and a bar
 * for its probability; short names share a line ("label: 7; pred: 7"). A right prediction and its frame are
 * green, a wrong one red. The frame of a wrong one is also thicker, for people who cannot tell the colours
 * apart. */
#include "data/picture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/argument.h"
#include "base/c_locale.h"
#include "base/check.h"
#include "base/file.h"
#include "base/sys.h"

/* pixels of a page: a PNG is painted in memory, with three bytes a pixel */
enum { MOST_SAMPLES = 10000, MOST_PIXELS = 100000000 };
enum {
    MARGIN = 24,
    GAP = 20,
    TEXT = 2,
    TITLE = 3,
    LINE = LS_GLYPH_ROWS * TEXT + 6,
    IMAGE_WISH = 168,
    FRAME = 6,
    MOST_TEXT = 28
};
static const uint32_t GREEN = 0x1a7f37, RED = 0xcf222e, INK = 0x24292f, SOFT = 0x57606a, PALE = 0xd0d7de,
                      AMBER = 0x9a6700, BLUE = 0x0550ae;

static ls_drawing_mark *picture_add(ls_drawing *d, ls_drawing_kind kind, int x, int y, int width, int height,
                                    uint32_t colour)
{
    ls_drawing_mark *marks = d->no_memory ? NULL : ls_sys_grow(d->marks, d->n, &d->capacity, sizeof *marks);
    d->no_memory = !marks;
    d->marks = marks ? marks : d->marks;
    ls_drawing_mark *m = marks ? &marks[d->n++] : &d->lost;
    *m = (ls_drawing_mark){
        .kind = kind, .x = x, .y = y, .width = width, .height = height, .colour = colour
    };
    return m;
}

/* Shortens a text to `most` characters; a longer one ends in "..". */
static void add_text(ls_drawing *d, int x, int y, int size, uint32_t colour, const char *text, int most)
{
    const char *end = text, *cut = text;
    int n = 0;
    for (; *end && n < most; n++) {
        if (n <= most - 2)
            cut = end;
        ls_next_codepoint(&end);
    }
    ls_drawing_mark *m = picture_add(d, LS_DRAWING_TEXT, x, y, most * LS_GLYPH_ADVANCE * size,
                                     LS_GLYPH_HEIGHT * size, colour);
    m->size = size;
    char *shown = d->no_memory ? NULL
                  : *end       ? ls_sys_text("%.*s..", (int)(cut - text), text)
                               : ls_sys_strdup(text);
    d->no_memory = !shown;
    m->text = shown;
}

static int characters(const char *text)
{
    int n = 0;
    for (; *text; n++)
        ls_next_codepoint(&text);
    return n;
}

/* Adds text in lines of at most `most` characters, broken at spaces if there are any. Returns the y below
 * it. */
static int add_paragraph(ls_drawing *d, int y, int size, uint32_t colour, const char *text, int most)
{
    while (*text) {
        const char *p = text, *space = NULL;
        int n = 0;
        while (*p && n < most) {
            if (*p == ' ')
                space = p;
            ls_next_codepoint(&p);
            n++;
        }
        const char *end = *p && *p != ' ' && space && space > text ? space : p;
        char *line = ls_sys_strndup(text, (size_t)(end - text));
        d->no_memory = d->no_memory || !line;
        add_text(d, MARGIN, y, size, colour, line ? line : "", most);
        free(line);
        y += (LS_GLYPH_ROWS + 2) * size;
        text = end;
        while (*text == ' ')
            text++;
    }
    return y;
}

typedef struct layout {
    int scale, image_width, image_height; /* of an image as it is shown */
    int cell_width, cell_height, columns, text_chars;
    bool labels, predictions, one_line; /* one_line: "label: 7; pred: 7" */
} layout;

static int probability_text(char out[16], double p) { return ls_snprintf(out, 16, "%.2f", p); }

static layout plan(const ls_picture *p)
{
    layout l = { 0 };
    int longest = 0, short_names = 0;
    bool both = true;
    for (int64_t i = 0; i < p->n; i++) {
        const ls_picture_cell *c = &p->cells[i];
        l.labels = l.labels || c->label;
        l.predictions = l.predictions || c->predicted;
        int a = c->label ? 7 + characters(c->label) : 0, b = c->predicted ? 7 + characters(c->predicted) : 0;
        longest = a > longest ? a : longest;
        longest = b > longest ? b : longest;
        both = both && a && b;
        short_names = a + b > short_names ? a + b : short_names;
    }
    l.one_line = both && short_names <= 7 + 7 + 4;
    if (l.one_line)
        longest = short_names + 1;
    int larger = p->width > p->height ? p->width : p->height;
    l.scale = larger < IMAGE_WISH ? IMAGE_WISH / larger : 1;
    l.image_width = p->width * l.scale;
    l.image_height = p->height * l.scale;
    l.text_chars = longest < MOST_TEXT ? longest : MOST_TEXT;
    int text = l.text_chars * LS_GLYPH_ADVANCE * TEXT;
    l.cell_width = (l.image_width + 2 * FRAME > text ? l.image_width + 2 * FRAME : text);
    l.text_chars = l.cell_width / (LS_GLYPH_ADVANCE * TEXT);
    l.cell_height = l.image_height + 2 * FRAME + 6 + (l.labels && !l.one_line ? LINE : 0) +
                    (l.predictions ? 2 * LINE : 0);
    if (p->columns > 0) {
        l.columns = p->columns;
    } else { /* about as wide as 3 : 2 */
        l.columns = 1;
        while ((int64_t)l.columns * l.columns * l.cell_width * 2 < p->n * l.cell_height * 3 &&
               l.columns < p->n)
            l.columns++;
        /* a square number of samples makes a square */
        for (int side = 2; (int64_t)side * side <= p->n; side++)
            if ((int64_t)side * side == p->n)
                l.columns = side;
    }
    if (l.columns > p->n)
        l.columns = (int)p->n;
    return l;
}

static void add_cell(ls_drawing *d, const ls_picture *p, const layout *l, const ls_picture_cell *c, int x,
                     int y)
{
    bool judged = c->label && c->predicted, right = judged && !strcmp(c->label, c->predicted);
    uint32_t colour = judged ? right ? GREEN : RED : c->predicted ? BLUE : SOFT;
    int frame = judged && !right ? FRAME : FRAME / 2;
    picture_add(d, LS_DRAWING_RECT, x + FRAME - frame, y + FRAME - frame, l->image_width + 2 * frame,
                l->image_height + 2 * frame, judged ? colour : PALE);
    ls_drawing_mark *m = picture_add(d, LS_DRAWING_IMAGE, x + FRAME, y + FRAME, l->image_width,
                                     l->image_height, 0);
    m->image = c->image;
    m->channels = p->channels;
    m->rows = p->height;
    m->columns = p->width;
    y += l->image_height + 2 * FRAME + 8;
    int indent = 7 * LS_GLYPH_ADVANCE * TEXT, left = x;
    if (c->label) {
        add_text(d, x, y, TEXT, SOFT, "label:", 6);
        add_text(d, x + indent, y, TEXT, INK, c->label, l->text_chars - 7);
    }
    if (l->one_line) {
        x += indent + characters(c->label) * LS_GLYPH_ADVANCE * TEXT;
        add_text(d, x, y, TEXT, SOFT, ";", 1);
        x += 2 * LS_GLYPH_ADVANCE * TEXT;
    } else if (l->labels) {
        y += LINE;
    }
    if (!c->predicted)
        return;
    add_text(d, x, y, TEXT, SOFT, "pred:", 6);
    add_text(d, x + (l->one_line ? 6 : 7) * LS_GLYPH_ADVANCE * TEXT, y, TEXT, colour, c->predicted,
             l->text_chars - 7);
    if (c->probability < 0)
        return;
    x = left;
    y += LINE;
    char text[16];
    int chars = probability_text(text, c->probability);
    int bar = l->cell_width - indent - 8;
    double share = c->probability > 1 ? 1 : c->probability;
    add_text(d, x, y, TEXT, colour, text, chars);
    picture_add(d, LS_DRAWING_RECT, x + indent, y + 2, bar, LS_GLYPH_HEIGHT * TEXT - 4, PALE);
    int filled = (int)(share * bar + 0.5);
    if (filled > 0)
        picture_add(d, LS_DRAWING_RECT, x + indent, y + 2, filled, LS_GLYPH_HEIGHT * TEXT - 4, colour);
}

static void draw(ls_drawing *d, const ls_picture *p)
{
    layout l = plan(p);
    int64_t rows = (p->n + l.columns - 1) / l.columns;
    int grid = l.columns * l.cell_width + (l.columns - 1) * GAP, least = 32 * LS_GLYPH_ADVANCE * TEXT;
    int inner = grid > least ? grid : least;
    d->width = inner + 2 * MARGIN;
    d->title = p->title;
    int title = characters(p->title) * LS_GLYPH_ADVANCE * TITLE <= inner ? TITLE : TEXT;
    int y = add_paragraph(d, MARGIN, title, INK, p->title, inner / (LS_GLYPH_ADVANCE * title));
    if (*p->note)
        y = add_paragraph(d, y + 2, TEXT, AMBER, p->note, inner / (LS_GLYPH_ADVANCE * TEXT));
    y += 10;
    for (int64_t i = 0; i < p->n; i++)
        add_cell(d, p, &l, &p->cells[i], MARGIN + (int)(i % l.columns) * (l.cell_width + GAP),
                 y + (int)(i / l.columns) * (l.cell_height + GAP));
    d->height = y + (int)rows * (l.cell_height + GAP) - GAP + MARGIN;
}

static bool ends_in(const char *path, const char *ending)
{
    size_t n = strlen(path), k = strlen(ending);
    return n > k && !strcasecmp(path + n - k, ending);
}

ls_status ls_picture_fits(const char *path, const ls_picture *p)
{
    LS_ARG(path);
    LS_ARG(p);
    const bool svg = ends_in(path, ".svg");
    if (!svg && !ends_in(path, ".png"))
        return ls_fail(LS_E_USAGE, "%s: a picture's name must end in .svg or .png", path);
    if (p->n < 1 || (p->channels != 1 && p->channels != 3) || p->height < 1 || p->width < 1 ||
        p->height > 4096 || p->width > 4096)
        return ls_fail(LS_E_ARG,
                       "%s: cannot draw %lld samples of %d x %d x %d (channels, height, width): 1 or 3 "
                       "channels, at most 4096 x 4096",
                       path, (long long)p->n, p->channels, p->height, p->width);
    if (p->n > MOST_SAMPLES)
        return ls_fail(LS_E_USAGE, "%s: %lld samples in one picture: at most %d, so ask for fewer", path,
                       (long long)p->n, MOST_SAMPLES);
    const layout l = plan(p);
    const int64_t rows = (p->n + l.columns - 1) / l.columns, cell_width = l.cell_width + GAP,
                  cell_height = l.cell_height + GAP;
    const int64_t width = l.columns * cell_width, height = rows * cell_height;
    if (!svg && width * height > MOST_PIXELS)
        return ls_fail(LS_E_USAGE,
                       "%s: %lld samples in %lld rows of %d, each %lld x %lld pixels, make %lld x %lld: more "
                       "than the %d million of a PNG; "
                       "ask for %lld samples at most, or for .svg",
                       path, (long long)p->n, (long long)rows, l.columns, (long long)cell_width,
                       (long long)cell_height, (long long)width, (long long)height, MOST_PIXELS / 1000000,
                       (long long)(MOST_PIXELS / (cell_width * cell_height)));
    return LS_OK;
}

ls_status ls_picture_write(const char *path, const ls_picture *p)
{
    LS_ARG(path);
    LS_ARG(p);
    LS_TRY(ls_picture_fits(path, p));
    const bool svg = ends_in(path, ".svg");
    ls_drawing d = { 0 };
    draw(&d, p);
    ls_status s;
    ls_str text = { 0 };
    uint8_t *png = NULL;
    size_t n = 0;
    s = d.no_memory
            ? ls_fail(LS_E_MEMORY, "%s: no memory for a picture of %lld samples", path, (long long)p->n)
        : svg ? ls_drawing_svg(&d, &text)
              : ls_drawing_png(&d, &png, &n);
    if (s == LS_OK)
        s = ls_str_status(&text);
    if (s == LS_OK)
        s = ls_file_write(path, svg ? (const void *)ls_str_text(&text) : png, svg ? text.len : n);
    for (int64_t i = 0; i < d.n; i++)
        free(d.marks[i].text);
    free(d.marks);
    free(png);
    ls_str_release(&text);
    return s;
}
