/* idx_file.c - opens IDX files. A plain file is mapped. A gzip file is inflated once to
 * CACHE/inflated/HASH.idx, where HASH is the xxh3 of the gzip file, and from then on that copy is mapped. Its
 * footer has a checksum of its bytes, which is compared when the copy was written since it was last compared;
 * a damaged copy is made again. CACHE/inflated/known remembers hashes of files (source_hash.h), of copies
 * too, so that a start need read neither a gzip file of 26 MB nor its copy. Everything in the cache may be
 * deleted at any time. */
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "data/idx.h"
#include "data/source_hash.h"

void ls_idx_close(ls_idx_file *f)
{
    ls_file_unmap(&f->map);
    free(f->heap);
    *f = (ls_idx_file){ 0 };
}

#define MAGIC 0x315844494c464e49u /* "INFLIDX1", with the low byte first */

ls_idx_footer ls_idx_footer_of(const void *idx, size_t size, uint64_t source)
{
    ls_idx_footer f = { .magic = MAGIC, .source = source, .digest = ls_hash64(idx, size) };
    f.hash = ls_hash64(&f, offsetof(ls_idx_footer, hash));
    return f;
}

/* Whether the mapped copy of the gzip file with this hash is undamaged. `known` remembers the checksum of a
 * copy that is. */
static ls_status check_copy(const ls_mapping *map, uint64_t source, const char *copy, const char *known)
{
    ls_idx_footer f;
    const uint64_t key = ls_source_key(copy), seen = key ? ls_source_recall(known, key) : 0;
    if (map->size < sizeof f)
        return ls_fail(LS_E_FORMAT, "%s: %zu bytes are not an inflated copy", copy, map->size);
    const size_t size = map->size - sizeof f;
    memcpy(&f, map->data + size, sizeof f);
    if (f.magic != MAGIC || f.source != source || f.hash != ls_hash64(&f, offsetof(ls_idx_footer, hash)))
        return ls_fail(LS_E_FORMAT, "%s: cut, or written by an older version (no footer at offset %zu)", copy,
                       size);
    if (seen && seen == f.digest)
        return LS_OK;
    if (f.digest != ls_hash64(map->data, size))
        return ls_fail(LS_E_FORMAT, "%s: damaged: the checksum of its %zu bytes is another", copy, size);
    if (key)
        ls_source_remember(known, key, f.digest);
    return LS_OK;
}

static bool map_copy(ls_idx_file *out, const char *copy, int rank, uint64_t source, const char *known)
{
    if (!ls_file_exists(copy))
        return false;
    if (ls_file_map(&out->map, copy) != LS_OK || check_copy(&out->map, source, copy, known) != LS_OK) {
        ls_log_warn("%s; the source is inflated again", ls_error_message());
    } else if (ls_idx_parse(&out->idx, out->map.data, out->map.size - sizeof(ls_idx_footer), rank, copy) ==
               LS_OK) {
        memcpy(&out->digest,
               out->map.data + out->map.size - sizeof(ls_idx_footer) + offsetof(ls_idx_footer, digest),
               sizeof out->digest);
        return true;
        /* the copy is undamaged, but the file is not of the wanted kind: reading the source reports that with
         * its name */
    }
    ls_idx_close(out);
    return false;
}

static ls_status write_copy(const char *copy, const void *idx, size_t size, const ls_idx_footer *f)
{
    ls_writer w;
    LS_TRY(ls_writer_open(&w, copy));
    ls_status s = ls_writer_put(&w, idx, size);
    if (s == LS_OK)
        s = ls_writer_put(&w, f, sizeof *f);
    if (s == LS_OK)
        return ls_writer_commit(&w);
    ls_writer_abort(&w);
    return s;
}

/* Warns once in a process: the cache is one folder, and four warnings for four files do not help. */
static void warn_unwritable(const char *dir)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&warned))
        ls_log_warn("cannot keep inflated data in %s (%s): inflating into memory at every start; set "
                    "LOCKSTEP_CACHE to a writable folder",
                    dir, ls_error_message());
}

static ls_status open_gzip(ls_idx_file *out, const ls_mapping *source, const char *path, int rank,
                           uint64_t key, const char *dir, const char *known)
{
    uint64_t hash;
    LS_TRY(ls_hash64_long(&hash, source->data, source->size, path));
    char *copy = ls_hash_path(dir, hash, ".idx");
    ls_status s = LS_OK;
    if (!map_copy(out, copy, rank, hash, known)) {
        size_t size;
        LS_TRY_TO(s, ls_idx_inflate(&out->heap, &size, source->data, source->size, rank, path), done);
        const ls_idx_footer f = ls_idx_footer_of(out->heap, size, hash);
        out->digest = f.digest;
        if (ls_cache_is_frozen()) {
            s = ls_idx_parse(&out->idx, out->heap, size, rank, path);
            goto done;
        }
        if (ls_make_dirs(dir) != LS_OK || write_copy(copy, out->heap, size, &f) != LS_OK) {
            warn_unwritable(dir);
            s = ls_idx_parse(&out->idx, out->heap, size, rank, path);
            goto done;
        }
        free(out->heap); /* pages of a mapping can be dropped and shared; the heap's cannot */
        out->heap = NULL;
        LS_TRY_TO(s, ls_file_map(&out->map, copy), done);
        LS_TRY_TO(s, ls_idx_parse(&out->idx, out->map.data, size, rank, copy), done);
    }
    if (key)
        ls_source_remember(known, key, hash);
done:
    free(copy);
    return s;
}

ls_status ls_idx_open(ls_idx_file *out, const char *path, int rank)
{
    *out = (ls_idx_file){ 0 };
    char *cache = ls_cache_dir(), *dir = ls_path_join(cache, "inflated"), *known = ls_path_join(dir, "known"),
         *copy = NULL;
    ls_mapping source = { 0 };
    ls_status s = LS_OK;
    uint64_t key = ls_source_key(path), hash = key ? ls_source_recall(known, key) : 0;
    if (hash) {
        copy = ls_hash_path(dir, hash, ".idx");
        if (map_copy(out, copy, rank, hash, known))
            goto done;
    }
    LS_TRY_TO(s, ls_file_map(&source, path), done);
    if (ls_idx_is_gzip(source.data, source.size)) {
        LS_TRY_TO(s, open_gzip(out, &source, path, rank, key, dir, known), done);
    } else {
        LS_TRY_TO(s, ls_idx_parse(&out->idx, source.data, source.size, rank, path), done);
        out->digest = hash;
        if (!hash)
            LS_TRY_TO(s, ls_hash64_long(&out->digest, source.data, source.size, path), done);
        if (key && !hash)
            ls_source_remember(known, key, out->digest);
        out->map = source;
        source = (ls_mapping){ 0 };
    }
done:
    if (s != LS_OK)
        ls_idx_close(out);
    ls_file_unmap(&source);
    free(copy);
    free(known);
    free(dir);
    free(cache);
    return s;
}
