/* linked.c - a collective over a link: its sizes, and the contents of its scratch memory. */
#include "linked.h"
#include "strides.h"

/* a piece of an all_reduce is a multiple of this, so that all pieces are aligned */
enum { WHOLE_ELEMENTS = 64 };

static ls_dtype travels(const ls_plan_collective *c)
{
    if (c->kind == LS_REDUCE_SCATTER || c->kind == LS_ALL_REDUCE)
        return c->via;
    return c->kind == LS_ALL_GATHER && ls_dtype_size(c->to) < ls_dtype_size(c->from) ? c->to : c->from;
}

static size_t room(ls_linked *l, size_t bytes)
{
    const size_t at = l->bytes;
    l->bytes += ls_align_up(bytes);
    return at;
}

static void linked_gather(ls_linked *l, const ls_plan_collective *c)
{
    l->each = c->count;
    l->receives = l->travels != c->to;
}

static void scatter(ls_linked *l, const ls_plan_collective *c)
{
    l->each = c->count;
    l->sends = l->travels != c->from;
    l->receives = true;
}

static void linked_reduce(ls_linked *l, const ls_plan_collective *c)
{
    const int64_t each = (c->count + c->n - 1) / c->n;
    l->whole = c->count * c->n * (int64_t)ls_dtype_size(l->travels) <= LS_LINKED_WHOLE;
    l->each = ((l->whole ? c->count : each) + WHOLE_ELEMENTS - 1) / WHOLE_ELEMENTS * WHOLE_ELEMENTS;
    l->receives = true;
    if (l->whole)
        return;
    l->sends = l->travels != c->from || l->each * c->n != c->count;
    l->makes = l->each * c->n != c->count;
    l->made = (size_t)l->each * ls_dtype_size(c->to);
}

ls_linked ls_linked_of(const ls_plan_collective *c)
{
    ls_linked l = { .travels = travels(c) };
    const size_t n = (size_t)c->n;
    (c->kind == LS_ALL_GATHER       ? linked_gather
     : c->kind == LS_REDUCE_SCATTER ? scatter
                                    : linked_reduce)(&l, c);
    l.piece = (size_t)l.each * ls_dtype_size(l.travels);
    l.at_sent = l.sends ? room(&l, n * l.piece) : 0;
    l.at_received = l.receives ? room(&l, n * l.piece) : 0;
    l.at_made = l.makes ? room(&l, n * l.made) : 0;
    return l;
}
