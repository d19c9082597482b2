/* group.h - the private calls of a process group: what a rank is doing, which rank is late, and which rank
 * reports a failure. lockstep/group.h has the public ones. */
#pragma once
#include "lockstep/group.h"

/* What this rank is doing now, for messages of other ranks ("step 12, micro, linear_dw of
 * encoder.layers.encoder_layer_3.mlp.0"). Cheap: it copies at most 120 bytes. Local. */
void ls_group_doing(ls_group *g, const char *what);
/* The memory that this rank's plans need, for a message about why it ended. Local. */
void ls_group_planned(ls_group *g, uint64_t bytes);

/* The run directory that the ranks have open, for the process that started them, which records restarts
 * there: an absolute path; "": none. Rank 0 says it. Local. */
void ls_group_names_run(ls_group *g, const char *path);

/* Collectives that devices run by themselves (device/link.h) wait for other ranks where no code of this
 * folder sees it. So a rank records which programs it begins, and one of its threads checks the group
 * meanwhile. */
void ls_group_began(ls_group *g, const char *program); /* cheap; local */
/* Checks the group. LS_OK: as far as this rank knows, all ranks come. `waited`: seconds that this rank has
 * waited for its device so far. LS_E_PEER: the group has failed; or, after a second, a rank of this host has
 * ended before it began a program that this one waits for; or the deadline has passed. The message then
 * names a rank of this host that has begun fewer programs than this one or is stopped, if there is one.
 * Local. */
ls_status ls_group_look(ls_group *g, double waited);

/* A late rank is one that others wait for. It is reported when the wait has lasted 5 s (LOCKSTEP_NOTICE),
 * again each time the wait has doubled, and when it comes. A rank may simply be slow: after a wait that ended
 * well, only waits that last half as long again are reported, but for a rank that is stopped or whose host
 * does not answer. */
typedef struct ls_lag {
    int rank;          /* the late rank, as far as this machine can know */
    double seconds;    /* the wait so far */
    bool over;         /* the rank has come; `what` and `doing` are NULL then */
    const char *what;  /* what waits: "reduce_scatter of unit root" */
    const char *doing; /* "it last did: step 12, micro; it is stopped (state T)" */
} ls_lag;
typedef void (*ls_lag_fn)(void *context, const ls_group *g, const ls_lag *lag);
/* Calls `on_lag` in a thread of the rank that waits. Set it before the group is used. Local. */
void ls_group_on_lag(ls_group *g, ls_lag_fn on_lag, void *context);

/* The rank that reports the group's failure to the user: the failed rank if it could say so, else the rank
 * that first missed it. 0: the group has not failed. -1: that rank is on another machine. Local. */
int ls_group_reporter(const ls_group *g);
/* Waits until `rank` has left the group or ended, for at most so many seconds; true: it has. When the rank is
 * on another machine, it waits for all of them, and returns false. Local. */
bool ls_group_await_end(const ls_group *g, int rank, double seconds);
