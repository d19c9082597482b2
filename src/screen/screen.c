/* screen.c - see screen.h. */
#include "screen.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/shown.h"
#include "base/sys.h"

ls_status ls_screen_make(ls_screen *out, int width, int height, bool utf8)
{
    *out = (ls_screen){ .width = width, .height = height, .utf8 = utf8 };
    out->cells = ls_sys_calloc((size_t)width * (size_t)height, sizeof *out->cells);
    return ls_sys_have(out->cells);
}

void ls_screen_release(ls_screen *s)
{
    free(s->cells);
    *s = (ls_screen){ 0 };
}

void ls_screen_letter(ls_screen *s, int row, int column, ls_ink ink, uint32_t letter)
{
    if (row >= 0 && row < s->height && column >= 0 && column < s->width)
        s->cells[row * s->width + column] = (struct ls_screen_cell){ s->utf8 || letter < 128 ? letter : '?',
                                                                     (uint8_t)ink };
}

/* The character at *p, which moves behind it. A byte that is not UTF-8 is '?'. */
static uint32_t next_letter(const char **p)
{
    const unsigned char *t = (const unsigned char *)*p;
    const int more = t[0] < 0x80 ? 0 : t[0] >> 5 == 6 ? 1 : t[0] >> 4 == 14 ? 2 : t[0] >> 3 == 30 ? 3 : -1;
    uint32_t letter = more < 0 ? '?' : more ? t[0] & (0x3fu >> more) : t[0];
    (*p)++;
    for (int i = 1; i <= more; i++) {
        if ((t[i] & 0xc0) != 0x80)
            return '?';
        letter = letter << 6 | (t[i] & 0x3f);
        (*p)++;
    }
    return letter;
}

int ls_screen_text(ls_screen *s, int row, int column, ls_ink ink, const char *text)
{
    ls_str shown = { 0 };
    ls_str_add_shown(&shown, text, false);
    for (const char *p = ls_str_text(&shown); *p && column < s->width; column++)
        ls_screen_letter(s, row, column, ink, next_letter(&p));
    ls_str_release(&shown);
    return column;
}

int ls_screen_print(ls_screen *s, int row, int column, ls_ink ink, const char *format, ...)
{
    ls_str text = { 0 };
    va_list args;
    va_start(args, format);
    ls_str_vprintf(&text, format, args);
    va_end(args);
    column = ls_screen_text(s, row, column, ink, ls_str_text(&text));
    ls_str_release(&text);
    return column;
}

void ls_screen_bar(ls_screen *s, int row, int column, int width, double filled, ls_ink ink)
{
    const double part = filled > 1 ? 1 : filled > 0 ? filled : 0;
    const int full = (int)(part * width + 0.5);
    for (int i = 0; i < width; i++)
        ls_screen_letter(s, row, column + i, i < full ? ink : LS_INK_DIM,
                         s->utf8 ? (i < full ? 0x2588u : 0x2591u) : (i < full ? '#' : '-'));
}

static void add_letter(ls_str *out, uint32_t c)
{
    char b[4];
    size_t n = 0;
    if (c < 0x80) {
        b[n++] = (char)c;
    } else if (c < 0x800) {
        b[n++] = (char)(0xc0 | c >> 6);
        b[n++] = (char)(0x80 | (c & 0x3f));
    } else {
        if (c < 0x10000) {
            b[n++] = (char)(0xe0 | c >> 12);
        } else {
            b[n++] = (char)(0xf0 | c >> 18);
            b[n++] = (char)(0x80 | (c >> 12 & 0x3f));
        }
        b[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        b[n++] = (char)(0x80 | (c & 0x3f));
    }
    ls_str_add_n(out, b, n);
}

void ls_screen_write(ls_str *out, const ls_screen *s, int rows, bool colour, const char *end)
{
    static const char *const SGR[] = { "\033[0m",    "\033[0;1m",  "\033[0;2m", "\033[0;34m",
                                       "\033[0;33m", "\033[0;31m", "\033[0;32m" };
    for (int r = 0; r < rows && r < s->height; r++) {
        const struct ls_screen_cell *row = s->cells + r * s->width;
        int n = s->width, ink = LS_INK_PLAIN;
        while (n > 0 && (!row[n - 1].letter || row[n - 1].letter == ' '))
            n--;
        for (int c = 0; c < n; c++) {
            if (colour && row[c].letter && row[c].ink != ink)
                ls_str_add(out, SGR[ink = row[c].ink]);
            add_letter(out, row[c].letter ? row[c].letter : ' ');
        }
        if (ink != LS_INK_PLAIN)
            ls_str_add(out, SGR[LS_INK_PLAIN]);
        ls_str_add(out, end);
    }
}
