/* idx_file.c - opening IDX files. A plain file is mapped. A gzip file is inflated once into CACHE/inflated/HASH.idx, HASH
 * being the xxh3 of the source, and that copy is mapped from then on. So that a start need not even hash 26 MB,
 * CACHE/inflated/known/KEY remembers the hash under a key of (path, size, times, inode); an entry is written only when the
 * source is older than the clock's grain, because a file that changes within one tick keeps its times (git's "racy" files).
 * Everything in the cache may be deleted at any time. */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "data/idx.h"

void ls_idx_close(ls_idx_file *f) {
    ls_file_unmap(&f->map);
    free(f->heap);
    *f = (ls_idx_file){ 0 };
}

/* DIR/NAME.EXT with NAME in hex; malloc'ed. */
static char *hex_path(const char *dir, uint64_t name, const char *extension) {
    char file[32];
    snprintf(file, sizeof file, "%016" PRIx64 "%s", name, extension);
    return ls_path_join(dir, file);
}

/* What identifies a file's content without reading it; 0 if the file is too young to be sure. */
static uint64_t key_of(const char *path) {
    struct stat st;
    struct timespec now;
    char *real = realpath(path, NULL);
    uint64_t key = 0;
    if (real && stat(real, &st) == 0 && clock_gettime(CLOCK_REALTIME, &now) == 0 && now.tv_sec - st.st_mtim.tv_sec > 2 &&
        now.tv_sec - st.st_ctim.tv_sec > 2) {
        int64_t id[] = { (int64_t)st.st_size,        (int64_t)st.st_mtim.tv_sec,  (int64_t)st.st_mtim.tv_nsec,
                         (int64_t)st.st_ctim.tv_sec, (int64_t)st.st_ctim.tv_nsec, (int64_t)st.st_ino,
                         (int64_t)st.st_dev };
        key = ls_hash64_more(ls_hash_text(real), id, sizeof id);
    }
    free(real);
    return key;
}

/* The hash remembered under the key; 0: none. */
static uint64_t recall(const char *known, uint64_t key) {
    char *path = hex_path(known, key, ""), *text = NULL, *end;
    size_t size;
    uint64_t hash = 0;
    if (ls_file_exists(path) && ls_file_read(&text, &size, path) == LS_OK && size == 17) {
        hash = strtoull(text, &end, 16);
        if (end != text + 16)
            hash = 0;
    }
    free(text);
    free(path);
    return hash;
}

static void remember(const char *known, uint64_t key, uint64_t hash) {
    char *path = hex_path(known, key, ""), text[32];
    snprintf(text, sizeof text, "%016" PRIx64 "\n", hash);
    if (ls_make_dirs(known) != LS_OK || ls_file_write(path, text, 17) != LS_OK)
        ls_log_debug("%s; the next start hashes the source again", ls_error_message());
    free(path);
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
    char *copy = hex_path(dir, hash, ".idx");
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
        remember(known, key, hash);
done:
    free(copy);
    return s;
}

ls_status ls_idx_open(ls_idx_file *out, const char *path, int rank) {
    *out = (ls_idx_file){ 0 };
    char *cache = ls_cache_dir(), *dir = ls_path_join(cache, "inflated"), *known = ls_path_join(dir, "known"), *copy = NULL;
    ls_mapping source = { 0 };
    ls_status s = LS_OK;
    uint64_t key = key_of(path), hash = key ? recall(known, key) : 0;
    if (hash) {
        copy = hex_path(dir, hash, ".idx");
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
