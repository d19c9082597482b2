/* affinity.h - the hardware threads that this process may run on, and how the ranks of a machine divide them.
 * It reads /sys itself, because loading a topology library would add ten milliseconds to every start. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { LS_MAX_CPUS = 8192 }; /* the kernel's own limit */
/* the same bits as the kernel's affinity masks */
typedef struct ls_cpu_set {
    unsigned long bits[LS_MAX_CPUS / (8 * sizeof(unsigned long))];
} ls_cpu_set;

bool ls_cpu_set_read(ls_cpu_set *out); /* the calling thread's set; false: the system does not tell */
/* binds the calling thread, and the threads that it starts later */
bool ls_cpu_set_apply(const ls_cpu_set *s);
int ls_cpu_set_count(const ls_cpu_set *s);
void ls_cpu_set_keep(ls_cpu_set *s, int n); /* the first n, at most */
/* Its cores: hardware threads of one core count once. `sys` as below; 0: no memory. */
int ls_cpu_set_cores(const ls_cpu_set *s, const char *sys);
bool ls_cpu_set_meet(const ls_cpu_set *a, const ls_cpu_set *b); /* they have a hardware thread in common */
/* Writes "0-3,8-11" to text; a list that is too long ends with "...". */
const char *ls_cpu_set_text(char *text, int size, const ls_cpu_set *s);

/* Divides `all` among `ranks` ranks, parts[rank] for each. Hardware threads are ordered by package, memory
 * node and core, and each part is a contiguous range. Parts consist of whole cores, so that two ranks never
 * share one; if there are fewer cores than ranks, of single hardware threads. Returns false if a part would
 * be smaller than `threads` or if memory runs out; then no rank should be bound. `sys` is
 * "/sys/devices/system", or a copy of it (tests). */
bool ls_cpu_set_divide(ls_cpu_set *parts, const ls_cpu_set *all, int ranks, int threads, const char *sys);
#define LS_SYS "/sys/devices/system"
