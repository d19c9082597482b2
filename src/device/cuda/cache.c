/* cache.c - compiled kernels on disk, in one file for each, named after a hash of all that they were made
 * from. A file that is damaged counts as missing, and a folder that cannot be written is said once. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/sys.h"
#include "cuda_own.h"

typedef struct head {
    char magic[8];
    uint64_t bytes, hash; /* of the code behind it */
} head;
static const char MAGIC[8] = "LSCUBIN1";

char *ls_cuda_cache_folder(void)
{
    const char *said = getenv("LOCKSTEP_KERNEL_CACHE");
    if (said && *said)
        return ls_sys_strdup(said);
    char *cache = ls_cache_dir(), *folder = ls_path_join(cache, "kernels");
    free(cache);
    return folder;
}

ls_status ls_cuda_key_of(ls_cuda_key *out, const ls_arch *arch, const char *text)
{
    const ls_cuda_compiler *c;
    const ls_cuda_text *all;
    char how[96];
    LS_TRY(ls_cuda_compiler_open(&c));
    LS_TRY(ls_cuda_texts(&all));
    /* (1: counts up when the options in nvrtc.c change) */
    const int n = snprintf(how, sizeof how, "1 %s nvrtc %d.%d", arch->name, c->major, c->minor);
    out->a = ls_hash64_more(1, how, (size_t)n);
    out->b = ls_hash64_more(2, how, (size_t)n);
    for (const ls_cuda_text *t = all; t->name; t++)
        if (ls_ends_with(t->name, ".h")) {
            out->a = ls_hash64_more(out->a, t->text, strlen(t->text) + 1);
            out->b = ls_hash64_more(out->b, t->text, strlen(t->text) + 1);
        }
    out->a = ls_hash64_more(out->a, text, strlen(text));
    out->b = ls_hash64_more(out->b, text, strlen(text));
    return LS_OK;
}

static char *cache_path_of(ls_cuda_key key)
{
    char *folder = ls_cuda_cache_folder(),
         *path = folder ? ls_sys_text("%s/%016" PRIx64 "%016" PRIx64 ".cubin", folder, key.a, key.b) : NULL;
    free(folder);
    return path;
}

static void warn_once(const char *what, const char *path, const char *why)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&said))
        ls_log_warn("%s %s: %s", what, path, why);
}

static bool whole(const char *file, size_t size, head *h)
{
    if (size < sizeof *h)
        return false;
    memcpy(h, file, sizeof *h);
    return !memcmp(h->magic, MAGIC, sizeof MAGIC) && h->bytes == size - sizeof *h &&
           h->hash == ls_hash64(file + sizeof *h, h->bytes);
}

bool ls_cuda_cache_find(ls_cuda_code *out, ls_cuda_key key)
{
    char *path = cache_path_of(key), *file = NULL;
    size_t size = 0;
    head h;
    *out = (ls_cuda_code){ 0 };
    if (ls_file_exists(path) && ls_file_read(&file, &size, path) == LS_OK) {
        if (!whole(file, size, &h))
            warn_once("the compiled kernel", path, "the file is damaged; compiling again");
        else if ((out->cubin = ls_sys_malloc(h.bytes)))
            memcpy(out->cubin, file + sizeof h, out->bytes = h.bytes);
    }
    free(file);
    free(path);
    return out->cubin != NULL;
}

void ls_cuda_cache_keep(const ls_cuda_code *code, ls_cuda_key key)
{
    ls_writer w;
    head h = { .bytes = code->bytes, .hash = ls_hash64(code->cubin, code->bytes) };
    memcpy(h.magic, MAGIC, sizeof MAGIC);
    char *path = cache_path_of(key);
    if (ls_cache_is_frozen()) {
        free(path);
        return;
    }
    ls_status s = ls_make_parent(path);
    if (s == LS_OK && (s = ls_writer_open(&w, path)) == LS_OK) {
        if ((s = ls_writer_put(&w, &h, sizeof h)) == LS_OK)
            s = ls_writer_put(&w, code->cubin, code->bytes);
        if (s == LS_OK)
            s = ls_writer_commit(&w);
        else
            ls_writer_abort(&w);
    }
    if (s != LS_OK)
        warn_once("compiled kernels cannot be kept; each run compiles them again, which takes a minute",
                  path ? path : "", ls_error_message());
    free(path);
}

/* Closing the descriptor releases the lock; so does the end of the process. The wait goes on when the run is
 * asked to stop, as compiling itself does: it ends within a minute, and then the ranks stop together. */
int ls_cuda_cache_lock(void)
{
    char *folder = ls_cuda_cache_folder(), *path = folder ? ls_path_join(folder, "lock") : NULL;
    const bool may = path && !ls_cache_is_frozen() && ls_make_parent(path) == LS_OK;
    const int fd = may ? ls_sys_open(path, O_RDWR | O_CREAT) : -1;
    free(path);
    free(folder);
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        ls_log_info("waiting for another process, which compiles kernels");
        while (flock(fd, LOCK_EX) && errno == EINTR)
            ;
    }
    return fd;
}

void ls_cuda_cache_unlock(int lock)
{
    if (lock >= 0)
        close(lock);
}
