/* remote_sparse.c - see remote_sparse.h. */
#include "record/remote_sparse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/oserror.h"
#include "base/sys.h"

/* Writes to a file that other ranks of this host may be reading: the same bytes, if at all. */
static ls_status write_part(const char *path, const char *data, uint64_t n, uint64_t from)
{
    const int fd = ls_sys_open(path, O_WRONLY);
    ls_status s = fd < 0 ? ls_fail_os(path, "open", errno) : LS_OK;
    for (uint64_t at = 0; s == LS_OK && at < n;) {
        const ssize_t k = ls_sys_pwrite(fd, data + at, n - at, (off_t)(from + at));
        if (k < 0 && errno != EINTR)
            s = ls_fail_os(path, "write", errno);
        at += k > 0 ? (uint64_t)k : 0;
    }
    if (fd >= 0)
        close(fd);
    return s;
}

static ls_status get_part(char **data, const ls_sparse *x, const char *file, uint64_t from, uint64_t n)
{
    ls_remote *r = x->context;
    ls_str key = { 0 };
    bool said = false;
    const double began = ls_now();
    ls_remote_add_key(&key, x->name, file);
    ls_status s = ls_str_status(&key);
    if (s == LS_OK)
        do
            s = ls_s3_get_part(data, r->s3, ls_str_text(&key), from, (size_t)n);
        while (ls_remote_again(r, s, began, &said));
    ls_str_release(&key);
    return s;
}

static ls_status bring(const ls_sparse *x, const char *file, uint64_t from, uint64_t n)
{
    char *path = ls_path_join(x->dir, file), *data = NULL;
    ls_status s = path ? get_part(&data, x, file, from, n) : ls_sys_have(path);
    if (s == LS_OK)
        s = write_part(path, data, n, from);
    free(data);
    free(path);
    return s;
}

static ls_status describe(ls_sparse *out, ls_remote *r, const char *name)
{
    char *folder = ls_path_join(r->folder, LS_REMOTE_CHECKPOINTS),
         *dir = folder ? ls_checkpoint_unfinished(folder, name) : NULL;
    *out = (ls_sparse){ .bring = bring, .context = r };
    snprintf(out->dir, sizeof out->dir, "%s", dir ? dir : "");
    snprintf(out->name, sizeof out->name, "%s", name);
    const ls_status s = ls_sys_have(dir);
    free(dir);
    free(folder);
    return s;
}

ls_status ls_remote_open_sparse(ls_sparse *out, ls_remote *r, const char *name)
{
    LS_TRY(describe(out, r, name));
    if (!ls_checkpoint_is(out->dir))
        out->dir[0] = 0;
    return LS_OK;
}

ls_status ls_remote_drop_sparse(const ls_remote *r)
{
    char *folder = ls_path_join(r->folder, LS_REMOTE_CHECKPOINTS);
    LS_TRY(ls_sys_have(folder));
    ls_checkpoint_clean(folder);
    free(folder);
    return LS_OK;
}

/* A file with its size, of which only the header of safetensors is there: its length in 8 bytes, then the
 * text.
 */
static ls_status make_file(const ls_sparse *x, const char *file, uint64_t bytes)
{
    char *path = ls_path_join(x->dir, file), *data = NULL;
    uint64_t head = 0;
    const int fd = path ? ls_sys_open(path, O_WRONLY | O_CREAT | O_EXCL) : -1;
    ls_status s = fd >= 0 ? LS_OK : path ? ls_fail_os(path, "create", errno) : ls_sys_have(path);
    if (s == LS_OK && ls_sys_ftruncate(fd, (off_t)bytes) != 0)
        s = ls_fail_os(path, "enlarge", errno);
    if (fd >= 0)
        close(fd);
    if (s == LS_OK && bytes >= sizeof head) /* (else it is damaged, and the manifest tells) */
        s = get_part(&data, x, file, 0, sizeof head);
    if (s == LS_OK && data) {
        memcpy(&head, data, sizeof head);
        s = bring(x, file, 0, head < bytes - sizeof head ? head + sizeof head : bytes);
    }
    free(data);
    free(path);
    return s;
}

/* Samples of a queue are read in other ways, and are few. */
static bool is_sparse(const char *file)
{
    return ls_ends_with(file, ".safetensors") && strncmp(file, "live", 4);
}

static ls_status make_files(const ls_sparse *x, const ls_s3_list *l)
{
    ls_remote *r = x->context;
    ls_status s = LS_OK;
    for (size_t i = 0; s == LS_OK && i < l->n; i++) {
        const char *file = strrchr(l->at[i].key, '/') + 1;
        char *path = ls_path_join(x->dir, file);
        s = ls_sys_have(path);
        if (s == LS_OK)
            s = is_sparse(file) ? make_file(x, file, (uint64_t)l->at[i].bytes)
                                : ls_s3_get_file(r->s3, &l->at[i], path);
        free(path);
    }
    return s;
}

ls_status ls_remote_make_sparse(ls_remote *r, const ls_s3_list *l, const char *name)
{
    ls_sparse x;
    LS_TRY(describe(&x, r, name));
    LS_TRY(ls_make_dirs(x.dir));
    LS_TRY(make_files(&x, l));
    return ls_remote_check(r, x.dir, name);
}
