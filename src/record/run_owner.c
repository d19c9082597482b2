/* run_owner.c - see run_owner.h. */
#include "run_owner.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

void ls_run_read_owner(char text[256], int fd)
{
    const ssize_t n = pread(fd, text, 255, 0);
    text[n > 0 ? n : 0] = 0;
    text[strcspn(text, "\n")] = 0;
}

bool ls_run_is_held(const char *run_dir)
{
    char *path = ls_path_join(run_dir, "lock.txt");
    struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET }; /* the whole file */
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
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
    int process, fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    free(path);
    if (fd < 0)
        return false;
    ls_run_read_owner(owner, fd);
    close(fd);
    gethostname(host, sizeof host - 1);
    return sscanf(owner, "host %127[^,], process %d", theirs, &process) == 2 && !strcmp(theirs, host) &&
           (kill(process, 0) == 0 || errno == EPERM);
}
