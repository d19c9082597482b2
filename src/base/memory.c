/* memory.c - resident memory from /proc, without allocating. */
#include "memory.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int64_t ls_anonymous_rss(void)
{
    static const char NAME[] = "\nRssAnon:";
    char text[4096]; /* the line is in the first 1.5 KiB */
    const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *line = strstr(text, NAME);
    long long kb = 0;
    return line && sscanf(line + sizeof NAME - 1, "%lld", &kb) == 1 ? kb * 1024 : 0;
}

double ls_processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double ls_host_load(void)
{
    double load;
    return getloadavg(&load, 1) == 1 ? load : NAN;
}
