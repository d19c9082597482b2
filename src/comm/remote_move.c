/* remote_move.c - what the communication thread does for a job. There are four movements.
 *
 *   share   Every position's slice goes to all (remote_share.c). A member sends its slice to the members with
 *           the same local index on other machines. It puts its own slice and those that it receives into
 *           staging memory, from which the other members of its machine copy them.
 *   reduce  Every position gets the sum of its slice (remote_reduce.c). A member adds its machine's operands,
 *           in the tree over the machine's members, for the slices of its local index on all machines. It
 *           adds the sums of machines in the tree over the machines. With powers of two the two trees are one
 *           tree over all positions.
 *   rows    Every member gets rows of each other member, from where they are to where they belong: in a
 *           message from a member on another machine, else from memory.
 *   send, receive   One member's value, in one message from its mailbox to the receiver's memory. The send is
 *           no job (remote_flight.c).
 *
 * all_reduce is reduce followed by share, or, of a few numbers, a share of what each machine has added. A
 * fence shares one byte. Large slices go in turns with each other machine, small ones by doubling
 * (remote_ways.h). */
#include "remote_move.h"

#include <string.h>

#include "remote_reduce.h"
#include "remote_share.h"
#include "rows.h"

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

static bool is_here(const ls_route *t, int position) { return position / t->each == t->machine; }

/* Turn i: rows go to the member i positions on, and come from the one i positions before. If there are none,
 * both sides know it, and there is no message. */
static ls_status begin_rows(ls_remote_group *r, const ls_route *t, const ls_collective *c, ls_flight *f,
                            int i)
{
    const int n = t->axis.n, me = t->axis.position, to = (me + i) % n, from = (me - i + n) % n;
    const ls_rows come = ls_rows_taken(c, from, me), go = ls_rows_taken(c, me, to);
    if (!is_here(t, from) && come.bytes)
        LS_TRY(ls_flight_put(r, f, t->axis.members[from], t->axis.number, NULL,
                             (char *)c->d.result + come.result, come.bytes));
    if (!is_here(t, to) && go.bytes)
        LS_TRY(ls_flight_put(r, f, t->axis.members[to], t->axis.number, c->operand[me] + go.operand, NULL,
                             go.bytes));
    return LS_OK;
}

static ls_status run_rows(ls_remote_group *r, ls_route *t, const ls_collective *c)
{
    const int n = t->axis.n, me = t->axis.position;
    const char *what = c->d.label;
    LS_TRY(begin_rows(r, t, c, &r->flight[1], 1));
    if (t->each > 1)
        LS_TRY(ls_slices_meet(t, what)); /* operands of this machine are ready */
    for (int i = 0; i < n; i++) {
        const ls_rows rows = ls_rows_taken(c, i, me);
        if (is_here(t, i))
            memcpy((char *)c->d.result + rows.result, c->operand[i] + rows.operand, rows.bytes);
    }
    for (int i = 1; i < n; i++) {
        if (i + 1 < n)
            LS_TRY(begin_rows(r, t, c, &r->flight[(i + 1) % 2], i + 1));
        LS_TRY(ls_flight_await(r, &r->flight[i % 2], t, what));
    }
    return LS_OK;
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
    if (j->kind == LS_JOB_COLLECTIVE && j->collective->d.kind == LS_ALL_TO_ALL)
        return run_rows(r, t, j->collective);
    if (j->kind == LS_JOB_COLLECTIVE)
        return j->collective->d.kind == LS_ALL_GATHER ? run_gather(r, t, j->collective)
                                                      : run_sum(r, t, j->collective);
    if (j->kind == LS_JOB_FENCE || !j->bytes) /* a barrier */
        return run_exchange(r, t, &here, 1, t->present, j->what);
    return run_exchange(r, t, j->mine, j->bytes, j->all, j->what);
}
