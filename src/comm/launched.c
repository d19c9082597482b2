/* launched.c - reads the environment that launch/launch.c gives its ranks. */
#include "launched.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "base/c_locale.h"
#include "base/clock.h"

/* The variables alone do not prove that ls_launch started this process: the descriptor must be a control
 * block (shm.c), an open file without a name. environment.c reports what is wrong with the variables. */
static bool has_block(const char *name)
{
    const char *fd = getenv(name);
    struct stat st;
    return fd && *fd && fstat(atoi(fd), &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink == 0;
}

static int find_rank(void)
{
    const char *rank = getenv("LOCKSTEP_RANK"), *ranks = getenv("LOCKSTEP_RANKS");
    return rank && ranks && has_block("LOCKSTEP_CONTROL_FD") ? atoi(rank) : -1;
}

int ls_launch_rank(void)
{
    enum { UNKNOWN = -2 };
    static _Atomic int rank = UNKNOWN; /* kept, because the group closes the file */
    if (rank == UNKNOWN)
        rank = find_rank();
    return rank;
}

bool ls_launch_watched(void)
{
    enum { UNKNOWN = -2 };
    static _Atomic int reports = UNKNOWN; /* kept, like the rank */
    if (reports == UNKNOWN)
        reports = has_block(LS_LAUNCH_REPORT);
    return reports || ls_launch_rank() >= 0;
}

int ls_launch_restart(void)
{
    const char *restart = getenv(LS_LAUNCH_RESTART);
    return restart && ls_launch_watched() ? atoi(restart) : 0;
}

double ls_launch_lead(void)
{
    const char *started = getenv(LS_LAUNCH_STARTED);
    double lead = started ? ls_now() - ls_since_exec() - ls_strtod(started, NULL) : 0;
    return lead > 0 ? lead : 0;
}

double ls_launch_stall(void)
{
    const char *seconds = getenv(LS_LAUNCH_STALL);
    return seconds && ls_strtod(seconds, NULL) > 0 ? ls_strtod(seconds, NULL) : 0;
}

double ls_launch_age(void)
{
    const char *began = getenv(LS_LAUNCH_COMMAND);
    return began && ls_launch_watched() ? ls_now() - ls_strtod(began, NULL) : ls_since_exec();
}
