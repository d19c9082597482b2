/* plan_machine.c - see plan_machine.h. */
#include "plan_machine.h"

#include <string.h>

#include "base/str.h"
#include "comm/control.h"
#include "comm/memory_room.h"

static bool is_split(const ls_placed *p, const char *axis)
{
    while (p && strcmp(p->axis, axis))
        p = p->next;
    return p && p->p.kind == LS_SHARD;
}

/* Activations that are alive at the worst moment of `micro`, and whole on each rank of the tensor axis. */
static double saved_bytes(const ls_plan *p, const char *axis)
{
    double bytes = 0;
    for (int i = 0; i < p->n_allocs; i++) {
        const ls_alloc *a = &p->allocs[i];
        if (a->category == LS_CAT_ACTIVATIONS && a->value >= 0 && a->first <= p->peak_step &&
            a->last >= p->peak_step && !is_split(p->graph->vals[a->value].placed, axis))
            bytes += (double)a->bytes;
    }
    return bytes;
}

void ls_plan_host_of(ls_plan_host *h, const ls_compiled_recipe *c, const ls_step_cost *cost)
{
    const ls_machine *m = c->machine;
    const ls_step_memory *memory = &cost->memory;
    const ls_parallel *p = &c->step.parallel;
    const int ranks = c->ranks_per_host > 0 && c->ranks_per_host < c->ranks ? c->ranks_per_host : c->ranks;
    *h = (ls_plan_host){ .hosts = c->ranks / ranks,
                         .ranks = ranks,
                         .here = !m,
                         .cores = m ? (int)m->host.cores : ls_calibration_cores(),
                         .threads = c->step.device.threads,
                         .most = LS_CONTROL_RANKS };
    const double each = (double)(memory->apart ? memory->host : memory->total) + (double)cost->messages +
                        (double)cost->loader;
    h->window = ranks * (double)memory->plans.window + (double)memory->plans.node;
    h->memory = ranks * each + (double)memory->plans.node;
    h->room = m ? (double)m->host.memory : (double)ls_memory_room();
    h->device = memory->apart ? (double)memory->device : 0;
    h->gpu = m && memory->apart ? (double)m->device.memory : 0;
    const char *tensor = ls_mesh_axis(&p->mesh, LS_ROLE_TENSOR);
    if (!p->sequence && *tensor)
        h->saved = saved_bytes(c->step.plans[LS_MICRO], tensor);
}

const char *ls_plan_host_lacks(const ls_plan_host *h)
{
    return h->gpu > 0 && h->device > h->gpu     ? "GPU"
           : h->room > 0 && h->memory > h->room ? "host"
           : h->ranks > h->most                 ? "ranks"
                                                : NULL;
}

static double crowd_of(const ls_plan_host *h)
{
    const double threads = (double)h->ranks * h->threads;
    return h->cores > 0 && threads > h->cores ? threads / h->cores : 1;
}

void ls_plan_host_text(ls_str *out, const ls_plan_host *h, const ls_compiled_recipe *c)
{
    char a[32], b[32], d[32];
    const bool apart = h->device > 0;
    if (c->machine) {
        const long long cores = c->machine->host.cores;
        ls_str_printf(out, "machine %s: %d host%s of %d rank%s, %lld core%s each\n", c->machine->name,
                      h->hosts, h->hosts == 1 ? "" : "s", h->ranks, h->ranks == 1 ? "" : "s", cores,
                      cores == 1 ? "" : "s");
        if (h->gpu > 0)
            ls_str_printf(out, "        a rank needs %s of the %s of its GPU%s\n",
                          ls_format_bytes(a, (uint64_t)h->device), ls_format_bytes(b, (uint64_t)h->gpu),
                          h->device > h->gpu ? ": IT DOES NOT FIT" : "");
        if (h->room > 0)
            ls_str_printf(out, "        the ranks of a host need %s of its %s, and of it map %s together%s\n",
                          ls_format_bytes(a, (uint64_t)h->memory), ls_format_bytes(b, (uint64_t)h->room),
                          ls_format_bytes(d, (uint64_t)h->window),
                          h->memory > h->room ? ": IT DOES NOT FIT" : "");
    } else if (c->step.device.here && h->memory > h->room) {
        ls_str_printf(
            out,
            "note    cannot be started here: %d ranks need %s, of it %s that they map together, and this "
            "host can still give %s (--machine plans for another)\n",
            h->ranks, ls_format_bytes(a, (uint64_t)h->memory), ls_format_bytes(b, (uint64_t)h->window),
            ls_format_bytes(d, (uint64_t)h->room));
    }
    if (h->ranks > h->most)
        ls_str_printf(out,
                      "note    cannot be started: a host runs at most %d ranks, not %d (--ranks-per-host)\n",
                      h->most, h->ranks);
    if (crowd_of(h) > 1 && !apart)
        ls_str_printf(
            out, "note    %d ranks of %d thread%s share %d core%s%s: they compute %.3g times as long%s\n",
            h->ranks, h->threads, h->threads == 1 ? "" : "s", h->cores, h->cores == 1 ? "" : "s",
            h->here ? " of this host" : " of a host", crowd_of(h),
            h->here ? " (--machine and --ranks-per-host plan for other hosts)" : "");
    if (h->saved > 0.25 * (h->memory / h->ranks + h->device) && h->saved > 1e6)
        ls_str_printf(
            out,
            "note    %s of a rank's %smemory are activations that are whole on each rank of the tensor axis, "
            "as the inputs of blocks: parallel.sequence: true splits them\n",
            ls_format_bytes(a, (uint64_t)h->saved), apart ? "" : "window and ");
}

void ls_plan_host_json(ls_json *j, const ls_plan_host *h, const ls_compiled_recipe *c)
{
    ls_json_object(j, "host");
    if (c->machine)
        ls_json_text(j, "machine", c->machine->name);
    ls_json_int(j, "hosts", h->hosts);
    ls_json_int(j, "ranks", h->ranks);
    ls_json_int(j, "cores", h->cores);
    ls_json_f64(j, "slower", h->device > 0 ? 1 : crowd_of(h));
    ls_json_int(j, "memory", (int64_t)h->memory);
    ls_json_int(j, "window", (int64_t)h->window);
    ls_json_int(j, "room", (int64_t)h->room);
    ls_json_int(j, "whole_activations", (int64_t)h->saved);
    if (h->gpu > 0)
        ls_json_int(j, "device_room", (int64_t)h->gpu);
    ls_json_bool(j, "fits", !ls_plan_host_lacks(h));
    ls_json_close_object(j);
}
