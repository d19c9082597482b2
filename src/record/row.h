/* row.h - a kind of row of metrics.jsonl is a table of its columns (rows.c). From the table come the row as
 * JSON, out and in, metrics.csv, TensorBoard's scalars and the tables that show it. The rows of an array are
 * in the order of the JSON. A column has two rules: when it is written, and as what a reader takes it where
 * it is missing. In JSON null is a number that is undefined: it reads as NAN, and is written again as null.
 */
#pragma once
#include "base/metric_list.h"

/* What a column's member is in the struct of the row. */
typedef enum ls_cell {
    LS_CELL_INT, /* int64_t */
    LS_CELL_F32, /* float: its text reads back as the same float */
    LS_CELL_F64,
    LS_CELL_SECONDS, /* double, rounded to nanoseconds, the resolution of the clock */
    LS_CELL_BOOL,
    LS_CELL_TEXT,    /* const char *; one that was read lives as long as the JSON */
    LS_CELL_TRUE,    /* no member: `true` where it is written */
    LS_CELL_ATTEMPT, /* no member: the attempt, which stands beside the row */
    LS_CELL_NAMED,   /* ls_metric_list: an entry has the key `key` and its name. One that was read is owned */
    LS_CELL_ENTRY,   /* an entry of such a list, eval_NAME, for CSV and tables: the list writes it */
} ls_cell;

enum { LS_CSV_BEHIND = 255 };
typedef struct ls_row_column {
    const char *key;
    ls_cell type;
    size_t at; /* of the member */
    bool (*there)(double value,
                  const void *row); /* whether it is written; NULL: always. A text is 1, NULL 0 */
    double unread;     /* a reader's value where the key is missing (NAMED: empty, TEXT: NULL, others: 0) */
    const char *older; /* what older versions called it; NULL: the same */
    /* Place in metrics.csv, from 1. These places are taken for ever: each file begins with these columns.
     * LS_CSV_BEHIND: a column behind them, from the first row that has it on. 0: none. */
    uint8_t csv;
    uint8_t show;                   /* place in tables for people, from 1 without gaps; 0: none */
    int leave;                      /* as in ls_column (screen/table.h) */
    const char *title;              /* in tables */
    const char *format, *undefined; /* of a float: for printf; of NAN, NULL: nothing */
    const char *tag;                /* of a scalar for TensorBoard; NULL: none */
    /* The name of its curve (curves.h), of a list what stands before the names of its entries; NULL: none. */
    const char *curve;
} ls_row_column;

typedef struct ls_row_kind {
    const char *name;
    int n;
    const ls_row_column *columns;
} ls_row_kind;

/* Writes the row as an object. Allocates nothing beside the text. */
void ls_row_write(ls_json *j, const ls_row_kind *k, const void *row, int64_t attempt);
/* Sets every member. Ask ls_metric_list_status of its list; release that. */
void ls_row_read(const ls_row_kind *k, const json_t *json, void *row);
/* Whether every row of this kind may have this key; names of a list are not such keys. */
bool ls_row_has_key(const ls_row_kind *k, const char *key);
/* Whether this row has the column, and its number; NAN: it does not. */
bool ls_row_has(const ls_row_column *c, const void *row);
double ls_row_number(const ls_row_column *c, const void *row);

/* The list of a column of LS_CELL_NAMED. */
const ls_metric_list *ls_row_list(const ls_row_column *c, const void *row);

/* The columns that each metrics.csv begins with: their names, and the cells of a row. */
void ls_row_csv_titles(ls_str *out, const ls_row_kind *k, bool older);
void ls_row_csv_cells(ls_str *out, const ls_row_kind *k, const void *row, int64_t attempt);
/* Sets in `list` what this row has in columns behind them. */
void ls_row_csv_further(ls_metric_list *list, const ls_row_kind *k, const void *row);

/* The column at a place of tables; NULL: there is none. */
const ls_row_column *ls_row_shown(const ls_row_kind *k, int place);
/* Its cell; "": this row does not have it. */
const char *ls_row_text(char out[32], const ls_row_column *c, const void *row, int64_t attempt);
