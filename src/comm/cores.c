/* cores.c - decides whether waits may spin: only if each rank of the machine has a core of its own. */
#include "cores.h"

#include <sched.h>

/* a fence of busy ranks takes less; sleeping and waking takes more */
static const double SPIN_SECONDS = 100e-6;

void ls_rank_publish_cpus(ls_rank_record *s)
{
    cpu_set_t set;
    uint64_t words[LS_CPU_WORDS] = { 0 };
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        for (unsigned cpu = 0; cpu < 64 * LS_CPU_WORDS; cpu++)
            if (CPU_ISSET(cpu, &set))
                words[cpu / 64] |= (uint64_t)1 << cpu % 64;
    for (int i = 0; i < LS_CPU_WORDS; i++)
        atomic_store(&s->cpus[i], words[i]);
}

void ls_group_tune(ls_group *g)
{
    int cores = 0;
    for (int i = 0; i < LS_CPU_WORDS; i++) {
        uint64_t any = 0;
        for (int r = 0; r < g->control->ranks; r++)
            any |= atomic_load(&ls_control_record(g->control, r)->cpus[i]);
        cores += __builtin_popcountll(any);
    }
    g->spin = g->control->ranks <= cores ? SPIN_SECONDS : 0;
}
