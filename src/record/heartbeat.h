/* heartbeat.h - log/rank-N.heartbeat.json: what a rank last said about itself. Each rank writes its own file,
 * about once a second; `lockstep watch` reads them. */
#pragma once
#include "rundir.h"

typedef struct ls_heartbeat {
    int rank, ranks;
    int64_t attempt;
    int64_t step, steps; /* finished steps; those of the whole run, 0: not known */
    int64_t from;        /* of the finished ones, those of earlier attempts */
    double start;        /* seconds up to the first step of this attempt */
    double seconds;      /* from the first step of this attempt until now */
    double waited;       /* of these: seconds for which this rank waited for other ranks */
    int64_t memory;      /* bytes of anonymous memory, without windows that ranks share; 0: not known */
    int64_t planned;     /* bytes that the plan gives this rank; 0: not known */
    char doing[32];      /* "training", "evaluating" */
    char host[64];
    double age; /* seconds since it was written; only set by ls_heartbeat_read */
} ls_heartbeat;

/* Replaces the file with one write. Does nothing if the last write is less than a second ago, unless `now`.
 * rank, attempt, memory and host are those of this process. A failure is ignored: the file is for a person
 * who watches, and the next write tries again. Allocates nothing after the first call. Local. */
void ls_heartbeat_write(ls_rundir *d, const ls_heartbeat *h, bool now);

/* False: this rank has written none, or it was read while it was written. */
bool ls_heartbeat_read(ls_heartbeat *out, const char *run_dir, int rank);
