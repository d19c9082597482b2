/* picture.h - a drawing: rectangles, texts and pixel images on a white page. picture.c makes it;
 * picture_svg.c and picture_png.c write it. Lengths are pixels. A character is `size` * 6 wide and `size` * 7
 * high in both formats, so that the layout is the same. */
#pragma once
#include "base/str.h"
#include "lockstep/data.h"

enum {
    LS_GLYPH_ADVANCE = 6,
    LS_GLYPH_WIDTH = 5,
    LS_GLYPH_HEIGHT = 7,
    LS_GLYPH_ROWS = 9 /* with the two rows below the line */
};

typedef enum ls_drawing_kind { LS_DRAWING_RECT, LS_DRAWING_TEXT, LS_DRAWING_IMAGE } ls_drawing_kind;

typedef struct ls_drawing_mark {
    ls_drawing_kind kind;
    int x, y, width, height; /* text: the upper left corner */
    uint32_t colour;         /* 0xRRGGBB */
    int size;                /* text: pixels of a dot of the font */
    char *text;              /* owned */
    const uint8_t *image;    /* [channels, rows, columns], scaled to width x height; not owned */
    int channels, rows, columns;
} ls_drawing_mark;

typedef struct ls_drawing {
    int width, height;
    const char *title;
    ls_drawing_mark *marks;
    int64_t n;
    int capacity;
    bool no_memory;       /* marks are missing; */
    ls_drawing_mark lost; /* the latest of them */
} ls_drawing;

ls_status ls_drawing_svg(const ls_drawing *d, ls_str *out);
ls_status ls_drawing_png(const ls_drawing *d, uint8_t **out, size_t *n); /* malloc'ed */

/* The LS_GLYPH_ROWS rows of a character's dots; bit 4 is the leftmost dot. A box for characters that the font
 * lacks. */
const uint8_t *ls_glyph(uint32_t codepoint);
/* Reads a character of UTF-8 and advances *text. An invalid byte counts as an unknown character. */
uint32_t ls_next_codepoint(const char **text);
