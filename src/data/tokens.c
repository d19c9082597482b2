/* tokens.c - writes and parses files of tokens. */
#include "base/sys.h"
#include "data/tokens.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC                                                                                                \
    0x334e454b4f54534cu /* "LSTOKEN3" where the low byte comes first: another order of bytes is another file \
                         */

static size_t padded(int64_t bytes) { return (size_t)(bytes + 7) / 8 * 8; }
/* Bytes of a token: its id, and whether it is a target. */
static int64_t token_bytes(const ls_token_footer *f) { return f->width + f->masked; }
static uint64_t footer_hash(const ls_token_footer *f)
{
    return ls_hash64(f, offsetof(ls_token_footer, hash));
}

/* ---- reading */

ls_status ls_tokens_parse(ls_token_store *out, const void *bytes, size_t size, uint64_t key, const char *what)
{
    ls_token_footer f;
    const uint8_t *p = bytes;
    if (size < sizeof f)
        return ls_fail(LS_E_FORMAT, "%s: %zu bytes are not a file of tokens", what, size);
    memcpy(&f, p + size - sizeof f, sizeof f);
    if (f.magic != MAGIC || f.hash != footer_hash(&f) || f.key != key)
        return ls_fail(LS_E_FORMAT,
                       "%s: the footer at offset %zu is damaged, of other text, or of an older version", what,
                       size - sizeof f);
    const int64_t most = (int64_t)(size / 2);
    const size_t table = 8 * (size_t)f.documents; /* may wrap; then `fits` is false */
    const bool known = (f.width == 2 || f.width == 4) && f.vocabulary > 0 && f.end >= 0 &&
                       f.end < f.vocabulary && (f.masked == 0 || f.masked == 1);
    /* (so that the next line cannot wrap) */
    const bool fits = f.documents > 0 && f.documents <= f.tokens && f.tokens <= most;
    if (!known || !fits || padded(f.tokens * token_bytes(&f)) + 2 * table + sizeof f != size)
        return ls_fail(LS_E_FORMAT, "%s: %zu bytes cannot be %lld tokens of %lld documents", what, size,
                       (long long)f.tokens, (long long)f.documents);
    const int64_t *ends = (const int64_t *)(const void *)(p + padded(f.tokens * token_bytes(&f)));
    const int64_t *rows = ends + f.documents;
    bool rising = ls_hash64(ends, table) == f.ends_hash && ls_hash64(rows, table) == f.rows_hash;
    for (int64_t i = 0; i < f.documents && rising; i++)
        rising = ends[i] > (i ? ends[i - 1] : 0) && rows[i] >= (i ? rows[i - 1] : 0);
    if (!rising || ends[f.documents - 1] != f.tokens || rows[f.documents - 1] >= f.rows)
        return ls_fail(LS_E_FORMAT, "%s: the table of documents is damaged", what);
    *out = (ls_token_store){
        .ids = p, .ends = ends, .rows = rows, .targets = f.masked ? p + f.tokens * f.width : NULL, .footer = f
    };
    return LS_OK;
}

ls_status ls_tokens_verify(const ls_token_store *t, const char *what)
{
    const ls_token_footer *f = &t->footer;
    uint64_t hash;
    LS_TRY(ls_hash64_long(&hash, t->ids, (size_t)(f->tokens * token_bytes(f)), what));
    if (hash == f->ids_hash)
        return LS_OK;
    return ls_fail(LS_E_FORMAT, "%s: damaged: the checksum of its %lld tokens is another", what,
                   (long long)f->tokens);
}

bool ls_tokens_read(const ls_token_store *t, int64_t at, int64_t n, int32_t *to)
{
    bool below = true;
    if (t->footer.width == 4) {
        memcpy(to, t->ids + 4 * at, 4 * (size_t)n);
    } else {
        const uint16_t *from = (const uint16_t *)(const void *)t->ids + at;
        for (int64_t i = 0; i < n; i++)
            to[i] = from[i];
    }
    for (int64_t i = 0; i < n; i++)
        below &= (uint32_t)to[i] < (uint32_t)t->footer.vocabulary;
    return below;
}

uint64_t ls_tokens_digest(const ls_token_store *t, const void *choice, size_t n)
{
    const uint64_t all[] = { t->footer.ids_hash, t->footer.ends_hash, (uint64_t)t->footer.end };
    return ls_hash64_more(ls_hash64(all, sizeof all), choice, n);
}

void ls_tokens_close(ls_token_store *t)
{
    for (int i = 0; i < t->n_parts; i++)
        free((char *)t->parts[i].path);
    free(t->parts);
    ls_file_unmap(&t->map);
    *t = (ls_token_store){ 0 };
}

/* ---- writing */

ls_status ls_tokens_create(ls_token_writer *w, const char *path, uint64_t key, int32_t vocabulary,
                           int32_t end)
{
    const int32_t width = vocabulary <= 1 << 16 ? 2 : 4;
    *w = (ls_token_writer){
        .footer = { .magic = MAGIC, .key = key, .width = width, .vocabulary = vocabulary, .end = end }
    };
    if (!(w->ids = ls_hasher_create()))
        return ls_fail(LS_E_MEMORY, "no memory to write %s", path);
    const ls_status s = ls_writer_open(&w->file, path);
    if (s != LS_OK)
        ls_hasher_end(&w->ids);
    return s;
}

static ls_status put_bytes(ls_token_writer *w, const void *bytes, size_t n)
{
    ls_hasher_add(w->ids, bytes, n);
    return ls_writer_put(&w->file, bytes, n);
}

static ls_status put_ids(ls_token_writer *w, const int32_t *ids, int64_t n)
{
    uint16_t narrow[1024];
    w->footer.tokens += n;
    if (w->footer.width == 4)
        return put_bytes(w, ids, 4 * (size_t)n);
    for (int64_t done = 0; done < n;) {
        int64_t k = 0;
        for (; k < 1024 && done < n; k++)
            narrow[k] = (uint16_t)ids[done++];
        LS_TRY(put_bytes(w, narrow, 2 * (size_t)k));
    }
    return LS_OK;
}

/* Room for one more document in both tables. */
static ls_status tokens_grow(ls_token_writer *w)
{
    if (w->footer.documents < w->room)
        return LS_OK;
    const int64_t room = w->room ? 2 * w->room : 1024;
    int64_t **tables[] = { &w->ends, &w->rows };
    for (int i = 0; i < 2; i++) {
        int64_t *more = ls_sys_realloc(*tables[i], sizeof *more * (size_t)room);
        if (!more)
            return ls_fail(LS_E_MEMORY, "no memory for a table of %lld documents", (long long)room);
        *tables[i] = more;
    }
    w->room = room;
    return LS_OK;
}

ls_status ls_tokens_put(ls_token_writer *w, const int32_t *ids, int64_t n, int64_t row)
{
    ls_token_footer *f = &w->footer;
    LS_TRY(tokens_grow(w));
    LS_TRY(put_ids(w, ids, n));
    if (!n || ids[n - 1] != f->end || f->masked)
        LS_TRY(put_ids(w, &f->end, 1));
    w->rows[f->documents] = row;
    w->ends[f->documents++] = f->tokens;
    return LS_OK;
}

ls_status ls_tokens_put_masked(ls_token_writer *w, const int32_t *ids, const uint8_t *targets, int64_t n,
                               int64_t row)
{
    w->footer.masked = 1;
    ls_str_add_n(&w->targets, (const char *)targets, (size_t)n);
    ls_str_add_n(&w->targets, "", 1);
    return ls_tokens_put(w, ids, n, row);
}

ls_status ls_tokens_commit(ls_token_writer *w, int64_t rows)
{
    ls_token_footer *f = &w->footer;
    const size_t bytes = (size_t)(f->tokens * token_bytes(f)), table = 8 * (size_t)f->documents;
    ls_status s;
    f->rows = rows;
    LS_TRY_TO(s, ls_str_status(&w->targets), fail);
    LS_TRY_TO(s, put_bytes(w, ls_str_text(&w->targets), w->targets.len), fail);
    f->ids_hash = ls_hasher_end(&w->ids);
    f->ends_hash = ls_hash64(w->ends, table);
    f->rows_hash = ls_hash64(w->rows, table);
    f->hash = footer_hash(f);
    LS_TRY_TO(s, ls_writer_put(&w->file, "\0\0\0\0\0\0\0", padded((int64_t)bytes) - bytes), fail);
    LS_TRY_TO(s, ls_writer_put(&w->file, w->ends, table), fail);
    LS_TRY_TO(s, ls_writer_put(&w->file, w->rows, table), fail);
    LS_TRY_TO(s, ls_writer_put(&w->file, f, sizeof *f), fail);
    s = ls_writer_commit(&w->file);
fail:
    ls_tokens_abort(w);
    return s;
}

void ls_tokens_abort(ls_token_writer *w)
{
    ls_writer_abort(&w->file);
    ls_hasher_end(&w->ids);
    ls_str_release(&w->targets);
    free(w->ends);
    free(w->rows);
    w->ends = w->rows = NULL;
}
