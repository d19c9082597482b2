/* launched.c - the environment that train/launch.c gives its ranks. */
#include "launched.h"

#include <stdlib.h>

#include "base/clock.h"

int ls_launch_rank(void)
{
    const char *rank = getenv("LOCKSTEP_RANK");
    return rank ? atoi(rank) : -1;
}

int ls_launch_restart(void)
{
    const char *restart = getenv(LS_LAUNCH_RESTART);
    return restart && ls_launch_rank() >= 0 ? atoi(restart) : 0;
}

double ls_launch_lead(void)
{
    const char *started = getenv(LS_LAUNCH_STARTED);
    double lead = started ? ls_now() - ls_since_exec() - atof(started) : 0;
    return lead > 0 ? lead : 0;
}

double ls_launch_age(void)
{
    const char *began = getenv(LS_LAUNCH_COMMAND);
    return began && ls_launch_rank() >= 0 ? ls_now() - atof(began) : ls_since_exec();
}
