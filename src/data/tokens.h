/* tokens.h - the ids of a corpus in a file of the cache: all ids, then, of conversations, a byte for each
 * token, both together padded to 8 bytes; for each document where it ends, with its end token; for each
 * document which row of the source it is (a blank line is a row, and no document); a footer with the
 * checksums of all three. The file is mapped, so it takes no memory of its own. A process reads it completely
 * once, when it opens it first, to compare the checksums (bench/caches.c). */
#pragma once
#include "base/file.h"
#include "base/hash.h"
#include "data/chat.h"
#include "data/pair_file.h"
#include "lockstep/data.h"

typedef struct ls_token_footer {
    uint64_t magic, key; /* key: identifies what was tokenized, by which tokenizer, and how (token_cache.c) */
    int64_t tokens, documents;
    int32_t width, vocabulary;    /* bytes of an id, 2 or 4; all ids are below `vocabulary` */
    int32_t end, masked;          /* the end token; 1: the file says which tokens are targets, 0: all are */
    int64_t rows;                 /* of the source */
    uint64_t ids_hash, ends_hash; /* xxh3 of the ids and their bytes without padding, and of the ends */
    uint64_t rows_hash;           /* xxh3 of the documents' rows */
    uint64_t hash;                /* xxh3 of this footer up to here */
} ls_token_footer;

typedef struct ls_token_store {
    ls_mapping map;
    const uint8_t *ids;
    const int64_t *ends;    /* [documents]: increasing; the last is `tokens` */
    const int64_t *rows;    /* [documents]: increasing; all are below footer.rows */
    const uint8_t *targets; /* [tokens]: not 0: the token is a target where it follows. NULL: all are */
    ls_token_footer footer;
    /* [n_parts]: the files and the tokenizer (ls_tokens_open). Owned, with their paths. */
    ls_dataset_part *parts;
    int n_parts;
} ls_token_store;

/* A parsed file, which points into bytes that the caller owns. Messages begin with `what` (a path). Never
 * reads beyond `size`. */
ls_status ls_tokens_parse(ls_token_store *out, const void *bytes, size_t size, uint64_t key,
                          const char *what);
/* Compares the checksum of the ids, for which it reads all of them. */
ls_status ls_tokens_verify(const ls_token_store *t, const char *what);
/* Copies ids [at, at + n) to `to`. False: one of them is not below the vocabulary. */
bool ls_tokens_read(const ls_token_store *t, int64_t at, int64_t n, int32_t *to);
static inline int64_t ls_tokens_begin(const ls_token_store *t, int64_t document)
{
    return document ? t->ends[document - 1] : 0;
}

/* A digest of everything that determines samples: the ids, the ends of documents, and the caller's choice of
 * documents ([n] bytes). */
uint64_t ls_tokens_digest(const ls_token_store *t, const void *choice, size_t n);

/* Opens the tokens of the files that `pattern` names: from the cache, or else it tokenizes them into the
 * cache. A process waits if another one is doing that. pairs: documents 2i and 2i + 1 are source and target
 * i; NULL: texts. For pairs, only threads, end_token and progress of `o` are used. chat: the files are
 * conversations, and `o` is chat->text; NULL: they are not. */
ls_status ls_tokens_open(ls_token_store *out, const char *pattern, const char *tokenizer,
                         const ls_pair_names *pairs, const ls_chat_options *chat, const ls_text_options *o);
void ls_tokens_close(ls_token_store *t); /* may be called twice */

/* Writing: the ids, document by document, and then the rest. */
typedef struct ls_token_writer {
    ls_writer file;
    ls_token_footer footer;
    ls_hasher *ids;
    int64_t *ends, *rows, room;
    ls_str targets; /* a byte for each token, if they are masked */
} ls_token_writer;
ls_status ls_tokens_create(ls_token_writer *w, const char *path, uint64_t key, int32_t vocabulary,
                           int32_t end);
/* A document without its end token, which is added unless it is there, and its row of the source. */
ls_status ls_tokens_put(ls_token_writer *w, const int32_t *ids, int64_t n, int64_t row);
/* The same with targets [n], of every document of the file or of none. An end token is always added; it is
 * not a target. */
ls_status ls_tokens_put_masked(ls_token_writer *w, const int32_t *ids, const uint8_t *targets, int64_t n,
                               int64_t row);
/* `rows`: of the source. Releases w, also on failure. */
ls_status ls_tokens_commit(ls_token_writer *w, int64_t rows);
void ls_tokens_abort(ls_token_writer *w); /* does nothing after a commit */
