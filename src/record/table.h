/* table.h - a table of text for people: columns as wide as what stands in them. A column with nothing in it
 * is left out, and where the terminal is too narrow the least important ones are. */
#pragma once
#include <stdbool.h>
#include <stdio.h>

typedef struct ls_column {
    const char *title;
    bool left; /* names to the left, numbers to the right */
    int leave; /* 0: always shown; else those with the largest number are left out first */
} ls_column;

typedef struct ls_table {
    int n_columns;
    const ls_column *columns;
    int n_rows, cap;
    char **cells; /* [n_rows][n_columns] */
    char **notes; /* per row: a line under it, or NULL */
} ls_table;

/* copies them; note "" or NULL: none */
void ls_table_row(ls_table *t, const char *const *cells, const char *note);
void ls_table_print(FILE *out, const ls_table *t, int width); /* width 0: of any width */
void ls_table_release(ls_table *t);
