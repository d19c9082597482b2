/* memory.c - resident memory from /proc. */
#include "memory.h"

#include <stdio.h>

int64_t ls_anonymous_rss(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[128];
    long long kb = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "RssAnon: %lld", &kb) == 1)
            break;
    if (f)
        fclose(f);
    return kb * 1024;
}
