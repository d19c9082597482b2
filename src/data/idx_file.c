/* idx_file.c - opening IDX files. A plain file is mapped. A gzip file is inflated once into CACHE/inflated/HASH.idx, HASH
 * being the xxh3 of the source, and that copy is mapped from then on. So that a start need not even hash 26 MB,
 * CACHE/inflated/known remembers the hash (source_hash.h). Everything in the cache may be deleted at any time. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/log.h"
#include "data/idx.h"
#include "data/source_hash.h"

void ls_idx_close(ls_idx_file *f) {
    ls_file_unmap(&f->map);
    free(f->heap);
    *f = (ls_idx_file){ 0 };
}

static bool map_copy(ls_idx_file *out, const char *copy, int rank) {
    if (!ls_file_exists(copy))
        return false;
    if (ls_file_map(&out->map, copy) == LS_OK && ls_idx_parse(&out->idx, out->map.data, out->map.size, rank, copy) == LS_OK)
        return true;
    ls_log_debug("cached copy not usable (%s): the source is inflated again", ls_error_message());
    ls_idx_close(out);
    return false;
}

/* Once in a process: the cache is one place, and a warning for each of four files helps nobody. */
static void warn_unwritable(const char *dir) {
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&warned))
        ls_log_warn(
            "cannot keep inflated data in %s (%s): inflating into memory at every start; set LOCKSTEP_CACHE to a writable folder",
            dir, ls_error_message());
}

static ls_status open_gzip(ls_idx_file *out, const ls_mapping *source, const char *path, int rank, uint64_t key, const char *dir,
                           const char *known) {
    uint64_t hash = ls_hash64(source->data, source->size);
    char *copy = ls_hash_path(dir, hash, ".idx");
    ls_status s = LS_OK;
    if (!map_copy(out, copy, rank)) {
        size_t size;
        LS_TRY_TO(s, ls_idx_inflate(&out->heap, &size, source->data, source->size, rank, path), done);
        if (ls_make_dirs(dir) != LS_OK || ls_file_write(copy, out->heap, size) != LS_OK) {
            warn_unwritable(dir);
            s = ls_idx_parse(&out->idx, out->heap, size, rank, path);
            goto done;
        }
        free(out->heap); /* pages of a mapping can be dropped and shared, the heap's cannot */
        out->heap = NULL;
        LS_TRY_TO(s, ls_file_map(&out->map, copy), done);
        LS_TRY_TO(s, ls_idx_parse(&out->idx, out->map.data, out->map.size, rank, copy), done);
    }
    if (key)
        ls_source_remember(known, key, hash);
done:
    free(copy);
    return s;
}

ls_status ls_idx_open(ls_idx_file *out, const char *path, int rank) {
    *out = (ls_idx_file){ 0 };
    char *cache = ls_cache_dir(), *dir = ls_path_join(cache, "inflated"), *known = ls_path_join(dir, "known"), *copy = NULL;
    ls_mapping source = { 0 };
    ls_status s = LS_OK;
    uint64_t key = ls_source_key(path), hash = key ? ls_source_recall(known, key) : 0;
    if (hash) {
        copy = ls_hash_path(dir, hash, ".idx");
        if (map_copy(out, copy, rank))
            goto done;
    }
    LS_TRY_TO(s, ls_file_map(&source, path), done);
    if (ls_idx_is_gzip(source.data, source.size)) {
        LS_TRY_TO(s, open_gzip(out, &source, path, rank, key, dir, known), done);
    } else {
        LS_TRY_TO(s, ls_idx_parse(&out->idx, source.data, source.size, rank, path), done);
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
