/* remote_move.c - what the communication thread does for a job. There are three movements. The first two go
 * in pieces: a piece is under way while the one before it is used.
 *
 *   share   Every position's slice goes to all. A member sends its slice to the members with the same local
 *           index on other machines. It puts its own slice and those that it receives into staging memory,
 *           from which the other members of its machine copy them.
 *   reduce  Every position gets the sum of its slice. A member adds its machine's operands, in the tree over
 *           the machine's members, for the slices of its local index on all machines. It sends each sum to
 *           the machine that it belongs to, and adds the sums that it receives, in the tree over the
 *           machines. With powers of two the two trees are one tree over all positions.
 *
 *   send, receive   One member's value, in one message from its mailbox to the receiver's memory. The send is
 *           no job (remote_flight.c).
 *
 * all_reduce is reduce followed by share. A fence shares one byte. */
#include "remote_move.h"

#include "base/check.h"
#include "reduce.h"
#include "remote.h"
#include "remote_flight.h"
#include "wait.h"

/* ---- slices: [0, total) elements of a vector in equal parts, the last ones shorter or empty */

typedef struct split {
    int64_t total, part;
} split;

static int64_t begin_of(split s, int64_t p) { return p * s.part < s.total ? p * s.part : s.total; }
static int64_t length_of(split s, int64_t p) { return begin_of(s, p + 1) - begin_of(s, p); }

/* Elements of position p's slice that are in piece k of `step` elements. */
static int64_t in_piece(split s, int p, int64_t k, int64_t step)
{
    int64_t left = length_of(s, p) - k * step;
    return left < 0 ? 0 : left < step ? left : step;
}

static ls_status put_message(ls_remote_group *r, ls_flight *f, const ls_route *t, int machine,
                             const void *send, void *receive, size_t bytes)
{
    return ls_flight_put(r, f, t->peer[machine], t->axis.number, send, receive, bytes);
}

/* A barrier of the members on this machine. */
static ls_status meet(ls_route *t, const char *what)
{
    return ls_axis_await_all(&t->axis, LS_TICKS, ls_axis_raise(&t->axis, LS_TICKS), what);
}

int64_t ls_piece_bytes(int hosts)
{
    const int64_t bytes = LS_REMOTE_REGION / 2 / hosts / 64 * 64;
    return bytes < LS_REMOTE_PIECE ? bytes : LS_REMOTE_PIECE;
}

/* Elements per piece, whole cache lines: each of the two halves of a region has room for a piece of every
 * machine. */
static int64_t move_step_of(const ls_route *t, ls_dtype type)
{
    const int64_t bytes = ls_piece_bytes(t->machines);
    LS_CHECK(bytes > 0, "%d hosts", t->machines);
    return bytes / (int64_t)ls_dtype_size(type);
}

static int64_t pieces_of(split s, int64_t step) { return (s.part + step - 1) / step; }

/* Where piece k for machine h lies in a region. */
static char *piece_at(const ls_route *t, char *region, int64_t k, int h, ls_dtype type)
{
    size_t piece = (size_t)move_step_of(t, type) * ls_dtype_size(type);
    return region + (size_t)(k & 1) * (LS_REMOTE_REGION / 2) + (size_t)h * piece;
}

/* ---- share */

typedef struct share {
    split split;
    ls_dtype from, travels, to;
    const char *mine; /* [length of my slice] of type from */
    char *all;        /* [total] of type to */
    bool mapped;      /* `all` is one memory for the members on this machine */
    int threads;
} share;

static ls_status send_shares(ls_remote_group *r, const ls_route *t, const share *x, int64_t k)
{
    int64_t step = move_step_of(t, x->travels), n = in_piece(x->split, t->axis.position, k, step);
    char *own = piece_at(t, r->staging->mine, k, t->machine, x->travels);
    size_t size = ls_dtype_size(x->travels);
    ls_convert(own, x->travels, x->mine + (size_t)(k * step) * ls_dtype_size(x->from), x->from, n, false,
               x->threads);
    for (int h = 0; h < t->machines; h++) {
        if (h == t->machine)
            continue;
        int64_t theirs = in_piece(x->split, h * t->each + t->local, k, step);
        if (theirs)
            LS_TRY(put_message(r, &r->flight[k & 1], t, h, NULL,
                               piece_at(t, r->staging->mine, k, h, x->travels), (size_t)theirs * size));
        if (n)
            LS_TRY(put_message(r, &r->flight[k & 1], t, h, own, NULL, (size_t)n * size));
    }
    return LS_OK;
}

/* In memory that the machine shares, one member writes each slice: the owner its own, and for slices of other
 * machines the member that received them. */
static bool takes(const ls_route *t, const share *x, int machine, int local)
{
    if (!x->mapped)
        return true;
    return t->each > 1 ? local == t->local
                       : machine == t->machine || (t->first_here && !t->axis.counters[machine]);
}

static void take_shares(ls_remote_group *r, const ls_route *t, const share *x, int64_t k)
{
    int64_t step = move_step_of(t, x->travels);
    for (int l = 0; l < t->each; l++) {
        char *staging = r->staging->peer[t->axis.members[t->machine * t->each + l] - r->group->first];
        for (int h = 0; h < t->machines; h++) {
            int p = h * t->each + l;
            if (takes(t, x, h, l))
                ls_convert(x->all + (size_t)(begin_of(x->split, p) + k * step) * ls_dtype_size(x->to), x->to,
                           piece_at(t, staging, k, h, x->travels), x->travels, in_piece(x->split, p, k, step),
                           false, x->threads);
        }
    }
}

/* A member overwrites a half of its staging memory only after a barrier that follows all reads of it. */
static ls_status run_share(ls_remote_group *r, ls_route *t, const share *x, const char *what)
{
    int64_t n = pieces_of(x->split, move_step_of(t, x->travels));
    LS_TRY(send_shares(r, t, x, 0));
    for (int64_t k = 0; k < n; k++) {
        LS_TRY(ls_flight_await(r, &r->flight[k & 1], t, what));
        if (t->each > 1)
            LS_TRY(meet(t, what));
        if (k + 1 < n)
            LS_TRY(send_shares(r, t, x, k + 1));
        take_shares(r, t, x, k);
    }
    return t->each > 1 || x->mapped ? meet(t, what) : LS_OK;
}

/* ---- reduce */

typedef struct reduction {
    split split;
    int by; /* ls_reduce.by */
    ls_dtype from, travels, via, to;
    const char **operand; /* by position; on other machines NULL */
    const char **in;      /* room for as many */
    char *out;            /* [length of my slice] of type to */
    int threads;
} reduction;

/* This machine's part of n elements from element `at`. With one member on each machine it is a copy of the
 * operand when the operand travels in its own type. */
static void add_here(const ls_route *t, const reduction *x, int64_t at, int64_t n, char *out)
{
    for (int l = 0; l < t->each; l++)
        x->in[l] = x->operand[t->machine * t->each + l] + (size_t)at * ls_dtype_size(x->from);
    if (t->each == 1 && x->from == x->travels)
        ls_convert(out, x->from, x->in[0], x->from, n, false, x->threads);
    else
        ls_reduce_run(&(ls_reduce){ .by = x->by,
                                    .from = x->from,
                                    .via = x->via,
                                    .to = x->travels,
                                    .n = t->each,
                                    .in = x->in,
                                    .out = out,
                                    .count = n,
                                    .threads = x->threads });
}

static ls_status send_parts(ls_remote_group *r, const ls_route *t, const reduction *x, int64_t k)
{
    int64_t step = move_step_of(t, x->travels), mine = in_piece(x->split, t->axis.position, k, step);
    size_t size = ls_dtype_size(x->travels);
    for (int i = 0; i < t->machines; i++) {
        /* this rank's own sum last, while the messages are under way */
        int h = (t->machine + 1 + i) % t->machines, p = h * t->each + t->local;
        int64_t n = in_piece(x->split, p, k, step);
        char *part = piece_at(t, h == t->machine ? r->received : r->sent, k, h, x->travels);
        if (mine && h != t->machine)
            LS_TRY(put_message(r, &r->flight[k & 1], t, h, NULL, piece_at(t, r->received, k, h, x->travels),
                               (size_t)mine * size));
        if (!n)
            continue;
        add_here(t, x, begin_of(x->split, p) + k * step, n, part);
        if (h != t->machine)
            LS_TRY(put_message(r, &r->flight[k & 1], t, h, part, NULL, (size_t)n * size));
    }
    return LS_OK;
}

static void add_machines(ls_remote_group *r, const ls_route *t, const reduction *x, int64_t k)
{
    int64_t step = move_step_of(t, x->travels), n = in_piece(x->split, t->axis.position, k, step);
    for (int h = 0; h < t->machines; h++)
        x->in[h] = piece_at(t, r->received, k, h, x->travels);
    ls_reduce_run(&(ls_reduce){ .by = x->by,
                                .from = x->travels,
                                .via = x->via,
                                .to = x->to,
                                .n = t->machines,
                                .in = x->in,
                                .out = x->out + (size_t)(k * step) * ls_dtype_size(x->to),
                                .count = n,
                                .threads = x->threads });
}

static ls_status run_reduce(ls_remote_group *r, ls_route *t, const reduction *x, const char *what)
{
    int64_t n = pieces_of(x->split, move_step_of(t, x->travels));
    if (t->each > 1)
        LS_TRY(meet(t, what)); /* all operands are ready */
    LS_TRY(send_parts(r, t, x, 0));
    for (int64_t k = 0; k < n; k++) {
        LS_TRY(ls_flight_await(r, &r->flight[k & 1], t, what));
        if (k + 1 < n)
            LS_TRY(send_parts(r, t, x, k + 1));
        add_machines(r, t, x, k);
    }
    return LS_OK;
}

/* ---- jobs */

static ls_status run_receive(ls_remote_group *r, const ls_route *t, const ls_job *j)
{
    ls_flight *f = &r->flight[0];
    LS_TRY(ls_flight_put(r, f, j->from, j->tag, NULL, j->collective->d.result, j->bytes));
    return ls_flight_await(r, f, t, j->what);
}

static ls_status run_gather(ls_remote_group *r, ls_route *t, const ls_collective *c)
{
    const ls_collective_desc *d = &c->d;
    share x = { .split = { d->count * t->axis.n, d->count },
                .from = d->from,
                .travels = c->travels,
                .to = d->to,
                .mine = d->map_to ? d->map_from : c->operand[t->axis.position],
                .all = d->map_to ? d->map_to : d->result,
                .mapped = d->map_to,
                .threads = d->threads };
    return run_share(r, t, &x, d->label);
}

static ls_status run_sum(ls_remote_group *r, ls_route *t, const ls_collective *c)
{
    const ls_collective_desc *d = &c->d;
    bool scatter = d->kind == LS_REDUCE_SCATTER, sum = scatter || d->kind == LS_ALL_REDUCE;
    ls_dtype via = sum ? d->via : d->from;
    /* slices of an all_reduce begin at cache lines */
    split s = scatter ? (split){ d->count * t->axis.n, d->count }
                      : (split){ d->count, ((d->count + t->axis.n - 1) / t->axis.n + 63) / 64 * 64 };
    size_t at = scatter ? 0 : (size_t)begin_of(s, t->axis.position) * ls_dtype_size(d->to);
    reduction x = { .split = s,
                    .by = d->kind == LS_ALL_REDUCE_MAX    ? LS_BY_MAX
                          : d->kind == LS_ALL_REDUCE_WIDE ? LS_BY_WIDE_SUM
                                                          : LS_BY_SUM,
                    .from = d->from,
                    .via = via,
                    .to = d->to,
                    .travels = t->each == 1 && ls_dtype_size(d->from) < ls_dtype_size(via) ? d->from : via,
                    .operand = c->operand,
                    .in = c->pieces,
                    .out = (char *)d->result + at,
                    .threads = d->threads };
    LS_TRY(run_reduce(r, t, &x, d->label));
    if (scatter)
        return LS_OK;
    share y = { .split = s,
                .from = d->to,
                .travels = d->to,
                .to = d->to,
                .mine = x.out,
                .all = d->result,
                .threads = d->threads };
    /* in place: the barrier in run_reduce follows all reads of my operand, so it may be overwritten */
    return run_share(r, t, &y, d->label);
}

static ls_status run_exchange(ls_remote_group *r, ls_route *t, const void *mine, size_t bytes, void *all,
                              const char *what)
{
    int64_t n = (int64_t)bytes;
    share x = { .split = { n * t->axis.n, n },
                .from = LS_U8,
                .travels = LS_U8,
                .to = LS_U8,
                .mine = mine,
                .all = all,
                .threads = 1 };
    return run_share(r, t, &x, what);
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
