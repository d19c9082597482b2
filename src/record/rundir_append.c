/* rundir_append.c - appends a line to a file of the run with one write. If the disk is full and the write is
 * short, it is undone. */
#include <errno.h>
#include <unistd.h>
#include "base/oserror.h"
#include "base/sys.h"
#include "rundir_own.h"

ls_status ls_rundir_append(const ls_rundir *d, int fd, const char *name, const char *text, size_t n)
{
    if (d->rank)
        return LS_OK;
    off_t before = lseek(fd, 0, SEEK_END);
    ssize_t written;
    do
        written = ls_sys_write(fd, text, n);
    while (written < 0 && errno == EINTR);
    if (written == (ssize_t)n)
        return LS_OK;
    int error = written < 0 ? errno : ENOSPC;
    if (written > 0 && before >= 0 && ls_sys_ftruncate(fd, before))
        error = errno;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", d->path, name);
    return ls_fail_os(path, "append to", error);
}
