/* watch.c - what has become of a rank: from its seat, and from the kernel's records of its process. */
#include "internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* /proc/PID/stat: field 3 is the state, 22 the start time in ticks; field 2, the name in parentheses, may
 * contain anything. */
uint64_t ls_process_born(int pid, bool *stopped)
{
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0) /* gone, or its records cannot be read: no /proc here, or no descriptor left */
        return kill(pid, 0) == 0 || errno != ESRCH ? LS_BORN_UNKNOWN : 0;
    text[n] = 0;
    const char *rest = strrchr(text, ')');
    char state = 0;
    unsigned long long born = 0;
    if (!rest ||
        sscanf(rest + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &state, &born) != 2)
        return LS_BORN_UNKNOWN;
    if (stopped)
        *stopped = state == 'T' || state == 't';
    return state == 'Z' || state == 'X' ? 0 : born;
}

static bool has_ended(int process, uint64_t born)
{
    const uint64_t now = ls_process_born(process, NULL);
    return !now || (now != born && now != LS_BORN_UNKNOWN && born != LS_BORN_UNKNOWN);
}

const char *ls_seat_gone(ls_seat *s)
{
    int state = atomic_load(&s->state), process = atomic_load(&s->process);
    if (state == LS_SEAT_LEFT)
        return "has left the group";
    if (state == LS_SEAT_TAKEN && process && has_ended(process, atomic_load(&s->born)))
        return "its process is gone";
    return NULL;
}
