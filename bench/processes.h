/* processes.h - the running program becomes the ranks of one host, over shared memory: how benchmarks of
 * ranks begin. */
#pragma once
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/affinity.h"
#include "comm/comm.h"
#include "comm/shm.h"
#include "lockstep/status.h"

/* A share of the cores for each rank, where there are enough: as `lockstep --workers` does it. */
static inline void processes_bind(int rank, int ranks)
{
    ls_cpu_set all, parts[ranks];
    if (ls_cpu_set_read(&all) && ls_cpu_set_divide(parts, &all, ranks, 1, LS_SYS))
        ls_cpu_set_apply(&parts[rank]);
}

/* Forks ranks 1 .. ranks-1, which end with this process, and returns in all of them. Before anything else has
 * started threads. */
static inline ls_status processes_start(ls_group **out, int ranks)
{
    int fd, rank = 0;
    LS_TRY(ls_shm_create(ranks, &fd));
    const pid_t parent = getpid();
    for (int r = 1; r < ranks && rank == 0; r++) {
        pid_t child = fork();
        if (child < 0)
            return ls_fail(LS_E_IO, "cannot start rank %d: %s", r, strerror(errno));
        if (child == 0) {
            rank = r;
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(1);
        }
    }
    processes_bind(rank, ranks);
    LS_TRY(ls_shm_join(out, fd, rank));
    ls_group_set_deadline(*out, 1e6); /* between the requests of a driver nothing happens */
    return LS_OK;
}

/* Ends this process with what `s` says; on a failure the other ranks hear why. Rank 0 speaks. */
static inline int processes_end(const char *program, ls_group **g, ls_status s)
{
    const int rank = *g ? ls_group_rank(*g) : 0;
    if (s != LS_OK && *g)
        ls_group_fail(*g, s, ls_error_message());
    if (s != LS_OK && rank == 0)
        fprintf(stderr, "%s: %s\n", program, ls_error_message());
    ls_group_destroy(g);
    return s != LS_OK;
}
