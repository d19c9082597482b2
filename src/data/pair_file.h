/* pair_file.h - files of source and target texts: CSV whose first record names the columns, or a JSON object
 * on each line. */
#pragma once
#include "base/str.h"
#include "data/corpus.h"

/* columns or members; prefix: put before each source */
typedef struct ls_pair_names {
    const char *source, *target, *prefix;
} ls_pair_names;

typedef struct ls_pair_file {
    const ls_text_file *text;
    const ls_pair_names *names;
    int64_t columns, source, target; /* of CSV: how many, and which two; columns 0: JSON lines */
    ls_document_cursor at;
} ls_pair_file;

/* Tells the two kinds apart by the first character that is no space, and reads the header. *out refers to
 * `text` and `names`. */
ls_status ls_pair_file_begin(ls_pair_file *out, const ls_text_file *text, const ls_pair_names *names);
/* Where the next pair lies; out->line is set also when it fails. */
ls_status ls_pair_file_next(ls_pair_file *f, ls_document *out, bool *done);
/* Appends its two texts, the source behind the prefix. Any thread. */
ls_status ls_pair_file_read(const ls_pair_file *f, const ls_document *pair, ls_str *source, ls_str *target);
