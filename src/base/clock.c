/* clock.c - time.
 *
 * When did this process begin? The kernel tells in clock ticks (10 ms), which is coarse beside a start-up
 * budget of 50 ms. So a constructor notes the monotonic time at load and the processor time already spent (by
 * the kernel's exec and the dynamic loader); their sum is precise unless the load waited for a disk, and the
 * tick is a bound on both sides: the result is the precise estimate, moved into the interval that the tick
 * allows. The tick counts from fork, though: a process that lived on as something else before exec (a shell's
 * `exec`, `env`, `nice`) is much older than its load. More than a second between the two means that, and then
 * the load counts. */
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

/* Field 22 of /proc/self/stat, in seconds since boot; negative if it cannot be read. The name (field 2) may
 * contain anything. */
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
