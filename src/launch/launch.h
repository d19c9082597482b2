/* launch.h - the parent of the ranks on this host: the process that the user started. It starts one process
 * for each rank (fork and exec, no shell), passes requests on, ends all ranks when one fails, and reports the
 * failure once. The ranks run this program again, with the same arguments, or a user's program that joins the
 * group (ls_group_from_environment). The parent computes nothing. */
#pragma once
#include <signal.h>
#include <stdbool.h>
#include "lockstep/status.h"

/* Exit statuses of the command and of every rank. They are part of its interface. */
enum { LS_EXIT_DONE = 0, LS_EXIT_FAILED = 1, LS_EXIT_USAGE = 2, LS_EXIT_STOPPED = 75 };

/* How an attempt has ended. */
typedef struct ls_attempt_end {
    bool worked;   /* it did a step */
    bool may_pass; /* its failure need not repeat */
    int host;      /* the number of the host whose rank failed, ls_hosts_used; -1: none, or not known */
} ls_attempt_end;

struct ls_hosts;
typedef struct ls_launch_opts {
    int ranks;
    const struct ls_hosts *hosts;      /* hosts of the ranks (hosts.h); NULL: this host */
    int threads;                       /* of a rank; 0: its share of the cores */
    int cores;                         /* that each rank is bound to; 0: its share */
    const char *program;               /* path of a user's program; NULL: this program */
    char *const *argv;                 /* of every rank, the program's name first */
    double stall;                      /* seconds to wait for a rank of a user's program; 0: 300 */
    int restart;                       /* number of this restart, for ls_launch_restart; 0: first attempt */
    const volatile sig_atomic_t *stop; /* nonzero: a request to stop; may be NULL */
    /* a change of this number is a request to save after the step; may be NULL */
    const volatile sig_atomic_t *save;
    /* Whether the ranks are to stop because another attempt can do better; asked often, from when all have
     * joined until it says so, and must not wait. NULL: never */
    bool (*leave)(void *context);
    void *leave_context;
    void (*pass)(const char *line); /* prints a line that a rank of another host wrote; may be NULL */
    /* becomes true if the kernel killed a rank for lack of memory; may be NULL */
    bool *out_of_memory;
    /* Becomes true if Slurm did not start all ranks, as where a host has died and Slurm does not know it yet.
     * If it is true at the beginning, srun does not wait for the steps of earlier attempts: Slurm takes those
     * of a host that was started again for running, without end. May be NULL */
    bool *unstarted;
    int *failed_host; /* becomes the number of the host whose rank failed, -1 if none is; may be NULL */
    /* [LS_RUN_PATH_BYTES] becomes the run directory that a user's program had open when it ended, or in which
     * it failed; "": none. May be NULL */
    char *run;
} ls_launch_opts;

/* Starts the ranks and waits until all have ended. LS_OK: all ranks succeeded. Local.
 *
 * LS_E_STOPPED: they stopped on request. The message is empty, because rank 0 has reported it, or says that
 * the program has no handler for the request.
 *
 * Else the status and message of the rank that failed first, with its number. LS_E_PEER: it was killed,
 * crashed, stalled or ended without a message. LS_E_IO: the program could not be executed. LS_E_USAGE: no
 * rank of the program joined the group.
 *
 * The ranks end with this process, even if it is killed. */
ls_status ls_launch(const ls_launch_opts *o);

/* How many ranks this host has room for: one for each core, or fewer, if each needs `cores` cores, or if
 * per_host is the most ranks of a host (0: no such condition). LS_E_USAGE if there is no room for `least`.
 * Local. */
ls_status ls_launch_room(int64_t *room, int64_t least, int64_t cores, int64_t per_host);

/* Finds the program that a shell would execute for `name`. The caller frees *path. LS_E_USAGE if there is no
 * program that this user may execute. Local. */
ls_status ls_launch_find(char **path, const char *name);
