/* manifest.c - writes and checks manifest.json (manifest.h has the format). The manifest comes from outside,
 * so its own digest is checked first, and then everything in it before it is used. */
#include "ckpt/manifest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/check.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/stop.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/safetensors.h"

#define FORMAT_NAME "lockstep checkpoint"
#define FORMAT_VERSION 1
#define DIGEST_LINE "\"digest\":\"%016" PRIx64 "\"}\n"
#define DIGEST_BYTES (sizeof "\"digest\":\"0123456789abcdef\"}\n" - 1)

static ls_status no_memory(void)
{
    return ls_fail(LS_E_MEMORY, "no memory for a checkpoint's list of files");
}

ls_status ls_manifest_add_file(ls_manifest *m, const char *name, uint64_t size, int *file)
{
    LS_CHECK(strlen(name) < sizeof m->files->name, "a long name: %s", name);
    struct ls_manifest_file *files = ls_sys_malloc(sizeof *files * (size_t)(m->n_files + 1));
    if (!files)
        return no_memory();
    if (m->n_files > 0)
        memcpy(files, m->files, sizeof *files * (size_t)m->n_files);
    free(m->files);
    m->files = files;
    strcpy(files[m->n_files].name, name);
    files[m->n_files].size = size;
    *file = m->n_files++;
    return LS_OK;
}

ls_status ls_manifest_add(ls_manifest *m, int64_t n, const ls_piece *pieces)
{
    if (m->n + n > m->room) {
        const int64_t room = 2 * m->room + n;
        ls_piece *more = ls_sys_malloc(sizeof *more * (size_t)room);
        if (!more)
            return no_memory();
        if (m->n > 0)
            memcpy(more, m->pieces, sizeof *more * (size_t)m->n);
        free(m->pieces);
        m->pieces = more;
        m->room = room;
    }
    if (n > 0)
        memcpy(m->pieces + m->n, pieces, sizeof *pieces * (size_t)n);
    m->n += n;
    return LS_OK;
}

void ls_manifest_release(ls_manifest *m)
{
    free(m->files);
    free(m->pieces);
    free(m->proved);
    *m = (ls_manifest){ 0 };
}

static int by_place(const void *a, const void *b)
{
    const ls_piece *x = a, *y = b;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

void ls_manifest_sort(ls_manifest *m)
{
    if (m->n > 1)
        qsort(m->pieces, (size_t)m->n, sizeof *m->pieces, by_place);
}

/* Adds the entry of file `k`, whose first piece is *piece. *piece is moved to the next file's. */
static ls_status add_entry(ls_json *list, const ls_manifest *m, int k, int64_t *piece)
{
    const struct ls_manifest_file *f = &m->files[k];
    uint64_t at = 0;
    ls_json j = { 0 };
    ls_str_add(&j.out, "\n"); /* one line for each file */
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
    ls_str_inherit(&list->out, &j.out);
    ls_str_release(&j.out);
    bool twice = *piece < m->n && p->file == (uint64_t)k;
    if (at != f->size || twice)
        return ls_fail(LS_E_ARG, "%s: byte %" PRIu64 " of %" PRIu64 " was written by %s", f->name,
                       twice && p->offset < at ? p->offset : at, f->size,
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
    ls_manifest_sort(m);
    ls_status s = LS_OK;
    int64_t piece = 0;
    for (int k = 0; k < m->n_files && s == LS_OK; k++)
        s = add_entry(&j, m, k, &piece);
    ls_json_close_array(&j);
    ls_str_add(&j.out, ",\n"); /* the line with the digest closes the object */
    ls_str_printf(&j.out, DIGEST_LINE, ls_hash64(j.out.data, j.out.len));
    *out = j.out;
    return s == LS_OK ? ls_str_status(out) : s;
}

/* ---- reading */

static bool parse_sum(uint64_t *out, const char *text)
{
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return false;
    *out = strtoull(text, NULL, 16);
    return true;
}

/* Reads an entry of the list. The file must exist with that size, and its pieces must cover it. */
static ls_status read_entry(ls_manifest *m, const char *dir, const char *manifest, json_t *entry)
{
    char shown[128];
    const char *name = json_string_value(json_object_get(entry, "name"));
    json_t *size_value = json_object_get(entry, "size"), *pieces = json_object_get(entry, "pieces");
    const json_int_t size = json_integer_value(size_value);
    if (!name || !name[0] || strlen(name) >= sizeof m->files->name || strchr(name, '/') ||
        !strcmp(name, "..") || !strcmp(name, ".") || !json_is_integer(size_value) || size < 0 ||
        !json_is_array(pieces))
        return ls_fail(LS_E_FORMAT, "%s: an entry of \"files\" has no plain name, size and pieces", manifest);
    char *path = ls_path_join(dir, name);
    ls_status s = ls_sys_have(path);
    if (s == LS_OK && !ls_file_exists(path))
        s = ls_fail(LS_E_FORMAT,
                    "%s: not there, but the manifest of this checkpoint lists it: the checkpoint is "
                    "incomplete: remove it and use another one",
                    path);
    else if (s == LS_OK && ls_file_size(path) != size)
        s = ls_fail(LS_E_FORMAT,
                    "%s: holds %" PRId64 " bytes, the manifest says %" PRId64
                    ": the checkpoint is damaged: remove it and use another one",
                    path, ls_file_size(path), (int64_t)size);
    free(path);
    LS_TRY(s);
    int file;
    LS_TRY(ls_manifest_add_file(m, name, (uint64_t)size, &file));
    uint64_t at = 0;
    for (size_t i = 0; i < json_array_size(pieces); i++) {
        json_t *piece = json_array_get(pieces, i);
        const json_int_t offset = json_integer_value(json_array_get(piece, 0)),
                         length = json_integer_value(json_array_get(piece, 1));
        ls_piece p = { (uint64_t)file, at, (uint64_t)length, 0 };
        if (!parse_sum(&p.sum, json_string_value(json_array_get(piece, 2))) || offset < 0 ||
            (uint64_t)offset != at || length <= 0 || p.length > (uint64_t)size - at)
            return ls_fail(
                LS_E_FORMAT,
                "%s: piece %zu of \"%s\" is not [offset, length, checksum] following the piece before it",
                manifest, i, ls_shown_name(shown, name));
        LS_TRY(ls_manifest_add(m, 1, &p));
        at += p.length;
    }
    if (at != (uint64_t)size)
        return ls_fail(LS_E_FORMAT, "%s: the pieces of \"%s\" end at byte %" PRIu64 " of %" PRId64, manifest,
                       ls_shown_name(shown, name), at, (int64_t)size);
    return LS_OK;
}

static ls_status check_text(const char *text, size_t size, const char *path)
{
    char line[64];
    uint64_t digest = size > DIGEST_BYTES ? ls_hash64(text, size - DIGEST_BYTES) : 0;
    ls_snprintf(line, sizeof line, DIGEST_LINE, digest);
    if (size <= DIGEST_BYTES || memcmp(text + size - DIGEST_BYTES, line, DIGEST_BYTES) != 0)
        return ls_fail(LS_E_FORMAT,
                       "%s: bytes 0 to %zu do not match the digest at their end: the manifest is damaged: "
                       "remove this checkpoint "
                       "and use another one",
                       path, size);
    return LS_OK;
}

static ls_status read_all(ls_manifest *m, const char *dir, const char *path)
{
    char *text = NULL;
    size_t size = 0;
    json_t *root = NULL;
    ls_status s;
    if (!ls_file_exists(path))
        return ls_fail(LS_E_IO,
                       "%s: not there, so %s is not a complete checkpoint: remove it and use another one",
                       path, dir);
    LS_TRY_TO(s, ls_file_read(&text, &size, path), done);
    LS_TRY_TO(s, check_text(text, size, path), done);
    LS_TRY_TO(s, ls_json_parse(&root, text, size, path), done);
    json_int_t version = json_integer_value(json_object_get(root, "version"));
    if (version != FORMAT_VERSION) {
        s = ls_fail(LS_E_FORMAT,
                    "%s: version %" PRId64
                    " of the checkpoint format; this program knows version %d: use a newer one",
                    path, (int64_t)version, FORMAT_VERSION);
        goto done;
    }
    json_t *list = json_object_get(root, "files");
    if (!json_is_array(list)) {
        s = ls_fail(LS_E_FORMAT, "%s: no \"files\" list", path);
        goto done;
    }
    for (size_t i = 0; i < json_array_size(list); i++)
        LS_TRY_TO(s, read_entry(m, dir, path, json_array_get(list, i)), done);
    m->proved = ls_sys_calloc((size_t)m->n + 1, sizeof *m->proved);
    if (!m->proved)
        s = no_memory();
done:
    json_decref(root);
    free(text);
    return s;
}

ls_status ls_manifest_read(ls_manifest *out, const char *dir)
{
    *out = (ls_manifest){ 0 };
    char *path = ls_path_join(dir, LS_MANIFEST);
    ls_status s = ls_sys_have(path);
    if (s == LS_OK)
        s = read_all(out, dir, path);
    free(path);
    if (s != LS_OK)
        ls_manifest_release(out);
    return s;
}

/* ---- verifying */

static bool holds_tensors(const struct ls_manifest_file *f) { return ls_ends_with(f->name, ".safetensors"); }

/* Appends ": tensor "a" and 2 more", the tensors that have bytes in [from, to); nothing for the header, or
 * for a file without tensors. */
static void name_tensors(char out[200], const struct ls_manifest_file *f, const uint8_t *bytes, uint64_t from,
                         uint64_t to)
{
    ls_arena arena;
    ls_weight *list = NULL;
    int64_t n = 0, hit = 0;
    json_t *metadata = NULL;
    char shown[128];
    *out = 0;
    ls_arena_init(&arena);
    if (holds_tensors(f) &&
        ls_safetensors_parse(&arena, bytes, f->size, f->name, &list, &n, &metadata) == LS_OK)
        for (int64_t i = 0; i < n; i++)
            if (list[i].offset < to && list[i].offset + list[i].bytes > from && hit++ == 0)
                snprintf(out, 160, ": tensor \"%s\"", ls_shown_name(shown, list[i].name));
    if (hit > 1)
        snprintf(out + strlen(out), 32, " and %" PRId64 " more", hit - 1);
    json_decref(metadata);
    ls_arena_release(&arena);
}

static ls_status prove(ls_manifest *m, int64_t piece, const char *path, const uint8_t *bytes)
{
    const ls_piece *p = &m->pieces[piece];
    char tensors[200];
    if (m->proved[piece])
        return LS_OK;
    if (m->sparse)
        LS_TRY(m->sparse->bring(m->sparse, m->files[p->file].name, p->offset, p->length));
    const uint64_t actual = ls_hash64(bytes + p->offset, (size_t)p->length);
    m->proved[piece] = actual == p->sum;
    if (m->proved[piece])
        return LS_OK;
    name_tensors(tensors, &m->files[p->file], bytes, p->offset, p->offset + p->length);
    return ls_fail(LS_E_FORMAT,
                   "%s: bytes %" PRIu64 " to %" PRIu64 " are damaged%s (xxh3 %016" PRIx64
                   ", the manifest says %016" PRIx64 "): "
                   "remove this checkpoint and use another one",
                   path, p->offset, p->offset + p->length - 1, tensors, actual, p->sum);
}

/* The first piece of file `k` that ends after byte `from`. */
static int64_t find_piece(const ls_manifest *m, uint64_t k, uint64_t from)
{
    int64_t low = 0, high = m->n;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        const ls_piece *p = &m->pieces[middle];
        if (p->file < k || (p->file == k && p->offset + p->length <= from))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

ls_status ls_manifest_prove(ls_manifest *m, const char *path, const uint8_t *bytes, uint64_t from,
                            uint64_t to)
{
    const char *slash = strrchr(path, '/');
    int k = 0;
    while (k < m->n_files && strcmp(m->files[k].name, slash ? slash + 1 : path))
        k++;
    for (int64_t i = find_piece(m, (uint64_t)k, from);
         i < m->n && m->pieces[i].file == (uint64_t)k && m->pieces[i].offset < to; i++)
        LS_TRY(prove(m, i, path, bytes));
    return k < m->n_files
               ? LS_OK
               : ls_fail(LS_E_FORMAT,
                         "%s: not in the manifest of this checkpoint: remove the file, or the checkpoint",
                         path);
}

/* Verifies every parts-th piece of a file, beginning with number `part`; or only the pieces before the data
 * of tensors. */
static ls_status prove_file(ls_manifest *m, const char *dir, int k, ls_verify how, int part, int parts)
{
    ls_mapping f;
    char *path = ls_path_join(dir, m->files[k].name);
    ls_status s = ls_file_map(&f, path);
    if (s == LS_OK) {
        uint64_t end = f.size;
        if (how == LS_VERIFY_LOADED && holds_tensors(&m->files[k]) && f.size >= 8) {
            LS_TRY_TO(s, ls_manifest_prove(m, path, f.data, 0, 8), done);
            memcpy(&end, f.data, 8);
            end = end < f.size - 8 ? end + 8 : f.size;
        }
        for (int64_t i = find_piece(m, (uint64_t)k, 0);
             s == LS_OK && i < m->n && m->pieces[i].file == (uint64_t)k && m->pieces[i].offset < end; i++)
            if (how == LS_VERIFY_LOADED || i % parts == part)
                s = ls_stop_asked() ? ls_stop_check("checking %s", path) : prove(m, i, path, f.data);
    done:
        ls_file_unmap(&f);
    }
    free(path);
    return s;
}

ls_status ls_manifest_check(ls_manifest *m, const char *dir, ls_verify how, int part, int parts)
{
    for (int k = 0; k < m->n_files && how != LS_VERIFY_SIZES; k++)
        LS_TRY(prove_file(m, dir, k, how, part, parts));
    return LS_OK;
}
