/* remote_reduce.c - see remote_reduce.h. A member adds its machine's operands, in the tree over the machine's
 * members, and the sums of machines in the tree over machines. The order of a sum does not depend on the way
 * that it takes: of two neighbouring blocks of machines the lower one is the left operand. */
#include "remote_reduce.h"

#include "base/check.h"

enum {
    LEVELS = 31,                 /* of the tree over machines */
    PLACE = 2 * LS_REMOTE_PIECE, /* bytes of a buffer in which a piece is received, or added */
};

size_t ls_reduce_sent_bytes(void) { return LS_REMOTE_FLIGHTS * (size_t)LS_REMOTE_PIECE; }

/* In turns: a sum of each level of the tree, pieces that arrive, this machine's, one that is widened. */
static int places_of(int machines) { return ls_way_rounds(machines) + LS_REMOTE_FLIGHTS + 2; }
size_t ls_reduce_received_bytes(int machines) { return (size_t)places_of(machines) * PLACE; }

/* This machine's part of n elements from element `at` on. With one member on each machine it is a copy of the
 * operand when the operand travels in its own type. */
static void add_here(const ls_route *t, const ls_parts *x, int64_t at, int64_t n, char *out, ls_dtype type)
{
    for (int l = 0; l < t->each; l++)
        x->in[l] = x->operand[t->machine * t->each + l] + (size_t)at * ls_dtype_size(x->from);
    if (t->each == 1 && x->from == type)
        ls_convert(out, x->from, x->in[0], x->from, n, false, x->threads);
    else
        ls_reduce_run(&(ls_reduce){ .by = x->by,
                                    .from = x->from,
                                    .via = x->via,
                                    .to = type,
                                    .n = t->each,
                                    .in = x->in,
                                    .out = out,
                                    .count = n,
                                    .threads = x->threads });
}

/* Adds what machines have added, of type `from`. */
static void add_parts(const ls_parts *x, int n, const char *const *parts, ls_dtype from, int64_t count,
                      char *out, ls_dtype to)
{
    ls_reduce_run(&(ls_reduce){ .by = x->by,
                                .from = from,
                                .via = x->via,
                                .to = to,
                                .n = n,
                                .in = parts,
                                .out = out,
                                .count = count,
                                .threads = x->threads });
}

/* ---- in turns
 *
 * Parts arrive in the order of turns, 0 being this machine's own. Turns t with the same upper bits are a
 * block of machines, so parts are added like the carries of a binary counter. */

typedef struct adding {
    ls_remote_group *r;
    ls_route *t;
    const ls_parts *x;
    ls_way way;
    ls_dtype travels;
    char *free[LEVELS + LS_REMOTE_FLIGHTS + 2]; /* buffers that are not in use */
    int n_free;
    char *arriving[LS_REMOTE_FLIGHTS]; /* by the number of the turn */
    char *level[LEVELS];               /* sums; NULL: of machines that do not exist */
    int next;                          /* the turn whose part comes next */
} adding;

static int64_t mine_in_pass(const adding *a, int64_t k)
{
    return ls_split_in_pass(a->x->split, a->t->axis.position, k, a->way.step);
}

static char *out_of_pass(const adding *a, int64_t k)
{
    return a->x->out + (size_t)(k * a->way.step) * ls_dtype_size(a->x->to);
}

static char *take_buffer(adding *a)
{
    LS_CHECK(a->n_free > 0, "buffers of a sum");
    return a->free[--a->n_free];
}

static void give_back(adding *a, char *b)
{
    if (b)
        a->free[a->n_free++] = b;
}

static ls_status begin_turn(adding *a, const ls_turn *at)
{
    const int h = a->t->machine ^ at->t, p = h * a->t->each + a->t->local;
    const int64_t mine = mine_in_pass(a, at->k), n = ls_split_in_pass(a->x->split, p, at->k, a->way.step);
    const size_t size = ls_dtype_size(a->travels);
    ls_flight *f = &a->r->flight[at->n % LS_REMOTE_FLIGHTS];
    char *part = a->r->sent + at->n % LS_REMOTE_FLIGHTS * LS_REMOTE_PIECE;
    if (mine) {
        a->arriving[at->n % LS_REMOTE_FLIGHTS] = take_buffer(a);
        LS_TRY(ls_slices_put(a->r, f, a->t, h, NULL, a->arriving[at->n % LS_REMOTE_FLIGHTS],
                             (size_t)mine * size));
    }
    if (!n)
        return LS_OK;
    add_here(a->t, a->x, ls_split_begin(a->x->split, p) + at->k * a->way.step, n, part, a->travels);
    return ls_slices_put(a->r, f, a->t, h, part, NULL, (size_t)n * size);
}

/* The part of the next turn, `part` in type via; NULL: there is no such machine. */
static void carry(adding *a, int64_t k, char *part)
{
    const int64_t n = mine_in_pass(a, k);
    int j = 0;
    for (; a->next >> j & 1; j++) {
        char *other = a->level[j];
        const bool last = j + 1 == ls_way_rounds(a->t->machines) && a->next + 1 == 1 << (j + 1);
        if (part && other) { /* the other block has my machine's bit j, this one the opposite */
            const char *both[] = { other, part }, *swapped[] = { part, other };
            add_parts(a->x, 2, a->t->machine >> j & 1 ? swapped : both, a->x->via, n,
                      last ? out_of_pass(a, k) : other, last ? a->x->to : a->x->via);
            give_back(a, part);
            part = other;
        } else if (other) {
            part = other;
        }
        if (last) {
            give_back(a, part);
            a->next = 0;
            return;
        }
    }
    a->level[j] = part;
    a->next++;
}

static char *widened(adding *a, int64_t k, char *part)
{
    if (a->travels == a->x->via)
        return part;
    char *wide = take_buffer(a);
    add_parts(a->x, 1, (const char *const[]){ part }, a->travels, mine_in_pass(a, k), wide, a->x->via);
    give_back(a, part);
    return wide;
}

/* Adds what turn `at` has brought; `first` of its pass: after this machine's own part. */
static void finish_turn(adding *a, const ls_turn *at, bool first, bool last)
{
    const int64_t n = mine_in_pass(a, at->k);
    if (!n)
        return;
    if (first) {
        char *own = take_buffer(a);
        add_here(a->t, a->x, ls_split_begin(a->x->split, a->t->axis.position) + at->k * a->way.step, n, own,
                 a->x->via);
        carry(a, at->k, own);
    }
    while (a->next < at->t)
        carry(a, at->k, NULL);
    carry(a, at->k, widened(a, at->k, a->arriving[at->n % LS_REMOTE_FLIGHTS]));
    while (last && a->next)
        carry(a, at->k, NULL);
}

static ls_status reduce_in_turns(adding *a, const char *what)
{
    const int in_pass = a->t->machines - 1;
    ls_turn at = { .n = -1 }, ahead = at;
    bool more = ls_turn_next(&ahead, a->t, &a->way);
    for (int i = 0; i < places_of(a->t->machines); i++)
        give_back(a, a->r->received + (size_t)i * PLACE);
    for (int i = 0; i < 2 && more; i++) {
        LS_TRY(begin_turn(a, &ahead));
        more = ls_turn_next(&ahead, a->t, &a->way);
    }
    while (ls_turn_next(&at, a->t, &a->way)) {
        LS_TRY(ls_flight_await(a->r, &a->r->flight[at.n % LS_REMOTE_FLIGHTS], a->t, what));
        if (more) {
            LS_TRY(begin_turn(a, &ahead));
            more = ls_turn_next(&ahead, a->t, &a->way);
        }
        finish_turn(a, &at, at.n % in_pass == 0, at.n % in_pass == in_pass - 1);
    }
    return LS_OK;
}

/* ---- by doubling, of a power of two of machines
 *
 * After i messages a machine has the sums over its block of 2^i machines of every 2^i-th slice, its own among
 * them. It sends the half of them that the neighbouring block's machine keeps, and adds what comes to the
 * other half. */

static ls_status halve(const adding *a, int64_t k, const char *what)
{
    const ls_parts *x = a->x;
    const ls_route *t = a->t;
    ls_remote_group *r = a->r;
    const int m = t->machine, n_machines = t->machines;
    const int64_t n = ls_split_in_pass((ls_slices){ x->split.part, x->split.part }, 0, k, a->way.step);
    const size_t bytes = (size_t)n * ls_dtype_size(x->via);
    char *sums = r->received, *theirs = r->received + PLACE;
    for (int h = 0; h < n_machines; h++) { /* those that leave first */
        const int half = h < n_machines / 2 ? 0 : 1, q = h % (n_machines / 2),
                  to = 2 * q + (half ? m & 1 : ~m & 1), p = to * t->each + t->local;
        if (h == n_machines / 2) {
            LS_TRY(ls_slices_put(r, &r->flight[0], t, m ^ 1, NULL, theirs, bytes * (size_t)n_machines / 2));
            LS_TRY(ls_slices_put(r, &r->flight[0], t, m ^ 1, r->sent, NULL, bytes * (size_t)n_machines / 2));
        }
        add_here(t, x, ls_split_begin(x->split, p) + k * a->way.step,
                 ls_split_in_pass(x->split, p, k, a->way.step), (half ? sums : r->sent) + (size_t)q * bytes,
                 x->via);
    }
    for (int bit = 0, left = n_machines / 2;; bit++, left /= 2) {
        LS_TRY(ls_flight_await(r, &r->flight[0], t, what));
        const bool last = left == 1;
        for (int q = 0; q < left; q++) {
            /* (in the first round only those that stay are in `sums`) */
            char *own = sums + (size_t)(bit ? 2 * q + (m >> bit & 1) : q) * bytes,
                 *other = theirs + (size_t)q * bytes;
            const char *both[] = { own, other }, *swapped[] = { other, own };
            add_parts(x, 2, m >> bit & 1 ? swapped : both, x->via, last ? mine_in_pass(a, k) : n,
                      last ? out_of_pass(a, k) : sums + (size_t)q * bytes, last ? x->to : x->via);
        }
        if (last)
            return LS_OK;
        const int next = m >> (bit + 1) & 1;
        for (int q = 0; q < left / 2; q++)
            ls_convert(r->sent + (size_t)q * bytes, x->via, sums + (size_t)(2 * q + !next) * bytes, x->via, n,
                       false, x->threads);
        LS_TRY(ls_slices_put(r, &r->flight[0], t, m ^ 2 << bit, NULL, theirs, bytes * (size_t)(left / 2)));
        LS_TRY(ls_slices_put(r, &r->flight[0], t, m ^ 2 << bit, r->sent, NULL, bytes * (size_t)(left / 2)));
    }
}

/* ---- both */

ls_status ls_remote_reduce(ls_remote_group *r, ls_route *t, const ls_parts *x, const char *what)
{
    adding a = { .r = r, .t = t, .x = x, .travels = ls_way_travels(t->each, x->from, x->via) };
    a.way = ls_way_to_reduce(t->machines, x->split.part, ls_dtype_size(a.travels), ls_dtype_size(x->via));
    if (t->each > 1)
        LS_TRY(ls_slices_meet(t, what));
    if (!a.way.doubling)
        return reduce_in_turns(&a, what);
    for (int64_t k = 0; k < a.way.passes; k++)
        LS_TRY(halve(&a, k, what));
    return LS_OK;
}

ls_status ls_remote_reduce_whole(ls_remote_group *r, ls_route *t, const ls_parts *x, const char *what)
{
    const int64_t n = x->split.total;
    const size_t bytes = (size_t)n * ls_dtype_size(x->via);
    if (t->each > 1)
        LS_TRY(ls_slices_meet(t, what));
    add_here(t, x, 0, n, r->sent, x->via);
    LS_TRY(ls_slices_double(r, t, r->sent, bytes, what));
    if (t->each > 1)
        LS_TRY(ls_slices_meet(t, what)); /* all have read this operand, where the result may go */
    for (int h = 0; h < t->machines; h++)
        x->in[h] = r->sent + (size_t)ls_slices_block(t, h) * bytes;
    add_parts(x, t->machines, x->in, x->via, n, x->out, x->to);
    return LS_OK;
}
