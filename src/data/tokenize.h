/* tokenize.h - from text files to a file of tokens. */
#pragma once
#include "data/chat.h"
#include "data/corpus.h"
#include "data/tokens.h"
#include "lockstep/tokenizer.h"

/* The file of a tokenizer, wherever base/find.h looks, or "bytes"; malloc'ed. LS_E_USAGE: there is none, and
 * where it was looked for. */
ls_status ls_tokenizer_find(char **out, const char *name);
/* The token that ends a document: `end_token`, or for "" one of the usual ones. `name` is the tokenizer's,
 * for messages. */
ls_status ls_tokenizer_end(int32_t *out, const ls_tokenizer *t, const char *wanted, const char *name);

/* What is tokenized, and how. */
typedef struct ls_token_source {
    const char *pattern;   /* as the caller gave it, for messages */
    const char *tokenizer; /* as the caller gave it */
    char *tokenizer_file;  /* the file, or "bytes" */
    ls_corpus corpus;
    const ls_pair_names *pairs;  /* NULL: documents of text, */
    const ls_chat_options *chat; /* or, if not NULL, conversations */
    const ls_text_options *o;
} ls_token_source;

/* Writes PATH, either complete or not at all. LS_E_STOPPED: a stop was requested. Logs what it did. */
ls_status ls_tokenize(const ls_token_source *from, uint64_t key, const char *path);
