/* run_lock.c - lock.txt of a run directory. The lock belongs to the open file (F_OFD_SETLK), so the kernel
 * gives it back however its owner ends, and others can see it without taking it, as they cannot with flock: a
 * look must not stand in the way of an owner. */
#include "run_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/oserror.h"
#include "base/sys.h"
#include "comm/launched.h"
#include "rundir.h"

enum { SIGN_OF_LIFE = 30 }; /* seconds: a run that trains writes result.json every ten */

static struct flock whole_file(short type) { return (struct flock){ .l_type = type, .l_whence = SEEK_SET }; }

/* "host NAME, process N": the first line. */
static void read_owner(char text[256], int fd)
{
    const ssize_t n = pread(fd, text, 255, 0);
    text[n > 0 ? n : 0] = 0;
    text[strcspn(text, "\n")] = 0;
}

static ls_status write_owner(int fd, const char *path, const char *host)
{
    char text[256];
    int n = snprintf(text, sizeof text, "host %s, process %ld", host, (long)getpid());
    if (ls_launch_rank() >= 0)
        n += snprintf(text + n, sizeof text - (size_t)n, ", started by process %ld", (long)getppid());
    text[n++] = '\n';
    errno = ENOSPC; /* that of a short write */
    return ls_sys_ftruncate(fd, 0) || ls_sys_pwrite(fd, text, (size_t)n, 0) != n
               ? ls_fail_os(path, "write", errno)
               : LS_OK;
}

/* The lock is mine as far as this host can see. A process of another host, of which the run still speaks, may
 * hold it too; one of this host is gone. */
static ls_status doubt(const char *owner, const char *run_dir, const char *host)
{
    char theirs[128] = "";
    ls_run_info info;
    if (sscanf(owner, "host %127[^,]", theirs) != 1 || !strcmp(theirs, host) ||
        ls_run_info_read(&info, run_dir) != LS_OK || !ls_run_state_lives(info.state))
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
    struct flock lock = whole_file(F_WRLCK);
    ls_status s = LS_OK;
    *fd = ls_sys_open(path, O_RDWR | O_CREAT);
    if (*fd < 0) {
        s = ls_fail_os(path, "open", errno);
    } else if (fcntl(*fd, F_OFD_SETLK, &lock)) {
        const int error = errno;
        read_owner(owner, *fd);
        s = error == EAGAIN || error == EACCES
                ? ls_fail(LS_E_USAGE,
                          "run %s is being trained by another process (%s); wait for it, or set run.name",
                          run_dir, owner)
                : ls_fail_os(path, "lock", error);
    } else {
        read_owner(owner, *fd);
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

bool ls_run_is_held(const char *run_dir)
{
    char *path = ls_path_join(run_dir, "lock.txt");
    struct flock lock = whole_file(F_RDLCK);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    free(path);
    if (fd < 0)
        return false;
    bool held = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    close(fd);
    return held;
}

bool ls_run_owner_lives(const char *run_dir)
{
    char *path = ls_path_join(run_dir, "lock.txt"), owner[256], theirs[128], host[128] = "?";
    int process, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    free(path);
    if (fd < 0)
        return false;
    read_owner(owner, fd);
    close(fd);
    gethostname(host, sizeof host - 1);
    return sscanf(owner, "host %127[^,], process %d", theirs, &process) == 2 && !strcmp(theirs, host) &&
           (kill(process, 0) == 0 || errno == EPERM);
}
