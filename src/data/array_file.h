/* array_file.h - an array in a file: its type, and its elements in row-major order. */
#pragma once
#include "base/file.h"
#include "lockstep/types.h"

/* What the texts of a table's column become. */
typedef struct ls_array_tokens {
    const char *tokenizer; /* its file; NULL: they are numbers */
    int64_t length, below; /* tokens of each text; all ids are below it, 0: any */
    int32_t pad;
    /* the column of texts whose words this column has classes of, `classes` of the file; NULL: this column is
     * texts */
    const char *words;
} ls_array_tokens;

typedef struct ls_array_file {
    ls_type type;        /* [samples, ..] as the file has it; bool is u8 */
    const uint8_t *data; /* maybe unaligned: copy elements with memcpy */
    const char *classes; /* of a table: the texts that its columns have; NULL: numbers */
    ls_array_tokens tokens;
    uint64_t tokenizer; /* the hash of its file */
    int64_t cut;        /* texts that had more tokens */
    bool text;          /* f64 of a text, in which whole numbers may be integers */
    uint64_t digest;    /* of the elements' file, and of which array in it */
    char *path;         /* where it was found, with what it is in that file: for messages */
    ls_mapping map;
    void *heap;
    struct ls_hdf5 *rows; /* where `data` is NULL: rows are read from it */
    bool has_fill;        /* elements of this value are missing, as NaN is */
    double fill;
} ls_array_file;

/* Of a number in a table, for messages. */
#define LS_ARRAY_MISSING \
    "is missing: the cell is empty, or NaN, NA, null or None; fill it or leave the row out"
/* The kinds of files, for messages. */
#define LS_ARRAY_FILES "x.npy, x.npz:ARRAY, x.csv:COLUMN,COLUMN, x.h5:DATASET, x.nc:VARIABLE"

/* Finds and opens `file` for a field of that name. LS_E_USAGE: no such file, or a kind of file that is not
 * known. Others as the files of each kind are read. */
ls_status ls_array_file_open(ls_array_file *out, const char *file, const char *field);
/* The same of a table's column of classes, "a,b,c" (array_csv.h), or of texts; NULL: numbers. */
ls_status ls_array_labels_open(ls_array_file *out, const char *file, const char *field, const char *classes,
                               const ls_array_tokens *tokens);
/* Element i of a row. Integers of 64 bits are rounded to a double. */
double ls_array_number(const uint8_t *from, ls_dtype type, int64_t i);
/* What the name of a file of arrays has after its end: ":COLUMN,COLUMN"; "" if nothing, or if its kind is not
 * known. */
const char *ls_array_file_part(const char *file);
extern size_t ls_array_file_whole;          /* bytes of an HDF5 array that is read at once; tests set it */
void ls_array_file_close(ls_array_file *f); /* may be called twice */
