/* update_program.c - makes the program `update` of a compiled step, with the tensors of each unit that its
 * optimizer needs to know. */
#include "base/field.h"
#include "comm/axes.h"
#include "compile.h"
#include "graph/identity.h"
#include "ops/rules.h"

/* Gives the parameters of unit i to an optimizer that works on whole parameters. Such an optimizer is refused
 * where an axis shards a parameter of the unit, and where units are kept in host memory; Adafactor also where
 * ranks have different units. */
static ls_status whole_parameters(ls_update_unit *out, ls_arena *arena, const ls_compiled *c,
                                  const ls_optimizer *o, int i)
{
    const ls_units *u = &c->units;
    const char *name = o->kind == LS_MUON ? "muon" : "adafactor";
    if (o->kind != LS_ADAFACTOR && !(o->kind == LS_MUON && u->units[i].matrices))
        return LS_OK;
    if (u->sharding.offload)
        return ls_fail_field(
            LS_E_UNSUPPORTED, "offload",
            "cpu: optimizer %s gathers whole parameters for its update, and they are in host "
            "memory; use adamw or lion, or no offload",
            name);
    /* checkpoints take its moments of rows and columns for states that every rank has */
    const char *apart = ls_mesh_axis(&c->parallel.mesh, u->units[i].part ? LS_ROLE_EXPERT : LS_ROLE_PIPELINE);
    if (o->kind == LS_ADAFACTOR && ls_mesh_group_size(&c->parallel.mesh, apart) > 1)
        return ls_fail_field(LS_E_UNSUPPORTED, "mesh",
                             "optimizer adafactor keeps moments of rows and columns on every rank, and with "
                             "axis %s ranks have different parameters; use adamw, lion or muon, or no such "
                             "axis",
                             apart);
    ls_update_tensor *list = LS_ARENA_ARRAY(arena, ls_update_tensor, u->n_slots);
    LS_TRY(ls_arena_status(arena));
    for (int k = 0; k < u->n_slots; k++) {
        const ls_slot *s = &u->slots[k];
        if (s->unit != i)
            continue;
        if (u->units[i].sharded_by)
            return ls_fail_field(
                LS_E_UNSUPPORTED, "mesh",
                "optimizer %s needs whole matrices, and an axis of role tensor shards %s; "
                "use adamw or lion, or no such axis%s",
                name, s->name,
                o->kind == LS_MUON ? ", or a group with adamw: true for the parameters that it shards" : "");
        list[out->n_tensors++] = (ls_update_tensor){ s->name, s->type, s->offset };
    }
    out->tensors = list;
    out->first = ls_unit_sharding(u, i)->position * u->units[i].slice;
    return LS_OK;
}

/* With offload, parameters, moments and gradients are in host memory. Beside a device whose memory is its own
 * `update` runs there, too: its program is planned for the CPU, and the session runs it as tasks of the host.
 *
 * The alternative streams slices through the device: Adam in f32 reads 16 bytes a parameter and writes 12
 * (parameter, both moments, gradient). All 28 would cross the link besides being read and written in host
 * memory. So only 8 cross it: the gradient up and, for the next step, the parameter down. What the host then
 * computes costs no more than its memory does: 1.6 ns a parameter with one thread (AVX-512, 20 million
 * parameters; 17 GB/s), and shared by its threads. */
ls_status ls_update_device(ls_compiled *c, const ls_device_opts *o)
{
    c->updater = c->device;
    if (c->parallel.offload != LS_OFFLOAD_CPU || !ls_device_apart(&c->device))
        return LS_OK;
    return ls_device_host(&c->updater, &c->device, o);
}

/* Notes the moments of each unit, also of those that only other ranks have: a checkpoint lists them all. */
static void note_moments(ls_units *u, const ls_graph *g)
{
    for (int i = 0; i < u->n; i++)
        u->units[i].moments = 0;
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == &ls_op_state && ls_source_is(g->nodes[i]).what == LS_IS_MOMENT)
            u->units[ls_source_is(g->nodes[i]).unit].moments |= 1U << ls_source_is(g->nodes[i]).moment;
}

/* all: of all units, as one rank would have it. */
static ls_status build(ls_graph **g, const ls_compiled *c, const ls_trainer_opts *o, bool all)
{
    const ls_units *u = &c->units;
    const ls_sharding *s = &u->sharding;
    const ls_parallel *p = &o->parallel;
    const char *model = ls_units_parts(u, &p->mesh);
    /* Sums of gradients, and their maximum, are over groups that do not overlap. */
    const ls_sharding *outer = ls_mesh_group_has(model, ls_mesh_axis(&p->mesh, LS_ROLE_EXPERT)) ? &u->experts
                                                                                                : s;
    ls_update_opts update = { .optimizer = o->optimizer,
                              .clip_norm = o->clip_norm,
                              .ema_decay = o->ema_decay,
                              .loss_scaling = c->loss_scaling,
                              .scaler = o->scaler,
                              .shard = s->shard,
                              .replicate = outer->replicate,
                              .shards = s->shards,
                              .replicas = outer->replicas,
                              .reduce = !s->each,
                              .offload = s->offload && !ls_updates_on_host(c),
                              .model = model,
                              .models = ls_mesh_group_size(&p->mesh, model) };
    LS_TRY(ls_graph_create(g, "update"));
    (*g)->keeps_sources = ls_units_differ(u); /* also where nothing is trained */
    ls_update_unit *units = LS_ARENA_ARRAY(&(*g)->arena, ls_update_unit, u->trained);
    for (int i = 0; units && i < u->trained; i++) {
        const ls_sharding *over = ls_unit_sharding(u, i);
        units[i] = (ls_update_unit){ .name = u->units[i].state,
                                     .shard = over->shard,
                                     .replicate = over->replicate,
                                     .shards = over->shards,
                                     .replicas = over->replicas,
                                     .elsewhere = !all && !ls_unit_is_here(u, i),
                                     .type = LS_TYPE(u->dtype, u->units[i].slice),
                                     .via = u->units[i].reduce,
                                     .weights = u->units[i].weights,
                                     .gradient_there = u->units[i].weights && c->gradients_in_weights,
                                     .weight_type = u->units[i].param,
                                     .group = u->units[i].group ? &o->groups[u->units[i].group - 1] : NULL };
    }
    for (int i = 0; units && i < u->n_slots; i++) /* all slots of a unit are sharded in the same way */
        if (u->slots[i].unit < u->trained)
            units[u->slots[i].unit].copy = ls_slot_local_shard(u, &p->mesh, i, p->rank).model_copy > 0;
    ls_status status = ls_graph_status(*g);
    for (int i = 0; i < u->trained && status == LS_OK; i++)
        status = whole_parameters(&units[i], &(*g)->arena, c, &o->optimizer, i);
    if (status == LS_OK)
        status = ls_update_build(*g, u->trained, units, &update);
    if (status != LS_OK)
        ls_graph_destroy(g);
    return status;
}

ls_status ls_update_program(ls_graph **g, ls_compiled *c, const ls_trainer_opts *o)
{
    LS_TRY(build(g, c, o, true));
    note_moments(&c->units, *g);
    if (!ls_units_differ(&c->units))
        return LS_OK;
    ls_graph_destroy(g);
    return build(g, c, o, false);
}
