/* compiled_recipe.c - recipe -> options -> programs, for any rank, without starting one. */
#include "compiled_recipe.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "base/sys.h"
#include "plan/replay.h"
#include "plan/collective_speed.h"

static void wires(ls_compiled_recipe *c)
{
    if (c->machine)
        ls_machine_wires(&c->store, c->machine);
    else
        ls_collective_speeds_load(c->store.wires);
    if (c->network.bandwidth > 0)
        c->store.wires[LS_SPEED_NETWORK] = c->network;
}

/* The speeds of kernels: of another machine by its figures. `hardware` in a file says that `doctor` measured
 * that machine, and if it is this one, what is measured here counts. */
static const ls_calibration *speeds(ls_compiled_recipe *c)
{
    const ls_machine *m = c->machine;
    const ls_calibration *found = ls_setup_calibration(&c->store, &c->setup.trainer);
    if (!m || (found && !*found->source && !strcmp(found->hardware, m->device.hardware)))
        return found;
    ls_device d;
    const ls_trainer_opts *t = &c->setup.trainer;
    const ls_device_opts o = {
        .isa = t->isa, .threads = t->threads, .kernels = t->kernels, .elsewhere = true
    };
    ls_calibration_release(&c->store);
    c->store = (ls_calibration){ 0 };
    if (ls_device_open(&d, t->device, &o) != LS_OK)
        return NULL; /* compiling says why */
    ls_machine_calibration(&c->store, m, &d);
    return &c->store;
}

int64_t ls_elsewhere_ranks(const ls_elsewhere *where, int64_t ranks)
{
    if (!where || where->ranks_per_host)
        return where ? where->ranks_per_host : 0;
    return where->machine && where->machine->host.ranks < ranks ? where->machine->host.ranks : 0;
}

static ls_status compiled_recipe_compile(ls_compiled_recipe *c, int64_t rank, const ls_elsewhere *where)
{
    c->ranks = (int)c->recipe->workers.max;
    const int64_t ranks_per_host = ls_elsewhere_ranks(where, c->ranks),
                  here = ranks_per_host ? ranks_per_host : c->ranks;
    const ls_machine *m = c->machine;
    if (m && !c->recipe->threads) { /* as ls_setup_make divides the cores of this machine */
        char text[32];
        snprintf(text, sizeof text, "%lld", (long long)(m->host.cores > here ? m->host.cores / here : 1));
        LS_TRY(ls_recipe_set(c->recipe, "threads", text, "machine"));
    }
    if (rank >= c->ranks)
        return ls_fail(LS_E_USAGE, "--rank %lld: workers is %d, so the ranks are 0 to %d", (long long)rank,
                       c->ranks, c->ranks - 1);
    if (ranks_per_host && c->ranks % ranks_per_host)
        return where->ranks_per_host
                   ? ls_fail(LS_E_USAGE, "--ranks-per-host %lld does not divide the %d ranks (workers)",
                             (long long)ranks_per_host, c->ranks)
                   : ls_fail(
                         LS_E_USAGE,
                         "host.ranks %lld of machine %s does not divide the %d ranks (workers): give another "
                         "number of workers, or --ranks-per-host",
                         (long long)ranks_per_host, m->name, c->ranks);
    c->ranks_per_host = (int)ranks_per_host;
    LS_TRY(ls_setup_make(&c->setup, c->recipe, c->ranks, (int)rank, (int)ranks_per_host));
    /* The machine may lack this ISA level: a plan can be made for any machine. */
    c->setup.trainer.elsewhere = true;
    c->calibration = speeds(c);
    wires(c);
    return ls_setup_compile(&c->step, &c->setup, c->recipe, c->calibration);
}

/* The recipe on the machine's device, unless --set says another. */
static ls_status load(ls_recipe **out, const ls_recipe_arg *arg, const ls_machine *m)
{
    if (!m)
        return ls_recipe_load(out, arg->name, arg->n_sets, arg->sets);
    ls_str device = { 0 }, isa = { 0 };
    ls_str_printf(&device, "device=%s", m->device.type);
    ls_str_printf(&isa, "isa=%s", *m->device.isa ? m->device.isa : "auto");
    const char **sets = ls_sys_calloc((size_t)arg->n_sets + 2, sizeof *sets);
    ls_status s = sets ? LS_OK : ls_sys_have(sets);
    s = s == LS_OK ? ls_str_status(&device) : s;
    s = s == LS_OK ? ls_str_status(&isa) : s;
    if (s == LS_OK) {
        sets[0] = device.data;
        sets[1] = isa.data;
        for (int i = 0; i < arg->n_sets; i++)
            sets[i + 2] = arg->sets[i];
        s = ls_recipe_load(out, arg->name, arg->n_sets + 2, sets);
    }
    free(sets);
    ls_str_release(&device);
    ls_str_release(&isa);
    return s;
}

ls_status ls_compiled_recipe_make(ls_compiled_recipe *c, const ls_recipe_arg *arg, int64_t rank,
                                  const ls_elsewhere *where)
{
    *c = (ls_compiled_recipe){ .network = where ? where->network : (ls_collective_speed){ 0 },
                               .machine = where ? where->machine : NULL };
    LS_TRY(load(&c->recipe, arg, c->machine));
    const ls_status s = compiled_recipe_compile(c, rank, where);
    if (s != LS_OK) {
        ls_calibration_release(&c->store);
        ls_recipe_destroy(&c->recipe);
    }
    return s;
}

ls_status ls_compiled_recipe_time(ls_compiled_recipe *c)
{
    if (!c->calibration || *c->store.source) {
        ls_calibration_release(&c->store);
        LS_TRY(ls_calibration_measure(&c->store, &c->step.device));
    }
    wires(c);
    c->calibration = &c->store;
    for (int i = 0; i < LS_PROGRAMS; i++)
        LS_TRY(ls_calibration_replay(&c->store, c->step.plans[i]));
    for (int i = 0; i < LS_PROGRAMS; i++)
        LS_TRY(ls_plan_estimate(c->step.plans[i], &c->store, &c->step.parallel));
    return LS_OK;
}

ls_status ls_compiled_recipe_measure(ls_compiled_recipe *c)
{
    static atomic_bool said; /* a search measures several steps */
    char here[64];
    ls_calibration_hardware(here, &c->step.device);
    if (c->machine && strcmp(here, c->machine->device.hardware))
        return ls_fail(
            LS_E_USAGE,
            "--measure: kernels are measured on the machine that has them: this one has %s, and --machine "
            "is %s; `lockstep doctor --write-machine FILE` describes this one",
            here, c->machine->name);
    LS_TRY(ls_compiled_recipe_time(c));
    if (!said && ls_calibration_check(&c->step.device, ls_calibration_cores()) != LS_OK) {
        ls_log_warn("%s", ls_error_message());
        said = true;
    }
    return ls_calibration_save(&c->store);
}

void ls_compiled_recipe_release(ls_compiled_recipe *c)
{
    ls_compiled_release(&c->step);
    ls_calibration_release(&c->store);
    ls_recipe_destroy(&c->recipe);
}

ls_stored_at ls_stored_of(const ls_units *u, const ls_parallel *p, int slot)
{
    const ls_slot *s = &u->slots[slot];
    const ls_unit *unit = &u->units[s->unit];
    ls_stored_at at = { .name = s->name,
                        .state = unit->state,
                        .unit = s->unit,
                        .offset = s->offset,
                        .type = s->type,
                        .box = ls_slot_local_shard(u, &p->mesh, slot, p->rank).box,
                        .slice = ls_unit_sharding(u, s->unit)->shards > 1 ? unit->slice : 0,
                        .shards = ls_unit_sharding(u, s->unit)->shards };
    for (int i = 0; i < p->mesh.n; i++)
        if (s->sharded.dim[i])
            at.axes[s->sharded.dim[i] - 1 + (s->parts > 1)] = p->mesh.axes[i].name;
    return at;
}

void ls_local_shard_text(ls_str *out, const ls_local_shard *h)
{
    const int64_t count = ls_box_count(&h->box), rows = h->box.ndim > 1 ? h->box.size[0] : 1,
                  row = rows > 1 ? count / rows : 1, first = h->first, end = h->first + h->count;
    if (!ls_box_is_whole(&h->box))
        ls_str_printf(out, "of block %lld ", (long long)ls_box_number(&h->box, &(int64_t){ 0 }));
    if (!h->count || ls_local_shard_all(h)) {
        ls_str_add(out, h->count ? "all of it" : "nothing of it");
        return;
    }
    ls_str_printf(out, "elements %lld to %lld of %lld", (long long)first, (long long)end, (long long)count);
    if (row == 1)
        return;
    ls_str_printf(out, ": rows %lld to %lld", (long long)(first / row), (long long)((end - 1) / row));
    if (first % row || end % row)
        ls_str_printf(out, ", %s in part",
                      first % row && end % row ? "first and last"
                      : first % row            ? "the first"
                                               : "the last");
}

void ls_stored_parts_json(ls_json *j, const char *key, const ls_units *u, const ls_parallel *p, int slot)
{
    ls_json_array(j, key);
    for (int r = 0; r < ls_mesh_ranks(&p->mesh); r++) {
        const ls_local_shard h = ls_slot_local_shard(u, &p->mesh, slot, r);
        ls_json_object(j, NULL);
        ls_json_int(j, "rank", r);
        if (!ls_box_is_whole(&h.box))
            ls_json_int(j, "block", ls_box_number(&h.box, &(int64_t){ 0 }));
        ls_json_int(j, "first", h.first);
        ls_json_int(j, "end", h.first + h.count);
        ls_json_close_object(j);
    }
    ls_json_close_array(j);
}

void ls_layout_text(ls_str *out, const ls_compiled *c)
{
    static const char *const DATA[] = {
        [LS_DATA_FSDP] = "fsdp", [LS_DATA_DDP] = "ddp", [LS_DATA_HYBRID] = "hybrid", [LS_DATA_NONE] = "none"
    };
    const ls_units *u = &c->units;
    const ls_parallel *p = &c->parallel;
    char mesh[128];
    ls_str_printf(out, "%s, %s in %d %s%s", ls_mesh_text(mesh, &p->mesh), DATA[p->data], u->n,
                  p->data == LS_DATA_DDP ? "bucket" : "unit", u->n == 1 ? "" : "s");
    if (u->sharding.shards > 1) {
        const int64_t reshard = ls_parallel_reshards(p);
        ls_str_printf(out, " (%s), reshard_after_forward ", p->units);
        if (reshard > 1)
            ls_str_printf(out, "%lld", (long long)reshard);
        else
            ls_str_add(out, reshard ? "true" : "false");
        ls_str_printf(out, ", gather %s", u->sharding.map ? "map" : "copy");
    }
    if (u->sharding.offload)
        ls_str_add(out, ", offload cpu");
    ls_str_printf(out, ", gradients summed %s in %s",
                  u->sharding.each ? "after each micro-batch" : "once a step", ls_dtype_name(p->reduce));
}
