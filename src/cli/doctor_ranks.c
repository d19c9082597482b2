/* doctor_ranks.c - several ranks: the cores that each would be bound to, the memory that they can share, and
 * the launcher of this process. */
#include <stdlib.h>
#include <string.h>
#include "base/affinity.h"
#include "base/sys.h"
#include "base/thread_pool.h"
#include "base/topology.h"
#include "comm/comm.h"
#include "comm/environment.h"
#include "comm/memory_room.h"
#include "doctor.h"

/* "0-3 | 4-7" */
static void binding(ls_doctor *d, const ls_cpu_set *all, int ranks)
{
    char name[32], text[64];
    ls_cpu_set *parts = ls_sys_calloc((size_t)ranks, sizeof *parts);
    ls_str line = { 0 };
    bool bound = parts && ls_cpu_set_divide(parts, all, ranks, 1, LS_SYS);
    for (int r = 0; r < ranks && bound; r++)
        ls_str_printf(&line, "%s%s", r ? " | " : "", ls_cpu_set_text(text, sizeof text, &parts[r]));
    snprintf(name, sizeof name, "%d ranks", ranks);
    if (bound)
        ls_doctor_line(d, name, "bound to the hardware threads %s", line.data);
    else
        ls_doctor_line(d, name, "not bound: there are %d hardware threads", ls_cpu_set_count(all));
    ls_str_release(&line);
    free(parts);
}

static void cores(ls_doctor *d)
{
    char text[160];
    const char *bind = getenv("LOCKSTEP_BIND");
    ls_cpu_set all;
    ls_doctor_line(d, "topology", "%s",
                   ls_topology_text(text) ? text : "not known: hwloc is not usable (see Parts)");
    if (bind && !strcmp(bind, "none"))
        ls_doctor_line(d, "binding", "off (LOCKSTEP_BIND=none)");
    if ((bind && !strcmp(bind, "none")) || !ls_cpu_set_read(&all))
        return;
    binding(d, &all, 2);
    int most = ls_cpu_count();
    if (most > 2 && most <= 64)
        binding(d, &all, most);
}

static void launcher(ls_doctor *d)
{
    static const char *const WHO[] = { "none: `lockstep train --workers N` starts its ranks itself",
                                       "lockstep", "mpirun, srun or another that speaks PMI or PMIx",
                                       "torchrun" };
    ls_environment p;
    if (ls_environment_read(&p) != LS_OK) {
        ls_doctor_line(d, "launcher", "not understood");
        ls_doctor_note(d, "%s", ls_error_message());
    } else if (p.size > 1) {
        ls_doctor_line(d, "launcher", "%s: rank %d of %d", WHO[p.launcher], p.rank, p.size);
    } else {
        ls_doctor_line(d, "launcher", "%s", WHO[p.launcher]);
    }
}

void ls_doctor_ranks(ls_doctor *d)
{
    char bytes[32];
    ls_doctor_section(d, "Ranks");
    cores(d);
    ls_doctor_line(d, "shared memory", "%s (anonymous: neither /dev/shm nor a name)",
                   ls_format_bytes(bytes, ls_memory_room()));
    launcher(d);
}
