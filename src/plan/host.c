/* host.c - offload: values in host memory beside a device whose memory is its own. There the program
 * `update` runs on the host, so the values that it names must be in host memory for all programs of the
 * session. Programs of the device transfer large values and read numbers in place. */
#include <string.h>

#include "base/str.h"
#include "describe.h"
#include "graph/identity.h"
#include "internal.h"

static bool names_on_host(const ls_plan *p, const ls_alloc *a)
{
    for (int i = 0; p->on_host && i < p->n_allocs; i++)
        if (p->allocs[i].name && !ls_identity_order(p->allocs[i].is, p->allocs[i].name, a->is, a->name))
            return true;
    return false;
}

static bool on_host(int n_plans, ls_plan *const *plans, const ls_alloc *a)
{
    for (int p = 0; p < n_plans; p++)
        if (names_on_host(plans[p], a))
            return true;
    return false;
}

/* Refuses a kernel or a collective of the device that would use a large value in host memory directly. */
static ls_status check_step(const ls_plan *p, const ls_step *s)
{
    const ls_node *n = p->graph->nodes[s->node];
    for (int j = 0; j < n->n_in + n->n_out && s->transfer < 0; j++) {
        const ls_value v = j < n->n_in ? n->in[j] : n->out[j - n->n_in];
        const ls_alloc *a = ls_present(v) ? &p->allocs[p->locations[v.id].alloc] : NULL;
        char bytes[32], site[LS_SITE_SIZE];
        if (a && a->host && a->bytes > LS_NUMBER_BYTES)
            return ls_fail(LS_E_UNSUPPORTED,
                           "%s%s of program %s uses \"%s\" (%s), which offload: cpu keeps in host memory, "
                           "and the memory of device %s is its own; say offload: none",
                           ls_site_before(site, n->file, n->line), n->op->name, p->graph->name, a->name,
                           ls_format_bytes(bytes, a->bytes), p->device.ops->name);
    }
    return LS_OK;
}

ls_status ls_plans_share_host(int n_plans, ls_plan *const *plans)
{
    for (int p = 0; p < n_plans; p++)
        for (int i = 0; i < plans[p]->n_allocs; i++) {
            ls_alloc *a = &plans[p]->allocs[i];
            if (!a->name || a->host || !ls_is_lasting(a) || !on_host(n_plans, plans, a))
                continue;
            a->host = true;
            plans[p]->host_bytes += ls_align_up(a->bytes);
        }
    for (int p = 0; p < n_plans; p++)
        for (int i = 0; i < plans[p]->n_steps && ls_device_apart(&plans[p]->device); i++)
            LS_TRY(check_step(plans[p], &plans[p]->steps[i]));
    return LS_OK;
}
