/* remote_move.c - what the communication thread does for a job. There are three movements.
 *
 *   share   Every position's slice goes to all (remote_share.c). A member sends its slice to the members with
 *           the same local index on other machines. It puts its own slice and those that it receives into
 *           staging memory, from which the other members of its machine copy them.
 *   reduce  Every position gets the sum of its slice (remote_reduce.c). A member adds its machine's operands,
 *           in the tree over the machine's members, for the slices of its local index on all machines. It
 *           adds the sums of machines in the tree over the machines. With powers of two the two trees are one
 *           tree over all positions.
 *   send, receive   One member's value, in one message from its mailbox to the receiver's memory. The send is
 *           no job (remote_flight.c).
 *
 * all_reduce is reduce followed by share, or, of a few numbers, a share of what each machine has added. A
 * fence shares one byte. Large slices go in turns with each other machine, small ones by doubling
 * (remote_ways.h). */
#include "remote_move.h"

#include "remote_reduce.h"
#include "remote_share.h"

static ls_status run_receive(ls_remote_group *r, const ls_route *t, const ls_job *j)
{
    ls_flight *f = &r->flight[0];
    LS_TRY(ls_flight_put(r, f, j->from, j->tag, NULL, j->collective->d.result, j->bytes));
    return ls_flight_await(r, f, t, j->what);
}

static ls_status run_gather(ls_remote_group *r, ls_route *t, const ls_collective *c)
{
    const ls_collective_desc *d = &c->d;
    ls_slice_share x = { .split = { d->count * t->axis.n, d->count },
                         .from = d->from,
                         .travels = c->travels,
                         .to = d->to,
                         .mine = d->map_to ? d->map_from : c->operand[t->axis.position],
                         .all = d->map_to ? d->map_to : d->result,
                         .mapped = d->map_to,
                         .threads = d->threads };
    return ls_remote_share(r, t, &x, d->label);
}

static ls_status run_sum(ls_remote_group *r, ls_route *t, const ls_collective *c)
{
    const ls_collective_desc *d = &c->d;
    bool scatter = d->kind == LS_REDUCE_SCATTER, sum = scatter || d->kind == LS_ALL_REDUCE;
    ls_dtype via = sum ? d->via : d->from;
    ls_slices s = scatter ? (ls_slices){ d->count * t->axis.n, d->count }
                          : (ls_slices){ d->count, ls_way_part(d->count, t->axis.n) };
    size_t at = scatter ? 0 : (size_t)ls_split_begin(s, t->axis.position) * ls_dtype_size(d->to);
    ls_parts x = { .split = s,
                   .by = d->kind == LS_ALL_REDUCE_MAX    ? LS_BY_MAX
                         : d->kind == LS_ALL_REDUCE_WIDE ? LS_BY_WIDE_SUM
                                                         : LS_BY_SUM,
                   .from = d->from,
                   .via = via,
                   .to = d->to,
                   .operand = c->operand,
                   .in = c->pieces,
                   .out = (char *)d->result + at,
                   .threads = d->threads };
    if (!scatter && ls_way_is_whole(t->machines, d->count, ls_dtype_size(via))) {
        x.out = d->result;
        return ls_remote_reduce_whole(r, t, &x, d->label);
    }
    LS_TRY(ls_remote_reduce(r, t, &x, d->label));
    if (scatter)
        return LS_OK;
    ls_slice_share y = { .split = s,
                         .from = d->to,
                         .travels = d->to,
                         .to = d->to,
                         .mine = x.out,
                         .all = d->result,
                         .threads = d->threads };
    /* in place: the barrier before slices are copied follows all reads of my operand */
    return ls_remote_share(r, t, &y, d->label);
}

static ls_status run_exchange(ls_remote_group *r, ls_route *t, const void *mine, size_t bytes, void *all,
                              const char *what)
{
    int64_t n = (int64_t)bytes;
    ls_slice_share x = { .split = { n * t->axis.n, n },
                         .from = LS_U8,
                         .travels = LS_U8,
                         .to = LS_U8,
                         .mine = mine,
                         .all = all,
                         .threads = 1 };
    return ls_remote_share(r, t, &x, what);
}

ls_status ls_remote_move(ls_remote_group *r, const ls_job *j)
{
    ls_route *t = j->route;
    const char here = 1;
    if (j->kind == LS_JOB_ROOM)
        return ls_post_await(r, j);
    if (j->kind == LS_JOB_COLLECTIVE && j->collective->d.kind == LS_RECEIVE)
        return run_receive(r, t, j);
    if (j->kind == LS_JOB_COLLECTIVE)
        return j->collective->d.kind == LS_ALL_GATHER ? run_gather(r, t, j->collective)
                                                      : run_sum(r, t, j->collective);
    if (j->kind == LS_JOB_FENCE || !j->bytes) /* a barrier */
        return run_exchange(r, t, &here, 1, t->present, j->what);
    return run_exchange(r, t, j->mine, j->bytes, j->all, j->what);
}
