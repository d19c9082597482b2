/* collective.c - collectives among ranks of one machine: arithmetic on memory that all of them map.
 * Synchronisation is a counter per rank (wait.c):
 *
 *   all_gather      start: tick.  wait: as each member has ticked, copy its slice.
 *   ... settled     no ticks at all: an earlier fence stands for them.
 *   ... map_to      start: write my slice, tick.  wait: all have ticked.
 *   reduce_scatter  start: tick.  wait: all have ticked; add my slice of every operand.
 *   all_reduce      start: tick.  wait: all have ticked; add the whole of every operand into a result
 *                   elsewhere.
 *   ... in place    start: tick.  wait: all have ticked; add my piece of every operand into mine; tick, all;
 *                   copy the other pieces; tick, all.
 *   all_to_all      start: tick.  wait: as each member has ticked, copy the rows that it has for this rank.
 *   send, receive   wait: as the mailbox is empty (full), copy; raise this side's counter of the mailbox.
 *                   To another machine: the same for the sender, whose communication thread empties it.
 *
 * A member ticks for a later collective only after it has read the operands of an earlier one. The access
 * rules of comm.h follow from that. */
#include "collective.h"

#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "collective_own.h"
#include "fault.h"
#include "reduce.h"
#include "remote_jobs.h"
#include "rows.h"
#include "wait.h"

_Static_assert((int)LS_CONTROL_RANKS <= (int)LS_REDUCE_OPERANDS,
               "one reduction takes the operands of a machine");

/* bytes; a result this large would displace everything else from the caches */
enum { STREAM_BYTES = 8 << 20 };

static const char *const NAMES[] = { [LS_ALL_GATHER] = "all_gather",
                                     [LS_REDUCE_SCATTER] = "reduce_scatter",
                                     [LS_ALL_REDUCE] = "all_reduce",
                                     [LS_ALL_REDUCE_MAX] = "all_reduce_max",
                                     [LS_ALL_REDUCE_WIDE] = "all_reduce_wide",
                                     [LS_SEND] = "send",
                                     [LS_RECEIVE] = "receive",
                                     [LS_ALL_TO_ALL] = "all_to_all" };

const char *ls_collective_name(ls_collective_kind k) { return NAMES[k]; }

double ls_collective_bytes(ls_collective_kind k, int n, int64_t count, ls_dtype travels)
{
    if (k == LS_SEND || k == LS_RECEIVE)
        return k == LS_SEND ? 0 : (double)count * (double)ls_dtype_size(travels);
    double slices = (double)(n - 1) * (double)count * (double)ls_dtype_size(travels);
    if (k == LS_ALL_TO_ALL)
        return slices / n;
    return k == LS_ALL_GATHER || k == LS_REDUCE_SCATTER ? slices : 2 * slices / n;
}

static bool is_message(const ls_collective_desc *d) { return d->kind == LS_SEND || d->kind == LS_RECEIVE; }
static bool sums(ls_collective_kind k) { return k == LS_REDUCE_SCATTER || k == LS_ALL_REDUCE; }

static ls_dtype travels(const ls_collective_desc *d)
{
    if (sums(d->kind))
        return d->via;
    return d->kind == LS_ALL_GATHER && ls_dtype_size(d->to) < ls_dtype_size(d->from) ? d->to : d->from;
}

/* ---- making one */

static ls_status check_types(const ls_collective_desc *d)
{
    const char *name = NAMES[d->kind];
    if (sums(d->kind) &&
        (!ls_dtype_is_float(d->from) || !ls_dtype_is_float(d->via) || !ls_dtype_is_float(d->to)))
        return ls_fail(LS_E_ARG, "%s: %s of %s via %s to %s: floats are needed", d->label, name,
                       ls_dtype_name(d->from), ls_dtype_name(d->via), ls_dtype_name(d->to));
    if (d->kind == LS_ALL_GATHER && d->from != d->to &&
        (!ls_dtype_is_float(d->from) || !ls_dtype_is_float(d->to)))
        return ls_fail(LS_E_ARG, "%s: %s cannot convert %s to %s", d->label, name, ls_dtype_name(d->from),
                       ls_dtype_name(d->to));
    if (d->kind == LS_ALL_REDUCE_MAX && ((d->from != LS_F32 && d->from != LS_F64) || d->to != d->from))
        return ls_fail(LS_E_ARG, "%s: %s takes f32 or f64 and gives the same, not %s to %s", d->label, name,
                       ls_dtype_name(d->from), ls_dtype_name(d->to));
    if (d->kind == LS_ALL_REDUCE_WIDE && (d->from != LS_I64 || d->to != LS_I64 || d->count % 2))
        return ls_fail(LS_E_ARG, "%s: %s takes pairs of i64, not %lld of %s", d->label, name,
                       (long long)d->count, ls_dtype_name(d->from));
    return LS_OK;
}

/* Finds the members' operands in the window, whose axis has at least these members. */
static ls_status find_operands(ls_collective *c)
{
    const ls_window *w = c->d.window;
    const bool message = is_message(&c->d);
    size_t bytes = (size_t)c->d.count * ls_dtype_size(c->d.from) *
                   (size_t)(c->d.kind == LS_REDUCE_SCATTER ? c->axis->n : 1);
    bytes = message ? LS_MAILBOX_BYTES(bytes) : bytes;
    if (c->d.offset > w->bytes || bytes > w->bytes - c->d.offset)
        return ls_fail(LS_E_ARG, "%s: the operand, %zu bytes at %zu, is larger than the window, %zu bytes",
                       c->d.label, bytes, c->d.offset, w->bytes);
    for (int i = 0, at = 0; i < c->axis->n; i++) {
        while (at < w->axis->n && w->axis->members[at] != c->axis->members[i])
            at++;
        if (at == w->axis->n)
            return ls_fail(LS_E_ARG, "%s: rank %d of axis \"%s\" has no part in the window of axis \"%s\"",
                           c->d.label, c->axis->members[i], c->axis->name, w->axis->name);
        c->operand[i] = w->peer[at] ? w->peer[at] + (c->d.offsets ? c->d.offsets[i] : c->d.offset) : NULL;
    }
    return LS_OK;
}

ls_status ls_collective_create(ls_collective **out, const ls_collective_desc *d)
{
    int n = d->axis->n;
    *out = NULL;
    ls_collective *c = ls_sys_calloc(1, sizeof *c);
    if (!c)
        return ls_fail(LS_E_MEMORY, "no memory for %s", d->label);
    *c = (ls_collective){ .d = *d,
                          .axis = d->axis,
                          .travels = travels(d),
                          .operand = ls_sys_calloc((size_t)n, sizeof *c->operand),
                          .pieces = ls_sys_calloc((size_t)n, sizeof *c->pieces) };
    c->bytes = d->map_to && d->from == d->to ? 0
                                             : (int64_t)ls_collective_bytes(d->kind, n, d->count, c->travels);
    ls_status s = c->operand && c->pieces ? LS_OK : ls_fail(LS_E_MEMORY, "no memory for %s", d->label);
    if (s == LS_OK)
        s = check_types(d);
    if (s == LS_OK && d->map_from)
        c->operand[d->axis->position] = d->map_from; /* (no other member reads it) */
    else if (s == LS_OK)
        s = find_operands(c);
    if (s == LS_OK && c->axis->route && (!is_message(d) || !c->operand[d->peer]))
        s = ls_remote_create(c);
    if (s != LS_OK) {
        ls_collective_destroy(&c);
        return s;
    }
    c->stream = d->count * (d->kind == LS_ALL_GATHER ? n : 1) * (int64_t)ls_dtype_size(d->to) >= STREAM_BYTES;
    c->in_place = !is_message(d) && d->kind != LS_ALL_TO_ALL && c->operand[d->axis->position] == d->result &&
                  d->kind != LS_ALL_GATHER && d->kind != LS_REDUCE_SCATTER;
    *out = c;
    return LS_OK;
}

void ls_collective_destroy(ls_collective **c)
{
    if (!*c)
        return;
    ls_remote_destroy(*c);
    free((*c)->operand);
    free((*c)->pieces);
    free(*c);
    *c = NULL;
}

/* ---- running one */

static ls_status await_members(ls_collective *c, uint32_t count)
{
    return ls_axis_await_all(c->axis, LS_TICKS, count, c->d.label);
}

ls_status ls_collective_start(ls_collective *c)
{
    const ls_collective_desc *d = &c->d;
    ls_axis *a = c->axis;
    LS_TRY(ls_fault_point(a->group));
    LS_TRY(ls_call_point(a->group));
    if (is_message(d))
        return LS_OK;
    if (d->kind == LS_ALL_TO_ALL)
        LS_TRY(ls_rows_check_room(c));
    if (a->route) {
        ls_remote_start(c);
        return LS_OK;
    }
    if (d->map_to)
        ls_convert(d->map_to + (size_t)a->position * (size_t)d->count * ls_dtype_size(d->to), d->to,
                   c->operand[a->position], d->from, d->count, false, d->threads);
    if (a->n > 1 && (!d->settled || d->map_to))
        c->ready = ls_axis_raise(a, LS_TICKS);
    return LS_OK;
}

/* Begins with this rank's slice and continues with the next positions. So it does not wait at first, and the
 * members do not all read the same memory at once. */
static ls_status collective_gather(ls_collective *c)
{
    const ls_collective_desc *d = &c->d;
    ls_axis *a = c->axis;
    size_t slice = (size_t)d->count * ls_dtype_size(d->to);
    if (d->map_to)
        return await_members(c, c->ready);
    for (int i = 0; i < a->n; i++) {
        int p = (a->position + i) % a->n;
        if (i && !d->settled)
            LS_TRY(ls_axis_await(a, LS_TICKS, p, c->ready, d->label));
        ls_convert((char *)d->result + (size_t)p * slice, d->to, c->operand[p], d->from, d->count, c->stream,
                   d->threads);
    }
    return LS_OK;
}

/* Reduces `count` elements, from element `at` on, of every operand into `out`. */
static void collective_reduce(ls_collective *c, int64_t at, int64_t count, char *out)
{
    const ls_collective_desc *d = &c->d;
    for (int i = 0; i < c->axis->n; i++)
        c->pieces[i] = c->operand[i] + (size_t)at * ls_dtype_size(d->from);
    ls_reduce r = { .by = d->kind == LS_ALL_REDUCE_MAX    ? LS_BY_MAX
                          : d->kind == LS_ALL_REDUCE_WIDE ? LS_BY_WIDE_SUM
                                                          : LS_BY_SUM,
                    .from = d->from,
                    .via = sums(d->kind) ? d->via : d->from,
                    .to = d->to,
                    .n = c->axis->n,
                    .in = c->pieces,
                    .out = out,
                    .count = count,
                    .stream = c->stream && !c->in_place,
                    .threads = d->threads };
    ls_reduce_run(&r);
}

/* Piece p of n: whole cache lines, so that ranks never write to the same one. */
static int64_t piece_begin(const ls_collective *c, int p)
{
    int64_t size = (int64_t)ls_dtype_size(c->d.from), lines = (c->d.count * size + 63) / 64,
            at = lines * p / c->axis->n * 64 / size;
    return at < c->d.count ? at : c->d.count;
}

static ls_status reduce_in_place(ls_collective *c)
{
    const ls_collective_desc *d = &c->d;
    ls_axis *a = c->axis;
    size_t size = ls_dtype_size(d->from);
    char *mine = d->window->mine + d->offset;
    int64_t begin = piece_begin(c, a->position), end = piece_begin(c, a->position + 1);
    LS_TRY(await_members(c, c->ready));
    collective_reduce(c, begin, end - begin, mine + (size_t)begin * size);
    uint32_t reduced = ls_axis_raise(a, LS_TICKS);
    for (int i = 1; i < a->n; i++) {
        int p = (a->position + i) % a->n;
        begin = piece_begin(c, p), end = piece_begin(c, p + 1);
        LS_TRY(ls_axis_await(a, LS_TICKS, p, reduced, d->label));
        ls_convert(mine + (size_t)begin * size, d->from, c->operand[p] + (size_t)begin * size, d->from,
                   end - begin, false, d->threads);
    }
    /* the other members have copied this piece: the result may be changed */
    return await_members(c, ls_axis_raise(a, LS_TICKS));
}

/* Through a mailbox of the sender. Each side raises its own counter, so the sender sees how many messages
 * were taken and the receiver how many were sent. The two are LS_TICKS and LS_ARRIVALS. */
static ls_status pass_message(ls_collective *c)
{
    const ls_collective_desc *d = &c->d;
    const bool sends = d->kind == LS_SEND;
    char *box = (char *)(uintptr_t)c->operand[sends ? c->axis->position : d->peer];
    ls_counters *counters = (ls_counters *)(void *)box;
    const size_t bytes = (size_t)d->count * ls_dtype_size(d->from);
    const uint32_t mine = atomic_load(&counters->count[sends ? LS_TICKS : LS_ARRIVALS]);
    LS_TRY(ls_axis_await_at(c->axis, counters, sends ? LS_ARRIVALS : LS_TICKS, d->peer, mine + !sends,
                            d->label));
    if (sends)
        memcpy(box + LS_MAILBOX_BYTES(0), d->operand, bytes);
    else
        memcpy(d->result, box + LS_MAILBOX_BYTES(0), bytes);
    ls_counters_raise(counters, sends ? LS_TICKS : LS_ARRIVALS);
    return LS_OK;
}

static ls_status move_rows(ls_collective *c)
{
    const ls_collective_desc *d = &c->d;
    ls_axis *a = c->axis;
    for (int i = 0; i < a->n; i++) {
        const int p = (a->position + i) % a->n;
        if (i)
            LS_TRY(ls_axis_await(a, LS_TICKS, p, c->ready, d->label));
        const ls_rows rows = ls_rows_taken(c, p, a->position);
        memcpy((char *)d->result + rows.result, c->operand[p] + rows.operand, rows.bytes);
    }
    return LS_OK;
}

ls_status ls_collective_wait(ls_collective *c)
{
    const ls_collective_desc *d = &c->d;
    ls_axis *a = c->axis;
    LS_TRY(ls_fault_point(a->group));
    LS_TRY(ls_call_point(a->group));
    a->ledger.calls++;
    a->ledger.bytes += d->kind == LS_ALL_TO_ALL ? ls_rows_bytes(c) : c->bytes;
    if (is_message(d) && c->job)
        return d->kind == LS_SEND ? ls_remote_send(c) : ls_remote_receive(c);
    if (is_message(d))
        return pass_message(c);
    if (a->route)
        return ls_remote_wait(c);
    if (d->kind == LS_ALL_GATHER)
        return collective_gather(c);
    if (d->kind == LS_ALL_TO_ALL)
        return move_rows(c);
    if (c->in_place && a->n > 1)
        return reduce_in_place(c);
    LS_TRY(await_members(c, c->ready));
    collective_reduce(c, d->kind == LS_REDUCE_SCATTER ? a->position * d->count : 0, d->count, d->result);
    return LS_OK;
}
