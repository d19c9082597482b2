/* tokenize.h - text files into a file of tokens. */
#pragma once
#include "data/corpus.h"
#include "data/tokens.h"
#include "lockstep/tokenizer.h"

/* The file of a tokenizer, wherever base/find.h looks, or "bytes"; malloc'ed. LS_E_USAGE: there is none, and
 * where it was looked for. */
ls_status ls_tokenizer_find(char **out, const char *name);
/* The token that ends a document: data.end_token, or "" for the usual ones; `name` is the tokenizer's. */
ls_status ls_tokenizer_end(int32_t *out, const ls_tokenizer *t, const char *wanted, const char *name);

/* What is tokenized, and how. */
typedef struct ls_token_source {
    const char *pattern;   /* as it was given, for messages */
    const char *tokenizer; /* as it was given */
    char *tokenizer_file;  /* what was found, or "bytes" */
    ls_corpus corpus;
    const ls_pair_names *pairs; /* NULL: documents of text */
    const ls_text_options *o;
} ls_token_source;

/* Writes PATH, whole or not at all; LS_E_STOPPED when that was asked for meanwhile. Says in the log what it
 * did. */
ls_status ls_tokenize(const ls_token_source *from, uint64_t key, const char *path);
