/* oom.h - whether the kernel killed a rank for want of memory. It only says so in a counter of the control
 * group that the ranks live in, or else, with the process named, in its own log; a process that was killed by
 * anybody looks just the same. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct ls_oom {
    /* of the control group: memory.events (v2) or memory.oom_control (v1); "": none to be read */
    char folder[1100];
    bool v2;
    uint64_t kills; /* when it began */
    int log;        /* /dev/kmsg, from that moment on; -1: not needed, or not readable */
} ls_oom;

/* LOCKSTEP_CGROUP names another folder than that of this process. */
void ls_oom_begin(ls_oom *o);
/* A process was killed by SIGKILL: was it the kernel, since the beginning? *limit: what the group may use, 0:
 * none. */
bool ls_oom_killed(const ls_oom *o, pid_t process, uint64_t *limit);
void ls_oom_end(ls_oom *o);
