/* tokenize.c - text files into tokens, once: CACHE/tokens/KEY.tokens, KEY being a hash of what the files hold, of the tokenizer and of how documents are cut.
 * Everything in that folder may be deleted at any time. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/oserror.h"
#include "base/parallel.h"
#include "base/sys.h"
#include "data/corpus.h"
#include "data/source_hash.h"
#include "data/tokens.h"
#include "lockstep/tokenizer.h"

enum { BATCH_BYTES = 1 << 23, BATCH_DOCUMENTS = 1 << 14 }; /* what is tokenized before it is written */

typedef struct encoded { ls_tokens ids; ls_status status; char *message; } encoded;

typedef struct job {
    const ls_text_options *o;
    const ls_tokenizer *tokenizer;
    ls_corpus corpus;
    ls_token_writer writer;
    /* a batch of the file that is being read: */
    const char *path;
    ls_text_file file;
    ls_document *documents;
    encoded *results;
    int64_t n;
    /* progress: */
    int64_t done;    /* bytes on disk of the files before */
    double start;
} job;

/* ---- documents */

static ls_status encode_text(const job *j, const char *text, size_t n, ls_tokens *out) { return ls_tokenizer_encode(j->tokenizer, text, n, true, out); }

static ls_status encode_json(const job *j, const char *line, size_t n, ls_tokens *out)
{
    json_t *root;
    LS_TRY(ls_json_parse(&root, line, n, "JSON"));
    const json_t *value = json_object_get(root, j->o->field);
    ls_status s = json_is_string(value) ? encode_text(j, json_string_value(value), json_string_length(value), out)
                                        : ls_fail(LS_E_FORMAT, "this is no JSON object with a text called \"%s\" (data.field)", j->o->field);
    json_decref(root);
    return s;
}

static void encode_some(void *context, int64_t begin, int64_t end, int worker)
{
    const job *j = context;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        const ls_document *d = &j->documents[i];
        encoded *e = &j->results[i];
        e->ids.n = 0;
        e->status = (j->o->documents == LS_DOCUMENTS_JSON ? encode_json : encode_text)(j, j->file.text + d->begin, d->n, &e->ids);
        if (e->status != LS_OK)
            e->message = strdup(ls_error_message());
    }
}

static ls_status encode_batch(job *j)
{
    ls_parallel_for(j->o->threads ? j->o->threads : ls_cpu_count(), j->n, encode_some, j);
    for (int64_t i = 0; i < j->n; i++) {
        const encoded *e = &j->results[i];
        if (e->status != LS_OK)
            return ls_fail(e->status, "%s, document at line %lld: %s", j->path, (long long)j->documents[i].line, e->message ? e->message : "out of memory");
        LS_TRY(ls_tokens_put(&j->writer, e->ids.ids, e->ids.n));
    }
    j->n = 0;
    return LS_OK;
}

static void show(const job *j, int64_t size, size_t at)
{
    const int64_t done = j->done + (int64_t)((double)size * (double)at / (double)(j->file.n ? j->file.n : 1));
    if (j->o->progress)
        j->o->progress(j->o->context, j->path, done, j->corpus.bytes, (double)done / (ls_now() - j->start));
}

static ls_status tokenize_file(job *j, const char *path)
{
    ls_document_cursor at = { 0, 1 };
    const int64_t size = ls_file_size(path);
    ls_status s = LS_OK;
    j->path = path;
    LS_TRY(ls_text_file_open(&j->file, path));
    for (size_t from = 0; s == LS_OK && ls_document_next(&j->file, j->o->documents, &at, &j->documents[j->n]);) {
        if (++j->n < BATCH_DOCUMENTS && at.at - from < BATCH_BYTES)
            continue;
        s = encode_batch(j);
        from = at.at;
        show(j, size, from);
    }
    if (s == LS_OK)
        s = encode_batch(j);
    ls_text_file_close(&j->file);
    j->done += size;
    show(j, 0, 0);
    return s;
}

/* ---- the end token */

static ls_status find_end(int32_t *out, const ls_tokenizer *t, const char *name, const char *wanted)
{
    static const char *const USUAL[] = { "<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>" };
    *out = -1;
    for (size_t i = 0; i < sizeof USUAL / sizeof USUAL[0] && *out < 0 && !*wanted; i++)
        *out = ls_tokenizer_id(t, USUAL[i]);
    if (*wanted)
        *out = ls_tokenizer_id(t, wanted);
    if (*out >= 0)
        return LS_OK;
    return *wanted ? ls_fail(LS_E_USAGE, "data.end_token: the tokenizer %s has no token %s", name, wanted)
                   : ls_fail(LS_E_USAGE, "data.end_token: name the token that ends a document; the tokenizer %s has none of %s %s %s %s", name, USUAL[0], USUAL[1], USUAL[2], USUAL[3]);
}

/* ---- the cache */

static ls_status tokenize_all(job *j)
{
    ls_status s = LS_OK;
    j->documents = ls_sys_malloc(sizeof *j->documents * BATCH_DOCUMENTS);
    j->results = ls_sys_calloc(BATCH_DOCUMENTS, sizeof *j->results);
    if (!j->documents || !j->results)
        s = ls_fail(LS_E_MEMORY, "no memory to tokenize");
    for (size_t i = 0; i < j->corpus.n && s == LS_OK; i++)
        s = tokenize_file(j, j->corpus.paths[i]);
    for (int64_t i = 0; j->results && i < BATCH_DOCUMENTS; i++) {
        free(j->results[i].ids.ids);
        free(j->results[i].message);
    }
    free(j->documents);
    free(j->results);
    return s;
}

static ls_status tokenize(const ls_corpus *corpus, const char *pattern, const char *tokenizer, const char *name, const ls_text_options *o, uint64_t key, const char *path)
{
    job j = { .o = o, .corpus = *corpus, .start = ls_now() };
    ls_tokenizer *t;
    int32_t end;
    ls_status s;
    LS_TRY(ls_tokenizer_open(&t, tokenizer));
    j.tokenizer = t;
    LS_TRY_TO(s, find_end(&end, t, name, o->end_token), close);
    LS_TRY_TO(s, ls_tokens_create(&j.writer, path, key, ls_tokenizer_size(t), end), close);
    s = tokenize_all(&j);
    if (s == LS_OK && !j.writer.footer.documents)
        s = ls_fail(LS_E_USAGE, "%s: no text in %s", pattern, corpus->n == 1 ? "this file" : "these files");
    if (s == LS_OK) {
        const ls_token_footer f = j.writer.footer;
        s = ls_tokens_commit(&j.writer);
        if (s == LS_OK)
            ls_log_info("tokenized %s: %lld documents, %lld tokens, %.1f s; kept in %s", pattern, (long long)f.documents, (long long)f.tokens, ls_now() - j.start, path);
    }
    ls_tokens_abort(&j.writer);
close:
    ls_tokenizer_close(&t);
    return s;
}

/* False: it is not there, or not sound. */
static bool open_cached(ls_token_store *out, const char *path, uint64_t key)
{
    ls_mapping map;
    if (!ls_file_exists(path))
        return false;
    if (ls_file_map(&map, path) == LS_OK) {
        if (ls_tokens_parse(out, map.data, map.size, key, path) == LS_OK) {
            out->map = map;
            return true;
        }
        ls_file_unmap(&map);
    }
    ls_log_warn("%s: the text is tokenized again", ls_error_message());
    return false;
}

/* The descriptor whose closing gives the lock back; so does the end of a process, however it ends. */
static ls_status lock(int *fd, const char *path, const char *pattern)
{
    *fd = ls_sys_open(path, O_RDWR | O_CREAT);
    if (*fd < 0)
        return ls_fail_os(path, "open", errno);
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0)
        return LS_OK;
    if (errno == EWOULDBLOCK)
        ls_log_info("waiting for another process, which tokenizes %s", pattern);
    while (flock(*fd, LOCK_EX) != 0)
        if (errno != EINTR) {
            const int error = errno;
            close(*fd);
            return ls_fail_os(path, "lock", error);
        }
    return LS_OK;
}

static ls_status open_or_make(ls_token_store *out, const ls_corpus *corpus, const char *pattern, const char *tokenizer, const char *name, const ls_text_options *o,
                              uint64_t key, const char *dir)
{
    char *path = ls_hash_path(dir, key, ".tokens"), *lock_path = ls_hash_path(dir, key, ".lock");
    ls_status s = LS_OK;
    int fd = -1;
    if (open_cached(out, path, key))
        goto done;
    LS_TRY_TO(s, ls_make_dirs(dir), done);
    LS_TRY_TO(s, lock(&fd, lock_path, pattern), done);
    ls_remove_temporaries(dir);
    if (!open_cached(out, path, key)) { /* nobody made it meanwhile */
        s = tokenize(corpus, pattern, tokenizer, name, o, key, path);
        if (s == LS_OK && !open_cached(out, path, key))
            s = ls_fail(LS_E_IO, "%s: what was just written cannot be read: %s", path, ls_error_message());
    }
    close(fd);
done:
    free(path);
    free(lock_path);
    return s;
}

/* What the tokens depend on. */
static ls_status make_key(uint64_t *key, const ls_corpus *corpus, const char *tokenizer, const ls_text_options *o, const char *dir)
{
    char *known = ls_path_join(dir, "known");
    uint64_t h = (uint64_t)o->documents;
    ls_status s = LS_OK;
    *key = ls_hash64_more(ls_hash_text(o->end_token), o->documents == LS_DOCUMENTS_JSON ? o->field : "", o->documents == LS_DOCUMENTS_JSON ? strlen(o->field) : 0);
    *key = ls_hash64_more(*key, &h, sizeof h);
    h = ls_hash_text(tokenizer);
    if (tokenizer[0] == '/' || strcmp(tokenizer, "bytes"))
        s = ls_source_hash(&h, tokenizer, known);
    for (size_t i = 0; s == LS_OK; i++) {
        *key = ls_hash64_more(*key, &h, sizeof h);
        if (i == corpus->n)
            break;
        s = ls_source_hash(&h, corpus->paths[i], known);
    }
    free(known);
    return s;
}

/* The file of a tokenizer, here or in LOCKSTEP_DATA, or "bytes"; malloc'ed. NULL: there is none. */
static char *find_tokenizer(const char *name)
{
    const char *data = getenv("LOCKSTEP_DATA");
    if (!strcmp(name, "bytes"))
        return strdup(name);
    for (int i = 0; i < 2; i++) {
        if (i && (*name == '/' || !data || !*data))
            break;
        char *path = i ? ls_path_join(data, name) : strdup(name), *inside = ls_path_join(path, "tokenizer.json");
        const bool folder = ls_file_exists(inside);
        if (folder || ls_file_exists(path)) {
            free(folder ? path : inside);
            return folder ? inside : path;
        }
        free(inside);
        free(path);
    }
    return NULL;
}

ls_status ls_tokens_open(ls_token_store *out, const char *pattern, const char *tokenizer, const ls_text_options *o)
{
    char *cache = ls_cache_dir(), *dir = ls_path_join(cache, "tokens"), *file = find_tokenizer(tokenizer);
    ls_corpus corpus = { 0 };
    uint64_t key;
    ls_status s;
    *out = (ls_token_store){ 0 };
    if (!file)
        s = ls_fail(LS_E_USAGE, "data.tokenizer %s: no such file, and no folder with a tokenizer.json, here or in LOCKSTEP_DATA; `bytes` is built in", tokenizer);
    else
        s = ls_corpus_find(&corpus, pattern);
    if (s == LS_OK)
        s = make_key(&key, &corpus, file, o, dir);
    if (s == LS_OK)
        s = open_or_make(out, &corpus, pattern, file, tokenizer, o, key, dir);
    ls_corpus_release(&corpus);
    free(file);
    free(dir);
    free(cache);
    return s;
}
