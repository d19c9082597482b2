/* table.c - see table.h. */
#include "table.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/shown.h"
#include "base/sys.h"

enum { GAP = 2 };

static char *copied(const char *text)
{
    ls_str copy = { 0 };
    ls_str_add_shown(&copy, text, false);
    return ls_str_take(&copy);
}

void ls_table_row(ls_table *t, const char *const *cells, const char *note)
{
    int cap = t->cap;
    char **all = ls_sys_grow(t->cells, t->n_rows, &cap, sizeof *t->cells * (size_t)t->n_columns);
    t->cells = all ? all : t->cells;
    char **notes = all ? ls_sys_grow(t->notes, t->n_rows, &t->cap, sizeof *t->notes) : NULL;
    t->notes = notes ? notes : t->notes;
    if (!notes) {
        t->no_memory = true;
        return;
    }
    for (int c = 0; c < t->n_columns; c++) {
        char **at = &t->cells[t->n_rows * t->n_columns + c];
        *at = copied(cells[c]);
        t->no_memory = t->no_memory || !*at;
    }
    t->notes[t->n_rows++] = note && *note ? copied(note) : NULL;
}

/* The number of letters: of UTF-8 the first byte of each counts, and of accents behind a letter (U+0300 to
 * U+036F, in names of files from macOS) none. */
static int width_of(const char *text)
{
    int n = 0;
    for (; *text; text++) {
        const unsigned char c = (unsigned char)text[0], next = (unsigned char)text[1];
        n += (c & 0xc0) != 0x80 && c != 0xcc && !(c == 0xcd && next < 0xb0);
    }
    return n;
}

static void print_line(FILE *out, const ls_table *t, const int *widths, const char *const *cells)
{
    ls_str line = { 0 };
    int owed = 0; /* spaces that the next text needs before it, so that no line ends in spaces */
    for (int c = 0; c < t->n_columns; c++) {
        if (!widths[c])
            continue;
        const char *text = cells ? cells[c] : t->columns[c].title;
        const int space = widths[c] - width_of(text), before = t->columns[c].left ? 0 : space;
        owed += before;
        if (*text) {
            ls_str_printf(&line, "%*s%s", owed, "", text);
            owed = 0;
        }
        owed += space - before + GAP;
    }
    ls_print_line(out, "%s", ls_str_text(&line));
    ls_str_release(&line);
}

/* Computes the widths of the columns. A column that is not shown gets 0: it is empty, or the terminal is too
 * narrow. */
static void table_choose(int *widths, const ls_table *t, int most)
{
    int total = -GAP;
    for (int c = 0; c < t->n_columns; c++) {
        int title = width_of(t->columns[c].title), most_in_rows = 0;
        for (int r = 0; r < t->n_rows; r++) {
            const int w = width_of(t->cells[r * t->n_columns + c]);
            most_in_rows = w > most_in_rows ? w : most_in_rows;
        }
        if (most_in_rows || !t->n_rows) {
            widths[c] = title > most_in_rows ? title : most_in_rows;
            total += widths[c] + GAP;
        }
    }
    while (most && total > most) {
        int out = -1;
        for (int c = 0; c < t->n_columns; c++)
            if (widths[c] && t->columns[c].leave && (out < 0 || t->columns[c].leave > t->columns[out].leave))
                out = c;
        if (out < 0)
            return;
        total -= widths[out] + GAP;
        widths[out] = 0;
    }
}

ls_status ls_table_print(FILE *out, const ls_table *t, int width)
{
    int *widths = t->no_memory ? NULL : ls_sys_calloc((size_t)t->n_columns, sizeof *widths);
    if (!widths)
        return ls_fail(LS_E_MEMORY, "out of memory: a table of %d rows", t->n_rows);
    table_choose(widths, t, width);
    print_line(out, t, widths, NULL);
    for (int r = 0; r < t->n_rows; r++) {
        print_line(out, t, widths, (const char *const *)t->cells + r * t->n_columns);
        if (t->notes[r])
            fprintf(out, "    %s\n", t->notes[r]);
    }
    free(widths);
    return LS_OK;
}

void ls_table_release(ls_table *t)
{
    for (int i = 0; i < t->n_rows * t->n_columns; i++)
        free(t->cells[i]);
    for (int r = 0; r < t->n_rows; r++)
        free(t->notes[r]);
    free(t->cells);
    free(t->notes);
    *t = (ls_table){ 0 };
}
