/* process.c - reads the kernel's record of a process: /proc/PID/stat. */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Field 3 of /proc/PID/stat is the state, field 22 the start time in ticks. Field 2, the name in parentheses,
 * may contain anything, so the fields are counted from the last parenthesis. */
uint64_t ls_process_start_time(int pid, bool *stopped)
{
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0) /* the process is gone, or /proc is not mounted, or this process has no descriptor left */
        return kill(pid, 0) == 0 || errno != ESRCH ? LS_START_UNKNOWN : 0;
    text[n] = 0;
    const char *rest = strrchr(text, ')');
    char state = 0;
    unsigned long long start = 0;
    if (!rest ||
        sscanf(rest + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &state, &start) != 2)
        return LS_START_UNKNOWN;
    if (stopped)
        *stopped = state == 'T' || state == 't';
    return state == 'Z' || state == 'X' ? 0 : start;
}
