/* run_lock.c - takes the lock of a run directory, on lock.txt. The lock (F_OFD_SETLK) belongs to the open
 * file, so the kernel releases it when the process ends. Unlike flock, other processes can see it without
 * taking it (run_owner.c). */
#include "run_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/oserror.h"
#include "base/sys.h"
#include "comm/launched.h"
#include "run_owner.h"
#include "rundir.h"

enum { SIGN_OF_LIFE = 30 }; /* seconds: a run that trains writes result.json every ten */

static ls_status write_owner(int fd, const char *path, const char *host)
{
    char text[256];
    int n = snprintf(text, sizeof text, "host %s, process %ld", host, (long)getpid());
    if (ls_launch_rank() >= 0)
        n += snprintf(text + n, sizeof text - (size_t)n, ", started by process %ld", (long)getppid());
    text[n++] = '\n';
    errno = ENOSPC; /* the usual cause of a short write */
    return ls_sys_ftruncate(fd, 0) || ls_sys_pwrite(fd, text, (size_t)n, 0) != n
               ? ls_fail_os(path, "write", errno)
               : LS_OK;
}

/* This process has the lock as far as this host can see. If lock.txt names a process of another host, that
 * one may have it, too. A process of this host that it names has ended. */
static ls_status doubt(const char *owner, const char *run_dir, const char *host)
{
    char theirs[128] = "";
    ls_run_info info;
    if (sscanf(owner, "host %127[^,]", theirs) != 1 || !strcmp(theirs, host) ||
        ls_run_info_read(&info, run_dir) != LS_OK)
        return LS_OK;
    ls_run_info_release(&info);
    if (!ls_run_state_lives(info.state))
        return LS_OK;
    if (info.seconds_ago < SIGN_OF_LIFE)
        return ls_fail(LS_E_USAGE,
                       "%s belongs to %s, which wrote there %.0f s ago, and from host %s nobody can see "
                       "whether it still does; wait until it has "
                       "written nothing for %d s, or, if it has ended, remove %s/lock.txt",
                       run_dir, owner, info.seconds_ago, host, SIGN_OF_LIFE, run_dir);
    ls_log_warn("%s was left by %s, which did not end well and has written nothing for %.0f s: taken over; "
                "if it still trains there, end it",
                run_dir, owner, info.seconds_ago);
    return LS_OK;
}

ls_status ls_run_lock(int *fd, const char *run_dir)
{
    char *path = ls_path_join(run_dir, "lock.txt"), owner[256], host[128] = "?";
    gethostname(host, sizeof host - 1);
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET }; /* the whole file */
    ls_status s = LS_OK;
    *fd = ls_sys_open(path, O_RDWR | O_CREAT);
    if (*fd < 0) {
        s = ls_fail_os(path, "open", errno);
    } else if (fcntl(*fd, F_OFD_SETLK, &lock)) {
        const int error = errno;
        ls_run_read_owner(owner, *fd);
        s = error == EAGAIN || error == EACCES
                ? ls_fail(LS_E_USAGE,
                          "run %s is being trained by another process (%s); wait for it, or set run.name",
                          run_dir, owner)
                : ls_fail_os(path, "lock", error);
    } else {
        ls_run_read_owner(owner, *fd);
        LS_TRY_TO(s, doubt(owner, run_dir, host), done);
        LS_TRY_TO(s, write_owner(*fd, path, host), done);
    }
done:
    if (s != LS_OK && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    free(path);
    return s;
}
