/* launch_own.h - an attempt of several ranks. Private to the files of this folder. */
#pragma once
#include <sys/types.h>
#include "base/affinity.h"
#include "comm/shm.h"
#include "launch.h"
#include "oom.h"

typedef struct child {
    pid_t pid; /* on this host; 0: on another */
    bool said_hello, ended;
    bool killed; /* by this process, so its status does not tell the cause */
    int status;
    bool out_of_memory; /* the kernel killed it for lack of memory */
    uint64_t limit;     /* then the memory limit in bytes; 0: none */
    /* halted.c: times; 0: not yet, it is not stopped, nobody was told */
    double looked_at, halted_at, told_at;
    double heard_at;  /* the time of its last message; 0: none yet */
    bool told_silent; /* silent_hosts.c, of a host's first rank: the user was told that the host is silent */
} child;

struct launch;

/* Functions for ranks on this host (local_ranks.c) or on several hosts (job.c). */
typedef struct ls_ranks_place {
    ls_status (*start)(struct launch *l);
    void (*look)(struct launch *l); /* waits for a tick at most, and notes which ranks have ended */
    void (*stop)(struct launch *l); /* this and the next pass a request on */
    void (*save)(struct launch *l);
    void (*kill)(struct launch *l);
    void (*release)(struct launch *l);
} ls_ranks_place;
extern const ls_ranks_place LS_RANKS_HERE, LS_RANKS_ON_HOSTS;

/* A rank that mpirun or srun started (supervise.c). */
typedef struct ls_supervised {
    int rank, local, each; /* each: ranks of this host */
    double age;            /* seconds that the user's command was running when this process began */
} ls_supervised;

typedef struct launch {
    const ls_launch_opts *o;
    const ls_ranks_place *place;
    const ls_supervised *supervised; /* NULL: this process is the parent of all ranks */
    struct ls_hosts_job *job;        /* job.c */
    int control;
    ls_shm_watch *watch;
    ls_oom oom;
    child *children;
    int started, alive;
    ls_cpu_set *cpus;     /* of each rank; NULL: not bound */
    double began;         /* when the command began, or this restart */
    double started_at;    /* when the ranks were started */
    double first_heard;   /* on several hosts: the time of the first message of any rank; 0: none yet */
    double look_again_at; /* silent_hosts.c: there is nothing to see before */
    sigset_t mask_before;
    double failed_at; /* 0: no rank has failed */
    int failed_rank;
    bool host_unknown; /* ranks of all hosts ended at once: failed_rank does not say where it began */
    ls_missed missed;  /* how the others noticed that it was missing */
    bool stop_passed_on, killed, told_that_nobody_joined, told_starter;
    sig_atomic_t saves_passed_on;
    ls_status code;  /* of the failure */
    char text[4400]; /* its message */
} launch;

/* start.c */
ls_status ls_launch_divide_cores(launch *l);
ls_status ls_launch_start(launch *l, int rank);
/* Whether the process has a handler for the signal. */
bool ls_launch_handles(pid_t process, int number);

/* failure.c */
/* Notes the failure of a rank. From now on the other ranks are ended; the first failure gives the message. */
void ls_launch_note(launch *l, int rank, ls_status code);
/* Whether a rank has reported a failure in the control block: its own, or that of a rank that it waited for.
 * Notes it. */
bool ls_launch_hear(launch *l);
/* Called when rank r has ended. Its exit status may tell more than other ranks could see. */
void ls_launch_explain(launch *l, int r);
/* Looks for ranks that ended well, but never joined the group that others have joined. */
void ls_launch_look_for_strangers(launch *l);
/* Whether the request to stop ended rank r of a user's program. */
bool ls_launch_ended_by_request(const launch *l, int r);
bool ls_launch_ended_well(int status);
/* Seconds that an attempt waits for a rank that has not joined. */
static inline double ls_launch_patience(const launch *l) { return l->o->stall > 0 ? l->o->stall : 300; }

/* halted.c */
/* News of whether a process of this host is stopped (state T). */
typedef struct ls_halt {
    int process;
    int seconds; /* since it was stopped; -1: it goes on */
    char doing[128];
} ls_halt;
/* Whether there is news of local rank r; looks twice in a second. Its process runs on this host. */
bool ls_launch_look_halted(launch *l, int r, ls_halt *out);
/* Tells the user. */
void ls_launch_tell_halted(launch *l, int r, const ls_halt *h);
/* Fails the attempt if a rank was stopped before it joined, and does not go on within l->o->stall. */
void ls_launch_look_starting(launch *l);

/* silent_hosts.c */
/* Names hosts whose supervising processes have sent no sign of life for 8 s. Fails the attempt if such a host
 * has ranks that have not joined, and is silent for l->o->stall. `starter` is the process of mpirun or srun,
 * `name` its name. */
void ls_launch_look_silent(launch *l, const char *name, int starter);
