/* pair_file.h - files of source and target texts: CSV whose first record names the columns, or a JSON object
 * on each line. */
#pragma once
#include "base/str.h"
#include "data/corpus.h"

/* names of columns or members; prefix: is put before each source */
typedef struct ls_pair_names {
    const char *source, *target, *prefix;
} ls_pair_names;

typedef struct ls_pair_file {
    const ls_text_file *text;
    const char *path; /* for messages */
    const ls_pair_names *names;
    /* CSV: number of columns, and which are source and target; columns 0: JSON lines */
    int64_t columns, source, target;
    ls_document_cursor at;
} ls_pair_file;

/* Tells CSV from JSON by the first character that is not a space, and reads the header. *out points into the
 * other arguments. LS_E_USAGE: the header has no column of a name; LS_E_FORMAT. */
ls_status ls_pair_file_begin(ls_pair_file *out, const ls_text_file *text, const char *path,
                             const ls_pair_names *names);
/* Finds the next pair. out->line is set also on failure. */
ls_status ls_pair_file_next(ls_pair_file *f, ls_document *out, bool *done);
/* Appends the pair's two texts, the source after the prefix. Any thread may call it. */
ls_status ls_pair_file_read(const ls_pair_file *f, const ls_document *pair, ls_str *source, ls_str *target);
