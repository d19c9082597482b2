/* tokens.h - the ids of a corpus in one file of the cache, and how it is read: all ids, padded to 8 bytes;
 * for each document where it ends, its end token included; a footer with the checksums of both. The file is
 * mapped, so that it costs no memory to have it; a process reads it once when it opens it first, to compare
 * the checksums (bench/caches.c). */
#pragma once
#include "base/file.h"
#include "base/hash.h"
#include "data/pair_file.h"
#include "lockstep/data.h"

typedef struct ls_token_footer {
    uint64_t magic, key; /* key: what was tokenized, by which tokenizer, how (token_cache.c) */
    int64_t tokens, documents;
    int32_t width, vocabulary;    /* bytes of an id, 2 or 4; ids are below the vocabulary */
    int32_t end, zero;            /* the end token */
    uint64_t ids_hash, ends_hash; /* xxh3 of the ids without their padding, and of the ends */
    uint64_t hash;                /* of this footer up to here */
} ls_token_footer;

typedef struct ls_token_store {
    ls_mapping map;
    const uint8_t *ids;
    const int64_t *ends; /* [documents]; rising, the last is `tokens` */
    ls_token_footer footer;
    /* [n_parts]; the files and the tokenizer (ls_tokens_open); owned, with their paths */
    ls_dataset_part *parts;
    int n_parts;
} ls_token_store;

/* Views bytes that somebody else owns. `what` (a path) begins every message. Never reads beyond `size`. */
ls_status ls_tokens_parse(ls_token_store *out, const void *bytes, size_t size, uint64_t key,
                          const char *what);
/* Compares the checksum of the ids: reads them all. */
ls_status ls_tokens_verify(const ls_token_store *t, const char *what);
/* Ids [at, at + n) of the file into `to`; false: one of them is not below the vocabulary. */
bool ls_tokens_read(const ls_token_store *t, int64_t at, int64_t n, int32_t *to);
static inline int64_t ls_tokens_begin(const ls_token_store *t, int64_t document)
{
    return document ? t->ends[document - 1] : 0;
}

/* Digest of what samples follow from: the ids, where documents end, and the caller's choice among them ([n]
 * bytes). */
uint64_t ls_tokens_digest(const ls_token_store *t, const void *choice, size_t n);

/* Opens the tokens of the files that `pattern` names, from the cache; else tokenizes them into it. A process
 * that finds another at that waits for it. `pairs`: documents 2i and 2i + 1 are source and target i, or NULL.
 * Of `o`, pairs need threads, end_token and who is told. */
ls_status ls_tokens_open(ls_token_store *out, const char *pattern, const char *tokenizer,
                         const ls_pair_names *pairs, const ls_text_options *o);
void ls_tokens_close(ls_token_store *t); /* harmless twice */

/* Writing: ids document by document, then the rest. */
typedef struct ls_token_writer {
    ls_writer file;
    ls_token_footer footer;
    ls_hasher *ids;
    int64_t *ends, room;
} ls_token_writer;
ls_status ls_tokens_create(ls_token_writer *w, const char *path, uint64_t key, int32_t vocabulary,
                           int32_t end);
/* a document without its end token, which is added unless it has one */
ls_status ls_tokens_put(ls_token_writer *w, const int32_t *ids, int64_t n);
ls_status ls_tokens_commit(ls_token_writer *w); /* releases w, also when it fails */
void ls_tokens_abort(ls_token_writer *w);       /* harmless after commit */
