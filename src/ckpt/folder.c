/* folder.c - folders that are either complete or not there. */
#include "ckpt/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/oserror.h"
#include "base/sys.h"

ls_status ls_folder_init(ls_folder *f, const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    *f = (ls_folder){ .dir = ls_sys_strndup(path, n) };
    if (!f->dir)
        return ls_fail(LS_E_MEMORY, "%s: no memory for its name", path);
    const char *slash = strrchr(f->dir, '/');
    f->parent = !slash            ? ls_sys_strdup(".")
                : slash == f->dir ? ls_sys_strdup("/")
                                  : ls_sys_strndup(f->dir, (size_t)(slash - f->dir));
    f->name = ls_sys_strdup(slash ? slash + 1 : f->dir);
    char *hidden = f->name ? ls_sys_text(LS_UNFINISHED "%s", f->name) : NULL;
    f->unfinished = ls_path_join(f->parent, hidden);
    free(hidden);
    return f->unfinished ? LS_OK : ls_fail(LS_E_MEMORY, "%s: no memory for its name", path);
}

void ls_folder_release(ls_folder *f)
{
    if (f->begun)
        ls_remove_tree(f->unfinished);
    free(f->dir);
    free(f->parent);
    free(f->name);
    free(f->unfinished);
    *f = (ls_folder){ 0 };
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
    (void)st, (void)kind, (void)where;
    return ls_sys_remove(path);
}

void ls_remove_tree(const char *path) { nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }

ls_status ls_sync_folder(const char *path)
{
    int fd = ls_sys_open(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return ls_fail_os(path, "open", errno);
    /* some file systems cannot sync folders, and do not need it */
    int error = ls_sys_fsync(fd) != 0 && errno != EINVAL ? errno : 0;
    close(fd);
    return error ? ls_fail_os(path, "sync", error) : LS_OK;
}

ls_status ls_folder_begin(ls_folder *f)
{
    struct stat st;
    ls_folder_settle(f->parent, f->name);
    if (lstat(f->dir, &st) == 0 && !(f->replace && S_ISDIR(st.st_mode)))
        return ls_fail(
            LS_E_IO,
            "%s: already there; a checkpoint is never overwritten: remove it, or save under another name",
            f->dir);
    LS_TRY(ls_make_dirs(f->parent));
    ls_remove_tree(f->unfinished);
    if (ls_sys_mkdir(f->unfinished) != 0)
        return ls_fail_os(f->unfinished, "create folder", errno);
    f->begun = true;
    return LS_OK;
}

static char *replaced(const char *parent, const char *name)
{
    char *hidden = ls_sys_text(LS_REPLACED "%s", name), *path = hidden ? ls_path_join(parent, hidden) : NULL;
    free(hidden);
    return path;
}

void ls_folder_settle(const char *parent, const char *name)
{
    char *dir = ls_path_join(parent, name), *old = replaced(parent, name);
    if (dir && old && ls_dir_exists(old)) {
        if (ls_dir_exists(dir))
            ls_remove_tree(old);
        else
            ls_sys_rename(old, dir);
    }
    free(old);
    free(dir);
}

/* On a file system that cannot exchange names the old folder makes way under another name. */
static int replace_folder(const ls_folder *f)
{
    char *old = replaced(f->parent, f->name);
    if (!old) {
        errno = ENOMEM;
        return -1;
    }
    int result = ls_sys_rename(f->dir, old);
    if (result == 0 && (result = ls_sys_rename(f->unfinished, f->dir)) != 0) {
        const int why = errno;
        ls_sys_rename(old, f->dir);
        errno = why;
    }
    if (result == 0)
        ls_remove_tree(old);
    free(old);
    return result;
}

/* Exchanges the names of the old and the new folder, so that the name always leads to one of them. */
static int rename_folder(const ls_folder *f)
{
    if (!f->replace || !ls_dir_exists(f->dir))
        return ls_sys_rename(f->unfinished, f->dir);
    const int exchanged = ls_sys_exchange(f->unfinished, f->dir);
    if (exchanged == 0) {
        ls_remove_tree(f->unfinished);
        return 0;
    }
    return errno == EINVAL || errno == ENOSYS ? replace_folder(f) : exchanged;
}

ls_status ls_folder_commit(ls_folder *f)
{
    LS_TRY(ls_sync_folder(f->unfinished));
    if (rename_folder(f) != 0)
        return ls_fail_os(f->dir, "create", errno);
    f->begun = false;
    return ls_sync_folder(f->parent);
}
