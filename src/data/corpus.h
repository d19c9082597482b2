/* corpus.h - text files, and the documents in them. */
#pragma once
#include "base/file.h"
#include "lockstep/data.h"

typedef struct ls_corpus {
    char **paths;
    size_t n;
    int64_t bytes; /* on disk */
} ls_corpus;
/* The files that `pattern` names, sorted: one file, or all that match as in a shell, with * ? [...] and
 * {a,b}. Looked for here, then, when it is relative, in LOCKSTEP_DATA. */
ls_status ls_corpus_find(ls_corpus *out, const char *pattern);
void ls_corpus_release(ls_corpus *c); /* harmless twice */

/* A file's text in memory, inflated when it is gzip: sound UTF-8 without a byte order mark, with lines that
 * end in \n. */
typedef struct ls_text_file {
    const char *text;
    size_t n;
    ls_mapping map;
    char *heap;
} ls_text_file;
ls_status ls_text_file_open(ls_text_file *out, const char *path);
void ls_text_file_close(ls_text_file *f); /* harmless twice */

/* One document: where it lies and its first line, from 1. A line of nothing but spaces and tabs is empty: no
 * document, and part of none but that of LS_DOCUMENTS_FILE. */
typedef struct ls_document {
    size_t begin, n;
    int64_t line;
} ls_document;
typedef struct ls_document_cursor {
    size_t at;
    int64_t line;
} ls_document_cursor; /* begin with { 0, 1 } */
/* false: none is left */
bool ls_document_next(const ls_text_file *f, ls_documents how, ls_document_cursor *c, ls_document *out);
