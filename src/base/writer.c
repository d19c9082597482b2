/* writer.c - replacing a file atomically.
 *
 * The new content goes to PATH.tmp-PID-CHANCE, which is renamed to PATH once it is on disk. So a reader sees
 * the old file or the new one, also after a crash at any moment. (ls_file_write_soon renames it at once.)
 * CHANCE is random, because threads, containers and machines that share a folder may have the same PID. A
 * pipe, a device (/dev/stdout) or a file without a name (a memory file) cannot be replaced and is written
 * directly; then `tmp` is NULL. */
#include "file.h"
#include "check.h"
#include "oserror.h"
#include "sys.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_SIZE = 1 << 18 };

/* Writes all n bytes, in as many calls as the kernel needs. Returns 0 or an errno; in both cases *written
 * receives how many bytes were written. */
static int write_all(int fd, const uint8_t *p, size_t n, size_t *written)
{
    for (*written = 0; *written < n;) {
        ssize_t done = ls_sys_write(fd, p + *written, n - *written);
        if (done > 0)
            *written += (size_t)done;
        else if (done == 0)
            return EIO; /* POSIX allows this for a count > 0 on unusual devices only: do not retry for ever */
        else if (errno != EINTR)
            return errno;
    }
    return 0;
}

static void writer_release(ls_writer *w)
{
    if (w->fd >= 0)
        close(w->fd);
    free(w->path);
    free(w->tmp);
    free(w->buffer);
    *w = (ls_writer){ .fd = -1 };
}

ls_status ls_writer_open(ls_writer *w, const char *path)
{
    *w = (ls_writer){ .fd = -1, .path = ls_sys_strdup(path), .buffer = ls_sys_malloc(BUFFER_SIZE) };
    if (!w->path || !w->buffer) {
        writer_release(w);
        return ls_fail_os(path, "write", ENOMEM);
    }
    struct stat st;
    bool there = stat(path, &st) == 0;
    int error = there && S_ISDIR(st.st_mode) ? EISDIR : 0;
    if (!error && there && (!S_ISREG(st.st_mode) || st.st_nlink == 0))
        w->fd = ls_sys_open(path, O_WRONLY);
    else if (!error) {
        uint32_t chance = 0;
        /* if the random number fails, a collision does too: the file must be new (O_EXCL) */
        (void)!getrandom(&chance, sizeof chance, GRND_NONBLOCK);
        w->tmp = ls_sys_text("%s.tmp-%ld-%08x", path, (long)getpid(), chance);
        w->fd = ls_sys_open(w->tmp, O_WRONLY | O_CREAT | O_EXCL);
        if (w->fd >= 0 && there)
            (void)!fchmod(w->fd,
                          st.st_mode &
                              07777); /* keeps the permissions of the old file if the file system allows it */
    }
    if (!error && w->fd < 0)
        error = errno;
    if (!error)
        return LS_OK;
    ls_status s = ls_fail_os(path, "write", error);
    writer_release(w);
    return s;
}

static ls_status put_out(ls_writer *w, const uint8_t *p, size_t n)
{
    size_t written;
    int error = write_all(w->fd, p, n, &written);
    return error ? ls_fail_os(w->path, "write", error) : LS_OK;
}

ls_status ls_writer_put(ls_writer *w, const void *data, size_t n)
{
    LS_CHECK(w->fd >= 0, "the writer is not open");
    w->offset += n;
    if (n <= BUFFER_SIZE - w->used) {
        if (n)
            memcpy(w->buffer + w->used, data, n);
        w->used += n;
        return LS_OK;
    }
    LS_TRY(put_out(w, w->buffer, w->used));
    w->used = 0;
    if (n >= BUFFER_SIZE)
        return put_out(w, data, n);
    memcpy(w->buffer, data, n);
    w->used = n;
    return LS_OK;
}

/* The rename is on disk once the folder is. Some file systems cannot sync folders (EINVAL) and do not need
 * it. */
static int sync_folder(const char *path)
{
    char *copy = ls_sys_strdup(path);
    if (!copy)
        return ENOMEM;
    int fd = ls_sys_open(dirname(copy), O_RDONLY | O_DIRECTORY);
    free(copy);
    if (fd < 0)
        return errno == EACCES ? 0 : errno; /* the folder may be writable but not readable */
    int error = ls_sys_fsync(fd) != 0 && errno != EINVAL ? errno : 0;
    close(fd);
    return error;
}

ls_status ls_writer_commit(ls_writer *w)
{
    LS_CHECK(w->fd >= 0, "the writer is not open");
    ls_status s = put_out(w, w->buffer, w->used);
    int error = 0;
    if (s == LS_OK && !w->soon && ls_sys_fsync(w->fd) != 0 &&
        (w->tmp || (errno != EINVAL && errno != EROFS && errno != ENOTSUP)))
        error = errno;
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0 && !error && errno != EINTR) /* NFS reports a full disk here */
        error = errno;
    if (s == LS_OK && !error && w->tmp) {
        if (ls_sys_rename(w->tmp, w->path) == 0) {
            free(w->tmp);
            w->tmp = NULL;
            error = w->soon ? 0 : sync_folder(w->path);
        } else
            error = errno;
    }
    if (s == LS_OK && error)
        s = ls_fail_os(w->path, "write", error);
    if (w->tmp)
        ls_sys_remove(w->tmp);
    writer_release(w);
    return s;
}

void ls_writer_abort(ls_writer *w)
{
    if (w->fd >= 0 && w->tmp)
        ls_sys_remove(w->tmp);
    if (w->fd >= 0)
        writer_release(w);
}

static ls_status write_file(const char *path, const void *data, size_t n, bool soon)
{
    ls_writer w;
    LS_TRY(ls_writer_open(&w, path));
    w.soon = soon;
    ls_status s = ls_writer_put(&w, data, n);
    if (s != LS_OK) {
        ls_writer_abort(&w);
        return s;
    }
    return ls_writer_commit(&w);
}

ls_status ls_file_write(const char *path, const void *data, size_t n)
{
    return write_file(path, data, n, false);
}

ls_status ls_file_write_text(const char *path, const ls_str *text)
{
    LS_TRY(ls_str_status(text));
    return write_file(path, ls_str_text(text), text->len, false);
}

ls_status ls_file_write_soon(const char *path, const ls_str *text)
{
    LS_TRY(ls_str_status(text));
    return write_file(path, ls_str_text(text), text->len, true);
}

void ls_remove_temporaries(const char *dir)
{
    DIR *d = dir ? opendir(dir) : NULL;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        const char *mark = strstr(e->d_name, ".tmp-");
        int pid, used = 0;
        if (!mark || sscanf(mark, ".tmp-%d-%*8[0-9a-f]%n", &pid, &used) != 1 || !used || mark[used] ||
            pid < 1 || (pid != getpid() && (kill(pid, 0) == 0 || errno != ESRCH)))
            continue;
        char *path = ls_path_join(dir, e->d_name);
        ls_sys_remove(path);
        free(path);
    }
    if (d)
        closedir(d);
}
