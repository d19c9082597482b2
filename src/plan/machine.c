/* machine.c - a calibration from the figures of a machine. */
#include "machine.h"

#include <stdio.h>

void ls_machine_wires(ls_calibration *c, const ls_machine *m)
{
    c->host_cores = (int)m->host.cores;
    c->wires[LS_SPEED_HOST] = (ls_collective_speed){ .latency = m->link.latency,
                                                     .bandwidth = m->link.bandwidth };
    c->wires[LS_SPEED_NETWORK] = (ls_collective_speed){
        .latency = m->network.latency,
        .bandwidth = (double)m->network.nics * m->network.bandwidth,
        .alone = m->network.alone > 0 ? m->network.alone : m->network.bandwidth,
        .message = m->network.message,
        .busy = m->network.busy
    };
    c->n_switches = m->n_switches;
    for (int i = 0; i < m->n_switches; i++)
        c->switches[i] = m->switches[i];
}

/* A rank of device cpu has its threads' part of the host's arithmetic; alone it may use all of its memory's
 * bandwidth. Assumed, as in sheet.c: memory reaches nine tenths of its peak, and caches are twice as fast. */
void ls_machine_calibration(ls_calibration *out, const ls_machine *m, const ls_device *d)
{
    const bool apart = m->device.copies > 0;
    const double part = apart || d->threads >= m->host.cores ? 1 : d->threads / (double)m->host.cores,
                 memory = 0.9 * m->device.bandwidth;
    ls_calibration c;
    ls_calibration_of(&c, d);
    c.flops = part * m->device.flops;
    c.narrow_flops = part * m->device.narrow;
    c.gemm_efficiency = c.narrow_efficiency = m->device.efficiency;
    c.bytes_memory = memory;
    c.bytes_cache = 2 * memory;
    c.op_overhead = m->device.kernel;
    c.cores = apart ? d->threads : (int)m->host.cores;
    c.all_flops = apart ? 0 : m->device.flops;
    c.all_memory = apart ? 0 : memory;
    c.to_device = c.to_host = m->device.copies;
    snprintf(c.hardware, sizeof c.hardware, "%s", m->name);
    snprintf(c.source, sizeof c.source, "machine %s", m->name);
    ls_machine_wires(&c, m);
    *out = c;
}
