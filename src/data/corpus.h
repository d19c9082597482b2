/* corpus.h - text files and the documents in them. */
#pragma once
#include "base/file.h"
#include "lockstep/data.h"

typedef struct ls_corpus {
    char **paths;
    size_t n;
    int64_t bytes; /* on disk */
} ls_corpus;
/* The files that the patterns, with line feeds between them, name. Of each, sorted: one file, or all that
 * match as in a shell, with * ? [...] and {a,b} or {000..127}. They are looked for in the working folder and
 * then, if the pattern is relative, in LOCKSTEP_DATA. */
ls_status ls_corpus_find(ls_corpus *out, const char *patterns);
/* The patterns with commas between them, for messages; malloc'ed, NULL without memory. */
char *ls_corpus_shown(const char *patterns);
void ls_corpus_release(ls_corpus *c); /* may be called twice */

/* The text of a file in memory, inflated if it is gzip: valid UTF-8 without a byte order mark, in lines that
 * end in \n. */
typedef struct ls_text_file {
    const char *text;
    size_t n;
    ls_mapping map;
    char *heap;
} ls_text_file;
ls_status ls_text_file_open(ls_text_file *out, const char *path);
void ls_text_file_close(ls_text_file *f); /* may be called twice */

/* A document: where it lies, and the number of its first line, from 1. A line of spaces and tabs only counts
 * as empty. It is not a document and belongs to none, except with LS_DOCUMENTS_FILE. */
typedef struct ls_document {
    size_t begin, n;
    int64_t line;
} ls_document;
typedef struct ls_document_cursor {
    size_t at;
    int64_t line;
} ls_document_cursor; /* starts as { 0, 1 } */
/* False: no document is left. */
bool ls_document_next(const ls_text_file *f, ls_documents how, ls_document_cursor *c, ls_document *out);
