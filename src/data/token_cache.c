/* token_cache.c - keeps tokens in CACHE/tokens/KEY.tokens, where KEY is a hash of the files' contents, of the
 * tokenizer, and of how documents are cut. A start with the same key maps that file. Everything in the folder
 * may be deleted at any time. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/field.h"
#include "base/find.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/oserror.h"
#include "base/stop.h"
#include "base/str.h"
#include "base/sys.h"
#include "data/chat.h"
#include "data/source_hash.h"
#include "data/tokenize.h"
#include "lockstep/tokenizer.h"

enum { FORMAT = 3 };       /* enters the key: files of older versions stay for those */
enum { MOST_PARTS = 100 }; /* files that are listed one by one; all others are listed as one part */

/* File i of the corpus has this hash. */
static void add_file(ls_token_store *to, const ls_corpus *c, size_t i, uint64_t hash)
{
    ls_dataset_part *last = &to->parts[to->n_parts];
    if (i < MOST_PARTS) {
        *last = (ls_dataset_part){ "text", ls_sys_strdup(c->paths[i]), hash };
        to->n_parts++;
    } else if (i == MOST_PARTS) {
        char *path = ls_sys_text("%s and %zu files after it", c->paths[i], c->n - i - 1);
        *last = (ls_dataset_part){ "text", path, hash };
        to->n_parts++;
    } else {
        last[-1].digest = ls_hash64_more(last[-1].digest, &hash, sizeof hash);
    }
}

/* The template of conversations, and what decides which tokens are targets. */
static ls_status add_chat(uint64_t *key, ls_token_store *to, const ls_token_source *from)
{
    ls_chat *chat;
    LS_TRY(ls_chat_make(&chat, NULL, from->tokenizer_file, from->tokenizer, from->chat));
    const uint64_t choice[] = { ls_chat_digest(chat), (uint64_t)from->chat->train_on };
    *key = ls_hash64_more(*key, choice, sizeof choice);
    to->parts[to->n_parts++] = (ls_dataset_part){ "template", ls_sys_strdup(ls_chat_file(chat)), choice[0] };
    ls_chat_free(&chat);
    return LS_OK;
}

/* Computes the key, and lists the files that it depends on in to->parts. `known`: the folder with remembered
 * hashes of files. */
static ls_status make_key(uint64_t *key, ls_token_store *to, const ls_token_source *from, const char *known)
{
    const ls_text_options *o = from->o;
    const char *field = o->documents == LS_DOCUMENTS_JSON && !from->chat ? o->field : "";
    uint64_t h = from->chat ? LS_DOCUMENTS_JSON : (uint64_t)o->documents;
    ls_status s = LS_OK;
    *key = ls_hash64_more(ls_hash_text(o->end_token), field, strlen(field));
    *key = ls_hash64_more(*key, &h, sizeof h) + FORMAT;
    const char *const names[] = { from->pairs ? from->pairs->source : "",
                                  from->pairs ? from->pairs->target : "",
                                  from->pairs ? from->pairs->prefix : "" };
    for (int i = 0; from->pairs && i < 3; i++) /* each with its NUL, so that their ends count */
        *key = ls_hash64_more(*key, names[i], strlen(names[i]) + 1);
    to->parts = ls_sys_calloc((from->corpus.n < MOST_PARTS ? from->corpus.n : MOST_PARTS) + 3,
                              sizeof *to->parts);
    if (!to->parts)
        return ls_fail(LS_E_MEMORY, "no memory to tokenize");
    h = 0;
    if (strcmp(from->tokenizer_file, "bytes"))
        s = ls_source_hash(&h, from->tokenizer_file, known);
    *key = ls_hash64_more(*key, &h, sizeof h);
    to->parts[to->n_parts++] = (ls_dataset_part){ "tokenizer", ls_sys_strdup(from->tokenizer_file), h };
    if (from->chat && s == LS_OK)
        s = add_chat(key, to, from);
    for (size_t i = 0; i < from->corpus.n && s == LS_OK; i++) {
        s = ls_stop_check("looking at the files of %s", from->pattern);
        if (s == LS_OK)
            s = ls_source_hash(&h, from->corpus.paths[i], known);
        *key = ls_hash64_more(*key, &h, sizeof h);
        add_file(to, &from->corpus, i, h);
    }
    for (int i = 0; i < to->n_parts && s == LS_OK; i++)
        s = ls_sys_have(to->parts[i].path);
    return s;
}

/* Compares the checksum of the ids, unless this process has just done so for the same file: both splits may
 * use one file. */
static ls_status verify_once(const ls_token_store *t, const char *path)
{
    static _Atomic uint64_t sound; /* key of the file whose ids were compared last */
    const uint64_t key = ls_source_key(path);
    if (key && key == sound)
        return LS_OK;
    LS_TRY(ls_tokens_verify(t, path));
    sound = key;
    return LS_OK;
}

/* False: it does not exist, or is damaged. */
static bool open_cached(ls_token_store *out, const char *path, uint64_t key)
{
    ls_mapping map;
    if (!ls_file_exists(path))
        return false;
    if (ls_file_map(&map, path) == LS_OK) {
        if (ls_tokens_parse(out, map.data, map.size, key, path) == LS_OK && verify_once(out, path) == LS_OK) {
            out->map = map;
            return true;
        }
        ls_file_unmap(&map);
    }
    if (!ls_stop_asked())
        ls_log_warn("%s: the text is tokenized again", ls_error_message());
    return false;
}

/* Takes a lock. Closing the descriptor releases it; so does the end of the process. */
static ls_status lock(int *fd, const char *path, const ls_token_source *from)
{
    *fd = ls_sys_open(path, O_RDWR | O_CREAT);
    if (*fd < 0)
        return ls_fail_os(path, "open", errno);
    /* asked again and again: a signal that another thread gets would not end a call that waits */
    for (bool told = false; flock(*fd, LOCK_EX | LOCK_NB) != 0; told = true) {
        const int error = errno;
        const bool waits = error == EWOULDBLOCK || error == EINTR;
        if (!waits || ls_stop_asked()) {
            close(*fd);
            return waits ? ls_fail(LS_E_STOPPED, "stopped while another process tokenized %s", from->pattern)
                         : ls_fail_os(path, "lock", error);
        }
        if (!told)
            ls_log_info("waiting for another process, which tokenizes %s", from->pattern);
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    }
    return LS_OK;
}

/* Tokenizes to a memory file of this process, which no other process sees. */
static ls_status make_in_memory(ls_token_store *out, const ls_token_source *from, uint64_t key)
{
    char path[32];
    const int fd = ls_sys_memory_file("tokens");
    if (fd < 0)
        return ls_fail_os(from->pattern, "make a file in memory for the tokens of", errno);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ls_status s = ls_tokenize(from, key, path);
    if (s == LS_OK && !open_cached(out, path, key))
        s = ls_fail(LS_E_IO, "%s: its tokens were just written to memory and cannot be read", from->pattern);
    close(fd);
    return s;
}

static ls_status open_or_make(ls_token_store *out, const ls_token_source *from, uint64_t key, const char *dir)
{
    char *path = ls_hash_path(dir, key, ".tokens"), *lock_path = ls_hash_path(dir, key, ".lock");
    ls_status s = LS_OK;
    int fd = -1;
    if (open_cached(out, path, key))
        goto done;
    LS_TRY_TO(s, ls_stop_check("opening %s", from->pattern), done);
    if (ls_cache_is_frozen()) {
        s = make_in_memory(out, from, key);
        goto done;
    }
    s = ls_make_dirs(dir);
    if (s != LS_OK) {
        s = ls_fail(s, "%s; tokens are kept there: LOCKSTEP_CACHE names another folder", ls_error_message());
        goto done;
    }
    LS_TRY_TO(s, lock(&fd, lock_path, from), done);
    ls_remove_temporaries(dir);
    if (!open_cached(out, path, key)) { /* (another process may have made it in the meantime) */
        s = ls_tokenize(from, key, path);
        if (s == LS_OK && !open_cached(out, path, key))
            s = ls_fail(LS_E_IO, "%s was just written and cannot be read", path);
    }
    close(fd);
done:
    free(path);
    free(lock_path);
    return s;
}

static ls_status token_cache_missing(const char *name)
{
    ls_str places = { 0 };
    ls_find_places(&places, name);
    ls_status s = ls_fail_field(LS_E_USAGE, "tokenizer",
                                "%s: no such file, and no folder with a tokenizer.json or "
                                "spiece.model%s%s; name another one, or `bytes`, which is built in",
                                name, places.len ? ": looked " : "", ls_str_text(&places));
    ls_str_release(&places);
    return s;
}

ls_status ls_tokenizer_find(char **out, const char *name)
{
    if (strcmp(name, "bytes"))
        LS_TRY(ls_find(out, name, ls_tokenizer_file));
    else
        LS_TRY(ls_sys_have(*out = ls_sys_strdup(name)));
    return *out ? LS_OK : token_cache_missing(name);
}

ls_status ls_tokens_open(ls_token_store *out, const char *pattern, const char *tokenizer,
                         const ls_pair_names *pairs, const ls_chat_options *chat, const ls_text_options *o)
{
    char *cache = ls_cache_dir(), *dir = ls_path_join(cache, "tokens"), *known = ls_path_join(dir, "known");
    char *shown = ls_corpus_shown(pattern);
    ls_token_source from = { .pattern = shown, .tokenizer = tokenizer, .pairs = pairs, .chat = chat, .o = o };
    ls_token_store made_of = { 0 };
    uint64_t key;
    ls_status s;
    *out = (ls_token_store){ 0 };
    s = ls_sys_have(shown);
    if (s == LS_OK)
        s = ls_tokenizer_find(&from.tokenizer_file, tokenizer);
    if (s == LS_OK)
        s = ls_corpus_find(&from.corpus, pattern);
    if (s == LS_OK)
        s = make_key(&key, &made_of, &from, known);
    if (s == LS_OK)
        s = open_or_make(out, &from, key, dir);
    if (s == LS_OK) {
        out->parts = made_of.parts;
        out->n_parts = made_of.n_parts;
    } else {
        ls_tokens_close(&made_of);
    }
    ls_corpus_release(&from.corpus);
    free(from.tokenizer_file);
    free(shown);
    free(known);
    free(dir);
    free(cache);
    return s;
}
