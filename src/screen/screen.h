/* screen.h - a picture made of characters: a grid of cells, each with a character and a colour. Text that
 * does not fit is cut off at the right. */
#pragma once
#include <stdint.h>
#include "base/str.h"

typedef enum ls_ink {
    LS_INK_PLAIN,
    LS_INK_BOLD,
    LS_INK_DIM,
    LS_INK_BLUE,
    LS_INK_AMBER,
    LS_INK_RED,
    LS_INK_GREEN
} ls_ink;

typedef struct ls_screen {
    int width, height;
    bool utf8; /* false: other characters than ASCII become '?' */
    struct ls_screen_cell {
        uint32_t letter; /* Unicode; 0: empty */
        uint8_t ink;
    } * cells; /* [height][width] */
} ls_screen;

ls_status ls_screen_make(ls_screen *out, int width, int height, bool utf8); /* LS_E_MEMORY */
void ls_screen_release(ls_screen *s);
/* Does nothing outside the screen. */
void ls_screen_letter(ls_screen *s, int row, int column, ls_ink ink, uint32_t letter);
/* Writes text from a column on and returns the column behind it. Control characters of `text` are shown as
 * \xNN. */
int ls_screen_text(ls_screen *s, int row, int column, ls_ink ink, const char *text);
int ls_screen_print(ls_screen *s, int row, int column, ls_ink ink, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* A bar of `width` cells, of which this fraction is filled. */
void ls_screen_bar(ls_screen *s, int row, int column, int width, double filled, ls_ink ink);
/* Appends rows 0 to `rows` - 1 without the spaces at their ends. colour: with escape sequences. `end` ends
 * each row. */
void ls_screen_write(ls_str *out, const ls_screen *s, int rows, bool colour, const char *end);
