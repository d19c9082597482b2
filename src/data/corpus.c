/* corpus.c - finds text files, reads them, and cuts them into documents. */
#include "data/corpus.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/hub_cache.h"
#include "base/pattern.h"
#include "base/stop.h"
#include "base/sys.h"
#include "data/array_room.h"
#include "data/idx.h"
#include "data/signature.h"
#include "lockstep/tokenizer.h"

/* ---- finding files */

static int corpus_by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sets the file's size. out->paths has room for its path; it is NULL if memory ran out. */
static ls_status corpus_add(ls_corpus *out, const char *path)
{
    char *copy = out->paths ? ls_sys_strdup(path) : NULL;
    if (!copy)
        return ls_fail(LS_E_MEMORY, "%s: no memory for a list of files", path);
    out->paths[out->n++] = copy;
    return LS_OK;
}

static ls_status match(ls_corpus *out, const char *pattern)
{
    ls_paths found;
    if (ls_file_exists(pattern)) { /* (a file may have a * in its name) */
        out->paths = ls_sys_calloc(1, sizeof *out->paths);
        return corpus_add(out, pattern);
    }
    LS_TRY(ls_pattern_find(&found, pattern));
    out->paths = ls_sys_calloc(found.n + 1, sizeof *out->paths);
    ls_status s = LS_OK;
    for (size_t i = 0; s == LS_OK && i < found.n; i++)
        if (ls_file_exists(found.at[i]))
            s = corpus_add(out, found.at[i]);
    ls_paths_release(&found);
    LS_TRY(s);
    if (out->n)
        qsort(out->paths, out->n, sizeof *out->paths,
              corpus_by_name); /* sorted by bytes; glob's order depends on the user's language */
    return LS_OK;
}

static ls_status find_one(ls_corpus *out, const char *pattern)
{
    const char *data = getenv("LOCKSTEP_DATA");
    *out = (ls_corpus){ 0 };
    LS_TRY(match(out, pattern));
    if (!out->n && *pattern != '/' && data && *data) {
        char *there = ls_path_join(data, pattern);
        ls_corpus_release(out); /* the pattern may have matched a folder, which is not a file */
        const ls_status s = there ? match(out, there) : ls_sys_have(there);
        free(there);
        LS_TRY(s);
    }
    if (!out->n) {
        char *there = ls_hub_path(pattern);
        ls_corpus_release(out);
        const ls_status s = there ? match(out, there) : LS_OK;
        free(there);
        LS_TRY(s);
    }
    for (size_t i = 0; i < out->n; i++) {
        if (ls_stop_asked()) {
            ls_corpus_release(out);
            return ls_stop_check("looking for %s", pattern);
        }
        out->bytes += ls_file_size(out->paths[i]);
    }
    if (out->n)
        return LS_OK;
    ls_corpus_release(out);
    if (ls_dir_exists(pattern))
        return ls_fail(LS_E_USAGE, "%s is a folder; name its files, as in %s/*.txt", pattern, pattern);
    if (*pattern == '/')
        return ls_fail(LS_E_USAGE, "%s: no such file", pattern);
    if (!strncmp(pattern, "datasets/", 9))
        return ls_fail(
            LS_E_USAGE,
            "%s: no such file, neither here nor in LOCKSTEP_DATA nor in Hugging Face's cache, into which "
            "`lockstep get datasets/OWNER/NAME` loads a data set",
            pattern);
    return data && *data
               ? ls_fail(LS_E_USAGE, "%s: no such file, neither here nor in LOCKSTEP_DATA, %s", pattern, data)
               : ls_fail(LS_E_USAGE, "%s: no such file here, and LOCKSTEP_DATA is not set", pattern);
}

/* Takes the files of `more` over. */
static ls_status corpus_join(ls_corpus *out, ls_corpus *more)
{
    char **paths = ls_sys_realloc(out->paths, sizeof *paths * (out->n + more->n));
    if (!paths)
        return ls_fail(LS_E_MEMORY, "no memory for a list of %zu files", out->n + more->n);
    memcpy(paths + out->n, more->paths, sizeof *paths * more->n);
    out->paths = paths;
    out->n += more->n;
    out->bytes += more->bytes;
    more->n = 0;
    return LS_OK;
}

ls_status ls_corpus_find(ls_corpus *out, const char *patterns)
{
    ls_status s = LS_OK;
    *out = (ls_corpus){ 0 };
    for (const char *at = patterns, *end; at && s == LS_OK; at = end ? end + 1 : NULL) {
        ls_corpus some = { 0 };
        end = strchr(at, '\n');
        char *one = ls_sys_strndup(at, end ? (size_t)(end - at) : strlen(at));
        s = ls_sys_have(one);
        if (s == LS_OK)
            s = find_one(&some, one);
        if (s == LS_OK)
            s = corpus_join(out, &some);
        ls_corpus_release(&some);
        free(one);
    }
    if (s != LS_OK)
        ls_corpus_release(out);
    return s;
}

char *ls_corpus_shown(const char *patterns)
{
    ls_str out = { 0 };
    for (const char *p = patterns; *p; p++)
        ls_str_add_n(&out, *p == '\n' ? ", " : p, *p == '\n' ? 2 : 1);
    char *shown = out.no_memory ? NULL : ls_sys_strdup(ls_str_text(&out));
    ls_str_release(&out);
    return shown;
}

void ls_corpus_release(ls_corpus *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->paths[i]);
    free(c->paths);
    *c = (ls_corpus){ 0 };
}

/* ---- one file */

enum { PART = 1 << 24 }; /* bytes between two checks for a request to stop */

/* Inflates all members of a gzip file, one after the other, as gunzip does. Zeros may follow the last one:
 * tapes and block devices pad with them. What a file inflates to is not known before, so before each part
 * there must be memory for it. */
static ls_status inflate_all(ls_text_file *f, const char *path)
{
    z_stream z = { .next_in = (Bytef *)(uintptr_t)f->map.data };
    const uint8_t *end = f->map.data + f->map.size;
    size_t room = 0;
    int r = Z_OK, members = 0;
    if (inflateInit2(&z, 15 + 16) != Z_OK) /* 15: the largest window; 16: gzip only */
        return ls_fail(LS_E_MEMORY, "%s: zlib cannot start inflating", path);
    for (;;) {
        if (ls_stop_asked()) {
            inflateEnd(&z);
            return ls_stop_check("inflating %s, of which there are %zu bytes by now", path, f->n);
        }
        if (f->n >= PART && ls_array_room_left() < PART) {
            inflateEnd(&z);
            return ls_fail(LS_E_MEMORY,
                           "%s: no memory: its %zu bytes inflate to more than %zu, for which there is no "
                           "room here; divide the file",
                           path, f->map.size, f->n);
        }
        if (f->n == room) {
            char *more = ls_sys_realloc(f->heap, room = room ? 2 * room : 4 * f->map.size + 4096);
            if (!more) {
                inflateEnd(&z);
                return ls_fail(LS_E_MEMORY, "%s: no memory for %zu inflated bytes", path, room);
            }
            f->heap = more;
        }
        const size_t in = (size_t)(end - z.next_in), left = room - f->n;
        const uInt some = (uInt)(left < PART ? left : PART);
        z.avail_in = (uInt)(in < PART ? in : PART);
        z.next_out = (Bytef *)f->heap + f->n;
        z.avail_out = some;
        r = inflate(&z, Z_NO_FLUSH);
        f->n += some - z.avail_out;
        if (r == Z_STREAM_END && !ls_gzip_ended(z.next_in, (size_t)(end - z.next_in))) {
            members++;
            r = inflateReset(&z);
        }
        if (r != Z_OK)
            break;
    }
    const size_t at = (size_t)(z.next_in - f->map.data);
    const char *why = z.msg ? z.msg : "cut short";
    const size_t member = at - z.total_in; /* where the last member begins */
    const bool behind = members && r == Z_DATA_ERROR;
    inflateEnd(&z);
    if (r == Z_STREAM_END)
        return LS_OK;
    if (behind && !ls_idx_is_gzip(f->map.data + member, f->map.size - member))
        return ls_fail(LS_E_FORMAT,
                       "%s: the gzip data end at offset %zu, and %zu bytes follow that are neither zeros "
                       "nor more gzip data: if they are not needed, unpack the file with gunzip, which "
                       "leaves them out",
                       path, member, f->map.size - member);
    return ls_fail(LS_E_FORMAT, "%s: damaged gzip data at offset %zu (%s), after %zu inflated bytes", path,
                   at, why, f->n);
}

/* Replaces each \r\n by \n. */
static ls_status mend_lines(ls_text_file *f, const char *path)
{
    if (!memmem(f->text, f->n, "\r\n", 2))
        return LS_OK;
    char *to = ls_sys_malloc(f->n);
    size_t n = 0;
    if (!to)
        return ls_fail(LS_E_MEMORY, "%s: no memory for %zu bytes of text", path, f->n);
    for (size_t i = 0; i < f->n; i++) {
        if (i % PART == 0 && ls_stop_asked()) {
            free(to);
            return ls_stop_check("reading %s", path);
        }
        if (f->text[i] != '\r' || i + 1 == f->n || f->text[i + 1] != '\n')
            to[n++] = f->text[i];
    }
    free(f->heap);
    f->text = f->heap = to;
    f->n = n;
    return LS_OK;
}

/* The number of bytes, from the beginning, that are valid UTF-8. */
static ls_status count_sound(size_t *out, const ls_text_file *f, const char *path)
{
    for (*out = 0; *out < f->n;) {
        const size_t left = f->n - *out, part = left < PART ? left : PART,
                     sound = ls_utf8_sound(f->text + *out, part);
        LS_TRY(ls_stop_check("reading %s", path));
        *out += sound;
        if (sound < part &&
            (part == left || part - sound >= 4)) /* otherwise a character may continue in the next part */
            return LS_OK;
    }
    return LS_OK;
}

static ls_status corpus_check(const ls_text_file *f, const char *path, bool inflated)
{
    size_t sound;
    LS_TRY(count_sound(&sound, f, path));
    const uint8_t *bad = (const uint8_t *)f->text + sound;
    if (sound == f->n)
        return LS_OK;
    const char *kind = ls_signature(f->text, f->n);
    if (kind)
        return ls_fail(LS_E_FORMAT, "%s: not a text: %s %s", path,
                       inflated ? "the inflated file is" : "it is", kind);
    const bool wide = sound == 0 && f->n >= 2 &&
                      ((bad[0] == 0xff && bad[1] == 0xfe) || (bad[0] == 0xfe && bad[1] == 0xff));
    return ls_fail(LS_E_FORMAT, "%s: byte %zu%s is 0x%02x: %s; convert it, for example with iconv", path,
                   sound, inflated ? " of the inflated text" : "", *bad,
                   wide ? "this is UTF-16, not UTF-8" : "this is not UTF-8");
}

ls_status ls_text_file_open(ls_text_file *out, const char *path)
{
    *out = (ls_text_file){ 0 };
    ls_status s;
    LS_TRY(ls_file_map(&out->map, path));
    const bool gzip = ls_idx_is_gzip(out->map.data, out->map.size);
    out->text = "";
    if (gzip) {
        LS_TRY_TO(s, inflate_all(out, path), fail);
        out->text = out->heap;
    } else if (out->map.size) {
        out->text = (const char *)out->map.data;
        out->n = out->map.size;
    }
    LS_TRY_TO(s, corpus_check(out, path, gzip), fail);
    LS_TRY_TO(s, mend_lines(out, path), fail);
    if (out->n >= 3 && !memcmp(out->text, "\xef\xbb\xbf", 3)) {
        out->text += 3;
        out->n -= 3;
    }
    return LS_OK;
fail:
    ls_text_file_close(out);
    return s;
}

void ls_text_file_close(ls_text_file *f)
{
    ls_file_unmap(&f->map);
    free(f->heap);
    *f = (ls_text_file){ 0 };
}

/* ---- documents */

/* The end of the line that begins at `at`, without its \n. */
static size_t line_end(const ls_text_file *f, size_t at)
{
    const char *end = memchr(f->text + at, '\n', f->n - at);
    return end ? (size_t)(end - f->text) : f->n;
}

static bool is_empty(const ls_text_file *f, size_t begin, size_t end)
{
    while (begin < end && (f->text[begin] == ' ' || f->text[begin] == '\t'))
        begin++;
    return begin == end;
}

bool ls_document_next(const ls_text_file *f, ls_documents how, ls_document_cursor *c, ls_document *out)
{
    bool inside = false;
    if (how == LS_DOCUMENTS_FILE) {
        *out = (ls_document){ 0, f->n, 1 };
        inside = c->at < f->n;
        c->at = f->n;
        return inside;
    }
    while (c->at < f->n) {
        const size_t begin = c->at, end = line_end(f, begin);
        const bool empty = is_empty(f, begin, end);
        if (empty && inside)
            return true;
        c->at = end < f->n ? end + 1 : end;
        c->line++;
        if (empty)
            continue;
        *out = inside ? (ls_document){ out->begin, end - out->begin, out->line }
                      : (ls_document){ begin, end - begin, c->line - 1 };
        inside = true;
        if (how != LS_DOCUMENTS_BLANK)
            return true;
    }
    return inside;
}
