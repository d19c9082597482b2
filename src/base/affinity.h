/* affinity.h - the hardware threads that this process may run on, and how the ranks of a machine divide them.
 * It reads /sys: loading a topology library takes ten milliseconds at every start. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { LS_MAX_CPUS = 8192 }; /* the kernel's own limit */
/* as the kernel takes it */
typedef struct ls_cpu_set {
    unsigned long bits[LS_MAX_CPUS / (8 * sizeof(unsigned long))];
} ls_cpu_set;

bool ls_cpu_set_read(ls_cpu_set *out);      /* of the calling thread; false: the system does not say */
bool ls_cpu_set_apply(const ls_cpu_set *s); /* to the calling thread and those it starts from now on */
int ls_cpu_set_count(const ls_cpu_set *s);
bool ls_cpu_set_meet(const ls_cpu_set *a, const ls_cpu_set *b); /* have one in common */
/* "0-3,8-11" into text; cut with ... */
const char *ls_cpu_set_text(char *text, int size, const ls_cpu_set *s);

/* parts[r], r < ranks: a contiguous run of `all`, in the order package, memory node, core: whole cores, so
 * that the hardware threads of a core stay together, or single hardware threads where there are fewer cores
 * than ranks. False, and nobody should be bound, when a part would be smaller than `threads`, or
 * without memory. `sys` is
 * "/sys/devices/system", or a copy of its form. */
bool ls_cpu_set_divide(ls_cpu_set *parts, const ls_cpu_set *all, int ranks, int threads, const char *sys);
#define LS_SYS "/sys/devices/system"
