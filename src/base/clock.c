/* clock.c - the monotonic clock, and when this process began.
 *
 * The kernel gives the start of a process in clock ticks of 10 ms, which is too coarse for a start-up budget
 * of 50 ms. So a constructor notes two times when the program is loaded: the monotonic clock, and the
 * processor time spent so far (by the kernel's exec and the dynamic loader). The first minus the second is a
 * precise estimate of the start, except when loading waited for a disk. The tick bounds the start from both
 * sides, so the estimate is clamped to its interval.
 *
 * The tick is the time of fork. A process that ran another program before exec (`exec` of a shell, `env`,
 * `nice`) began much earlier than this program was loaded. If the two differ by more than a second, only the
 * estimate counts. */
#include "clock.h"
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double loaded_at, spent_before;

__attribute__((constructor)) static void note_load(void)
{
    loaded_at = seconds(CLOCK_MONOTONIC);
    spent_before = seconds(CLOCK_PROCESS_CPUTIME_ID);
}

double ls_now(void) { return seconds(CLOCK_MONOTONIC); }

/* Field 22 of /proc/self/stat (starttime), in seconds since boot; negative if it cannot be read. Field 2, the
 * program's name, may contain any characters. */
static double start_tick(void)
{
    char text[1024];
    FILE *f = fopen("/proc/self/stat", "re");
    if (!f)
        return -1;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    const char *rest = strrchr(text, ')');
    unsigned long long ticks;
    if (!rest ||
        sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &ticks) != 1)
        return -1;
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

double ls_since_exec(void)
{
    double precise = ls_now() - loaded_at, tick = start_tick();
    if (tick < 0)
        return precise + spent_before;
    double most = seconds(CLOCK_BOOTTIME) - tick, least = most - 1.0 / (double)sysconf(_SC_CLK_TCK);
    if (least > precise + 1.0)
        return precise;
    precise += spent_before;
    return precise < least ? least : precise > most ? most : precise;
}
