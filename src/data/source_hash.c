/* source_hash.c - remembers the hashes of files (source_hash.h). */
#include "data/source_hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"

char *ls_hash_path(const char *dir, uint64_t hash, const char *extension)
{
    char file[40];
    snprintf(file, sizeof file, "%016" PRIx64 "%s", hash, extension);
    return ls_path_join(dir, file);
}

uint64_t ls_source_key(const char *path)
{
    struct stat st;
    struct timespec now;
    char *real = realpath(path, NULL);
    uint64_t key = 0;
    if (real && stat(real, &st) == 0 && clock_gettime(CLOCK_REALTIME, &now) == 0 &&
        now.tv_sec - st.st_mtim.tv_sec > 2 && now.tv_sec - st.st_ctim.tv_sec > 2) {
        int64_t id[] = { (int64_t)st.st_size,        (int64_t)st.st_mtim.tv_sec,  (int64_t)st.st_mtim.tv_nsec,
                         (int64_t)st.st_ctim.tv_sec, (int64_t)st.st_ctim.tv_nsec, (int64_t)st.st_ino,
                         (int64_t)st.st_dev };
        key = ls_hash64_more(ls_hash_text(real), id, sizeof id);
    }
    free(real);
    return key;
}

uint64_t ls_source_recall(const char *known, uint64_t key)
{
    char *path = ls_hash_path(known, key, ""), *text = NULL, *end;
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

void ls_source_remember(const char *known, uint64_t key, uint64_t hash)
{
    if (ls_cache_is_frozen())
        return;
    char *path = ls_hash_path(known, key, ""), text[32];
    snprintf(text, sizeof text, "%016" PRIx64 "\n", hash);
    if (ls_make_dirs(known) != LS_OK || ls_file_write(path, text, 17) != LS_OK)
        ls_log_debug("%s; the next start hashes the source again", ls_error_message());
    free(path);
}

ls_status ls_source_hash(uint64_t *out, const char *path, const char *known)
{
    ls_mapping map;
    const uint64_t key = ls_source_key(path);
    *out = key ? ls_source_recall(known, key) : 0;
    if (*out)
        return LS_OK;
    LS_TRY(ls_file_map(&map, path));
    const ls_status s = ls_hash64_long(out, map.data, map.size, path);
    ls_file_unmap(&map);
    LS_TRY(s);
    if (key)
        ls_source_remember(known, key, *out);
    return LS_OK;
}
