/* propagate_axes.c - sharding propagation over the axes of a mesh that split values, one after the other. */
#include <string.h>

#include "base/field.h"
#include "comm/axes.h"
#include "propagate.h"

static ls_shard_axis axis_of(const ls_parallel *p, ls_axis_role role)
{
    const char *name = ls_mesh_axis(&p->mesh, role);
    ls_shard_axis axis = { name, ls_mesh_group_size(&p->mesh, name),
                           ls_mesh_position(&p->mesh, p->rank, name), 0, 1 };
    while (axis.number < p->mesh.n && strcmp(p->mesh.axes[axis.number].name, name))
        axis.number++;
    return axis;
}

/* Tokens first: what splits rows (`sequence`) then splits those that a rank has. */
ls_status ls_pass_propagate_open(ls_graph **gp, const ls_parallel *p, ls_placement *outputs)
{
    static const ls_axis_role ROLES[] = { LS_ROLE_CONTEXT, LS_ROLE_TENSOR };
    bool any = false;
    for (int k = 0; k < 2; k++) {
        const ls_shard_axis axis = axis_of(p, ROLES[k]);
        const bool virtual = !outputs && ls_has_virtual_ranks(*gp, p, ROLES[k], axis.ranks);
        any = any || virtual || axis.ranks > 1;
        LS_TRY(virtual ? ls_propagate_virtual(gp, p, ROLES[k], &axis)
                       : ls_propagate_axis(gp, p, ROLES[k], &axis, outputs));
    }
    if (p->slices && !any && !outputs)
        return ls_fail_field(LS_E_USAGE, "slices",
                             "has no effect: no axis could split this model's tokens or layers (it has no "
                             "input of tokens, and the option tensor names no layer); leave it out");
    return LS_OK;
}

ls_status ls_pass_propagate(ls_graph **gp, const ls_parallel *p)
{
    return ls_pass_propagate_open(gp, p, NULL);
}
