/* manifest.c - writing and checking manifest.json (manifest.h has the format). The manifest comes from outside too: its own digest is
 * checked first, then everything in it before it is used. */
#include "ckpt/manifest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "ckpt/safetensors.h"

#define FORMAT_NAME "lockstep checkpoint"
#define FORMAT_VERSION 1
#define DIGEST_LINE "\"digest\":\"%016" PRIx64 "\"}\n"
#define DIGEST_BYTES (sizeof "\"digest\":\"0123456789abcdef\"}\n" - 1)

int ls_manifest_add_file(ls_manifest *m, const char *name, uint64_t size)
{
    m->files = realloc(m->files, sizeof *m->files * (size_t)(m->n_files + 1));
    LS_CHECK(m->files != NULL && strlen(name) < sizeof m->files->name, "out of memory, or a long name: %s", name);
    struct ls_manifest_file *f = &m->files[m->n_files];
    strcpy(f->name, name);
    f->size = size;
    return m->n_files++;
}

void ls_manifest_add(ls_manifest *m, int64_t n, const ls_piece *pieces)
{
    if (m->n + n > m->room) {
        m->room = 2 * m->room + n;
        m->pieces = realloc(m->pieces, sizeof *m->pieces * (size_t)m->room);
        LS_CHECK(m->pieces != NULL, "out of memory");
    }
    if (n > 0)
        memcpy(m->pieces + m->n, pieces, sizeof *pieces * (size_t)n);
    m->n += n;
}

void ls_manifest_release(ls_manifest *m)
{
    free(m->files);
    free(m->pieces);
    *m = (ls_manifest){ 0 };
}

static int by_place(const void *a, const void *b)
{
    const ls_piece *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* File `k`, whose pieces begin at *piece; moves that to the next file's. */
static ls_status add_entry(ls_json *list, const ls_manifest *m, int k, int64_t *piece)
{
    const struct ls_manifest_file *f = &m->files[k];
    uint64_t at = 0;
    ls_json j = { 0 };
    ls_str_add(&j.out, "\n"); /* one file a line, for people */
    ls_json_object(&j, NULL);
    ls_json_text(&j, "name", f->name);
    ls_json_int(&j, "size", (int64_t)f->size);
    ls_json_array(&j, "pieces");
    const ls_piece *p = m->pieces + *piece;
    for (; *piece < m->n && p->file == (uint64_t)k && p->offset == at; p++, ++*piece) {
        char sum[17];
        snprintf(sum, sizeof sum, "%016" PRIx64, p->sum);
        ls_json_array(&j, NULL);
        ls_json_int(&j, NULL, (int64_t)p->offset);
        ls_json_int(&j, NULL, (int64_t)p->length);
        ls_json_text(&j, NULL, sum);
        ls_json_close_array(&j);
        at += p->length;
    }
    ls_json_close_array(&j);
    ls_json_close_object(&j);
    ls_json_raw(list, NULL, ls_str_text(&j.out));
    ls_str_release(&j.out);
    bool twice = *piece < m->n && p->file == (uint64_t)k;
    if (at != f->size || twice)
        return ls_fail(LS_E_ARG, "%s: byte %" PRIu64 " of %" PRIu64 " was written by %s", f->name, twice && p->offset < at ? p->offset : at, f->size,
                       twice && p->offset < at ? "two ranks" : "no rank");
    return LS_OK;
}

ls_status ls_manifest_text(ls_str *out, ls_manifest *m)
{
    ls_json j = { 0 };
    ls_json_object(&j, NULL);
    ls_json_text(&j, "format", FORMAT_NAME);
    ls_json_int(&j, "version", FORMAT_VERSION);
    ls_json_array(&j, "files");
    if (m->n > 1)
        qsort(m->pieces, (size_t)m->n, sizeof *m->pieces, by_place);
    ls_status s = LS_OK;
    int64_t piece = 0;
    for (int k = 0; k < m->n_files && s == LS_OK; k++)
        s = add_entry(&j, m, k, &piece);
    ls_json_close_array(&j);
    ls_str_add(&j.out, ",\n"); /* the object is closed by the digest's line */
    ls_str_printf(&j.out, DIGEST_LINE, ls_hash64(j.out.data, j.out.len));
    *out = j.out;
    return s;
}

/* Which pieces of the list a caller compares. */
typedef struct turn { int64_t piece; int part, parts; } turn;

/* One file of the list: its size, and with FULL its bytes, piece by piece. */
static ls_status check_file(const char *dir, const char *manifest, json_t *entry, ls_verify how, turn *t)
{
    char shown[128];
    const char *name = json_string_value(json_object_get(entry, "name"));
    json_t *size_value = json_object_get(entry, "size"), *pieces = json_object_get(entry, "pieces");
    if (!name || !name[0] || strchr(name, '/') || !strcmp(name, "..") || !strcmp(name, ".") || !json_is_integer(size_value) || !json_is_array(pieces))
        return ls_fail(LS_E_FORMAT, "%s: an entry of \"files\" has no plain name, size and pieces", manifest);
    int64_t size = json_integer_value(size_value);
    ls_mapping m;
    char *path = ls_path_join(dir, name);
    ls_status s = LS_OK;
    if (!ls_file_exists(path)) {
        s = ls_fail(LS_E_FORMAT, "%s: not there, but the manifest of this checkpoint lists it: the checkpoint is incomplete: remove it and use another one", path);
        goto done;
    }
    if (ls_file_size(path) != size) {
        s = ls_fail(LS_E_FORMAT, "%s: holds %" PRId64 " bytes, the manifest says %" PRId64 ": the checkpoint is damaged: remove it and use another one", path,
                    ls_file_size(path), size);
        goto done;
    }
    LS_TRY_TO(s, ls_file_map(&m, path), done);
    uint64_t at = 0;
    for (size_t i = 0; i < json_array_size(pieces) && s == LS_OK; i++) {
        json_t *piece = json_array_get(pieces, i);
        json_int_t offset = json_integer_value(json_array_get(piece, 0)), length = json_integer_value(json_array_get(piece, 1));
        const char *sum = json_string_value(json_array_get(piece, 2));
        char actual[17];
        if (!sum || offset < 0 || (uint64_t)offset != at || length <= 0 || (uint64_t)length > m.size - at) {
            s = ls_fail(LS_E_FORMAT, "%s: piece %zu of \"%s\" is not [offset, length, checksum] following the piece before it", manifest, i,
                        ls_shown_name(shown, name));
            break;
        }
        if (how == LS_VERIFY_FULL && t->piece++ % t->parts == t->part) {
            snprintf(actual, sizeof actual, "%016" PRIx64, ls_hash64(m.data + at, (size_t)length));
            if (strcmp(actual, sum) != 0)
                s = ls_fail(LS_E_FORMAT, "%s: bytes %" PRIu64 " to %" PRIu64 " are damaged (xxh3 %s, the manifest says %.16s): "
                            "remove this checkpoint and use another one", path,
                            at, at + (uint64_t)length - 1, actual, sum);
        }
        at += (uint64_t)length;
    }
    if (s == LS_OK && at != m.size)
        s = ls_fail(LS_E_FORMAT, "%s: the pieces of \"%s\" end at byte %" PRIu64 " of %zu", manifest, ls_shown_name(shown, name), at, m.size);
    ls_file_unmap(&m);
done:
    free(path);
    return s;
}

static ls_status check_text(const char *text, size_t size, const char *path)
{
    char line[64];
    uint64_t digest = size > DIGEST_BYTES ? ls_hash64(text, size - DIGEST_BYTES) : 0;
    snprintf(line, sizeof line, DIGEST_LINE, digest);
    if (size <= DIGEST_BYTES || memcmp(text + size - DIGEST_BYTES, line, DIGEST_BYTES) != 0)
        return ls_fail(LS_E_FORMAT, "%s: bytes 0 to %zu do not match the digest at their end: the manifest is damaged: remove this checkpoint "
                       "and use another one", path, size);
    return LS_OK;
}

ls_status ls_manifest_check(const char *dir, ls_verify how, int part, int parts, int *files)
{
    if (files)
        *files = 0;
    char *path = ls_path_join(dir, LS_MANIFEST), *text = NULL;
    size_t size = 0;
    json_t *root = NULL;
    ls_status s;
    if (!ls_file_exists(path)) {
        s = ls_fail(LS_E_IO, "%s: not there, so %s is no checkpoint, or no complete one: remove it and use another one", path, dir);
        goto done;
    }
    LS_TRY_TO(s, ls_file_read(&text, &size, path), done);
    LS_TRY_TO(s, check_text(text, size, path), done);
    LS_TRY_TO(s, ls_json_parse(&root, text, size, path), done);
    json_int_t version = json_integer_value(json_object_get(root, "version"));
    if (version != FORMAT_VERSION) {
        s = ls_fail(LS_E_FORMAT, "%s: version %" PRId64 " of the checkpoint format; this program knows version %d: use a newer one", path,
                    (int64_t)version, FORMAT_VERSION);
        goto done;
    }
    json_t *list = json_object_get(root, "files");
    if (!json_is_array(list)) {
        s = ls_fail(LS_E_FORMAT, "%s: no \"files\" list", path);
        goto done;
    }
    turn t = { .part = part, .parts = parts };
    for (size_t i = 0; i < json_array_size(list); i++)
        LS_TRY_TO(s, check_file(dir, path, json_array_get(list, i), how, &t), done);
    if (files)
        *files = (int)json_array_size(list);
done:
    json_decref(root);
    free(text);
    free(path);
    return s;
}
