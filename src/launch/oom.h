/* oom.h - whether the kernel killed a rank for lack of memory. The exit status does not say so. The kernel
 * counts such kills in the control group of the ranks. Without a readable counter its log names the process.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct ls_oom {
    /* the control group, with memory.events (v2) or memory.oom_control (v1); "": neither can be read */
    char folder[1100];
    bool v2;
    uint64_t kills; /* value of the counter at the beginning */
    int log;        /* /dev/kmsg, from the beginning on; -1: not needed, or not readable */
} ls_oom;

/* LOCKSTEP_CGROUP sets another folder than that of this process. */
void ls_oom_begin(ls_oom *o);
/* Whether the kernel killed this process since ls_oom_begin. Call it for a process that SIGKILL has ended.
 * *limit: the memory limit of the group, in bytes; 0: none. */
bool ls_oom_killed(const ls_oom *o, pid_t process, uint64_t *limit);
void ls_oom_end(ls_oom *o);
