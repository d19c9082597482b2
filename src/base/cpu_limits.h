/* cpu_limits.h - how many threads this process has by default: the least of its affinity mask, the quota of
 * its control groups, and the number that OMP_NUM_THREADS or SLURM_CPUS_PER_TASK gives each process. */
#pragma once
#include <stdint.h>

typedef enum ls_cpu_limit { LS_CPU_AFFINITY, LS_CPU_QUOTA, LS_CPU_OMP, LS_CPU_SLURM } ls_cpu_limit;

typedef struct ls_cpu_quota {
    double cores;   /* processor seconds a second; 0: no quota */
    uint64_t group; /* device and inode of the group that sets it: processes of one group share the quota */
} ls_cpu_quota;

/* The smallest quota of the process's control group and all groups above it, of version 1 and 2. `root`:
 * LS_CGROUP_ROOT, or a copy of it (tests); `groups`: the text of /proc/self/cgroup. */
ls_cpu_quota ls_cpu_quota_read(const char *root, const char *groups);
#define LS_CGROUP_ROOT "/sys/fs/cgroup"
ls_cpu_quota ls_cpu_quota_here(void); /* of this process */

/* Threads that `cores` are enough for: rounded down, because a loop waits for the thread that the kernel
 * stops; at least 1. */
int ls_quota_threads(double cores);
/* Lowers `threads` to the part of the quota (0: none) of one of `sharers` processes, and sets *limit if it
 * did. */
int ls_threads_within(double quota, int sharers, int threads, ls_cpu_limit *limit);
/* Threads of each of `ranks` processes that share this one's cores and quota; at least 1. *limit (NULL: not
 * wanted) says what decided. */
int ls_default_threads(int ranks, ls_cpu_limit *limit);
/* Lowers `threads` to the number that OMP_NUM_THREADS or SLURM_CPUS_PER_TASK gives this process, and sets
 * *limit if it did. A value that is not a positive number does not count. */
int ls_threads_told(int threads, ls_cpu_limit *limit);
/* "cores", "cgroup quota of 1.50 cores", "OMP_NUM_THREADS" or "SLURM_CPUS_PER_TASK" */
const char *ls_cpu_limit_text(char text[64], ls_cpu_limit limit);
