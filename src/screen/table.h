/* table.h - a table of text for people. Columns are as wide as their longest cell. Empty columns are left
 * out; on a narrow terminal so are the least important ones. */
#pragma once
#include <stdbool.h>
#include <stdio.h>
#include "lockstep/status.h"

typedef struct ls_column {
    const char *title;
    bool left; /* aligned to the left, as names; else to the right, as numbers */
    int leave; /* 0: always shown; else columns with the largest number are left out first */
} ls_column;

typedef struct ls_table {
    int n_columns;
    const ls_column *columns;
    int n_rows, cap;
    char **cells; /* [n_rows][n_columns] */
    char **notes; /* per row: a line under it, or NULL */
    bool no_memory;
} ls_table;

/* Adds a row with copies of the cells. note "" or NULL: none. */
void ls_table_row(ls_table *t, const char *const *cells, const char *note);
/* width 0: no limit. LS_E_MEMORY: nothing is printed, because a row is missing. */
ls_status ls_table_print(FILE *out, const ls_table *t, int width);
void ls_table_release(ls_table *t);
