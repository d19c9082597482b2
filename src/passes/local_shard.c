/* local_shard.c - a rank's local shard of a parameter: the elements that it stores. Axes of the mesh that
 * shard the parameter divide it into equal blocks, one axis after the other in the order of the mesh. A block
 * lies in its unit's buffer, and each rank of the group ls_sharding.shard has a slice of that buffer. Along
 * all other axes there are equal copies. Code that saves, loads, counts or prints parameters asks here and
 * does not need to know any axis. */
#include <string.h>

#include "base/check.h"
#include "comm/axes.h"
#include "passes.h"

_Static_assert(sizeof((ls_shard_dims){ 0 }.dim) == LS_MESH_AXES, "a dimension for each axis of a mesh");

unsigned ls_sharded_axes(const ls_shard_dims *c)
{
    unsigned axes = 0;
    for (int i = 0; i < LS_MESH_AXES; i++)
        axes |= c->dim[i] ? 1U << i : 0;
    return axes;
}

ls_box ls_packed_whole(const ls_type *whole, int dim, int64_t parts)
{
    ls_type t = *whole;
    for (int k = t.ndim++; k > dim; k--)
        t.dims[k] = t.dims[k - 1];
    t.dims[dim] = parts;
    t.dims[dim + 1] /= parts;
    return ls_box_of(&t);
}

ls_type ls_param_whole(const ls_node *param, const ls_mesh *m, int64_t *parts)
{
    const ls_source_attrs *a = param->attrs;
    ls_type whole = a->type;
    *parts = 1;
    for (int axis = 0; axis < m->n; axis++)
        if (a->sharded.dim[axis]) {
            const int d = a->sharded.dim[axis] - 1;
            whole.dims[d] *= m->axes[axis].size;
            *parts = param->at ? param->at->whole[d] : 1;
        }
    return whole;
}

ls_box ls_param_box(const ls_shard_dims *sharded, const ls_type *whole, int64_t parts, const ls_mesh *m,
                    int rank)
{
    int d = 0;
    for (int i = 0; i < LS_MESH_AXES; i++)
        d = sharded->dim[i] ? sharded->dim[i] - 1 : d;
    const int deeper = parts > 1; /* the box has the parts as a dimension of their own */
    ls_box box = deeper ? ls_packed_whole(whole, d, parts) : ls_box_of(whole);
    for (int i = 0; i < m->n; i++)
        if (sharded->dim[i])
            LS_CHECK(ls_box_split(&box, sharded->dim[i] - 1 + deeper, m->axes[i].size,
                                  ls_mesh_position(m, rank, m->axes[i].name)),
                     "the ranks do not divide the block");
    return box;
}

ls_local_shard ls_slot_local_shard(const ls_units *u, const ls_mesh *m, int slot, int rank)
{
    const ls_slot *s = &u->slots[slot];
    const char *models = ls_mesh_axes_of(m, LS_ROLES_PARTS), *pipeline = ls_mesh_axis(m, LS_ROLE_PIPELINE);
    ls_local_shard h = { .box = ls_param_box(&s->sharded, &s->whole, s->parts, m, rank), .copies = 1 };
    for (int i = 0; i < m->n; i++) {
        const char *axis = m->axes[i].name;
        const int n = (int)m->axes[i].size, at = ls_mesh_position(m, rank, axis);
        if (!s->sharded.dim[i] && !ls_mesh_group_has(u->sharding.shard, axis) && strcmp(axis, pipeline)) {
            h.copy = h.copy * n + at;
            h.copies *= n;
            if (ls_mesh_group_has(models, axis))
                h.model_copy = h.model_copy * n + at;
        }
    }
    const int64_t slice = u->units[s->unit].slice,
                  begin = ls_mesh_position(m, rank, u->sharding.shard) * slice,
                  end = s->offset + ls_box_count(&h.box);
    const int64_t from = s->offset > begin ? s->offset : begin,
                  to = end < begin + slice ? end : begin + slice;
    h.first = from < end ? from - s->offset : end - s->offset;
    const int position = ls_mesh_position(m, rank, pipeline);
    const bool here = !*pipeline || position == u->units[s->unit].stage % u->sharding.stages;
    h.count = here && to > from ? to - from : 0;
    h.at = from - begin;
    return h;
}

bool ls_local_shard_all(const ls_local_shard *h) { return h->count == ls_box_count(&h->box); }

int64_t ls_box_number(const ls_box *box, int64_t *of)
{
    int64_t number = 0;
    *of = 1;
    for (int d = 0; d < box->ndim; d++) {
        const int64_t n = box->size[d] ? box->whole[d] / box->size[d] : 1;
        number = number * n + (n > 1 ? box->start[d] / box->size[d] : 0);
        *of *= n;
    }
    return number;
}

bool ls_slot_everywhere(const ls_units *u, int slot)
{
    const ls_unit *unit = &u->units[u->slots[slot].unit];
    return unit->slice == unit->elements && !unit->sharded_by && u->sharding.stages <= 1;
}

bool ls_units_everywhere(const ls_units *u)
{
    bool all = true;
    for (int i = 0; i < u->n_slots; i++)
        all = all && ls_slot_everywhere(u, i);
    return all;
}
