/* train_describe.c - see train_describe.h. */
#include "train_describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/c_locale.h"
#include "base/log.h"
#include "base/str.h"
#include "recipe/recipe_use.h"
#include "step/memory.h"
#include "train_environment.h"

static void promise(const ls_recipe *r, const ls_compiled *c)
{
    char why[LS_WHY_BYTES], slices[48] = "";
    if (c->parallel.slices)
        snprintf(slices, sizeof slices, " and parallel.slices %lld", (long long)c->parallel.slices);
    if (ls_setup_same_bits(why, r, c))
        ls_log_info("bits   the same on 1, 2, 4, ... ranks in any layout, with train.micro_batch %lld%s",
                    (long long)c->micro_batch, slices);
    else
        ls_log_info("bits   not promised to be those of other layouts: %s", why);
}

void ls_train_describe(const ls_loop *l, const ls_train_start *start)
{
    const ls_compiled *c = &l->trainer->compiled;
    ls_group *g = l->group;
    const ls_recipe *r = l->recipe;
    char device[64] = "", hardware[64], machine[80] = "", total[32], arena[32], mesh[128], seconds[32] = "",
         share[112] = "", trained[96] = "", by[64];
    const int64_t all = c->units.parameters, frozen = ls_units_frozen(&c->units);
    ls_log_info("data   %s", start->data);
    if (frozen)
        ls_snprintf(trained, sizeof trained, ", %lld of the parameters trained (%.3g %%)",
                    (long long)(all - frozen), 100 * (double)(all - frozen) / (double)all);
    if (ls_compiled_seconds(c) > 0)
        ls_snprintf(seconds, sizeof seconds, ", about %.1f ms", 1e3 * ls_compiled_seconds(c));
    if (c->device.ops->hardware) {
        c->device.ops->hardware(hardware, &c->device);
        snprintf(machine, sizeof machine, ", %s", hardware);
    }
    ls_log_info("model  %s  %lld parameters in %d tensors%s  %s%s, %s, %d thread%s (%s)", r->model.type,
                (long long)c->units.parameters, c->units.n_slots, trained, c->device.ops->name, machine,
                c->device.arch->name, c->device.threads, c->device.threads == 1 ? "" : "s",
                r->threads            ? "threads"
                : r->cores_per_worker ? "cores_per_worker"
                                      : ls_cpu_limit_text(by, start->threads_by));
    if (ls_recipe_samples(r) != LS_SAMPLES_IMAGES && !start->continues)
        ls_log_info("init   %s", strcmp(r->model.init, "random")
                                     ? r->model.init
                                     : "random weights, no trained ones: model.init is random");
    if (g) {
        char *how = ls_recipe_value(r, "parallel.data");
        ls_log_info("ranks  %d on %d host%s (%s)  mesh %s  %s", ls_group_size(g), ls_group_hosts(g),
                    ls_group_hosts(g) == 1 ? "" : "s", ls_group_kind(g),
                    ls_mesh_text(mesh, &c->parallel.mesh), how ? how : "");
        free(how);
        snprintf(share, sizeof share, ", %lld of them on each rank", (long long)c->share.count);
        if (c->units.sharding.stages > 1)
            ls_snprintf(share, sizeof share,
                        ", %lld of them on each rank, which is idle for %.0f %% of a step",
                        (long long)c->share.count, 100 * c->idle);
    }
    ls_str environment = { 0 };
    ls_train_environment(&environment, l, start->threads_by);
    if (environment.len)
        ls_log_info("env    %s", ls_str_text(&environment));
    ls_str_release(&environment);
    const ls_step_memory m = ls_compiled_memory(c);
    if (m.apart)
        ls_snprintf(device, sizeof device, "%s of the device and ", ls_format_bytes(total, m.device));
    ls_log_info("step   %lld micro-batch%s of %lld samples%s: %.2f GFLOP%s, memory %s%s%s planned (arena %s)",
                (long long)c->micro_batches, c->micro_batches == 1 ? "" : "es", (long long)c->micro_batch,
                share, 1e-9 * ls_compiled_flops(c), seconds, device, ls_format_bytes(total, l->planned),
                m.apart ? " of the host" : "", ls_format_bytes(arena, c->plans[LS_MICRO]->arena_bytes));
    promise(r, c);
}
