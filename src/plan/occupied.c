/* occupied.c - see occupied.h. A binary tree over the steps: node 1 is all of them, node k has the halves 2k
 * and 2k + 1, and step i is node leaves + i. A lifetime is the union of few nodes, the largest ones inside
 * it. Each node has two lists of ranges of bytes, in order, and without neighbours that touch:
 *
 *   full   what lifetimes occupy that the node is one of those of
 *   some   what lifetimes occupy that have such a node here or below
 *
 * What is occupied in a range of steps is therefore `some` of its own nodes, and `full` of the nodes above
 * its first and its last step. */
#include "occupied.h"

#include <stdlib.h>
#include <string.h>

#include "base/sys.h"

typedef struct ls_byte_ranges {
    struct byte_range {
        size_t begin, end;
    } * list;
    int n, room;
} ls_byte_ranges;

ls_status ls_occupied_init(ls_occupied *o, int n_steps)
{
    *o = (ls_occupied){ .leaves = 1 };
    while (o->leaves < n_steps)
        o->leaves *= 2;
    o->some = ls_sys_calloc(2 * (size_t)o->leaves, sizeof *o->some);
    o->full = ls_sys_calloc(2 * (size_t)o->leaves, sizeof *o->full);
    return ls_sys_have(o->some && o->full ? o : NULL);
}

void ls_occupied_release(ls_occupied *o)
{
    for (int k = 0; o->some && o->full && k < 2 * o->leaves; k++) {
        free(o->some[k].list);
        free(o->full[k].list);
    }
    free(o->some);
    free(o->full);
    *o = (ls_occupied){ 0 };
}

void ls_occupied_clear(ls_occupied *o)
{
    for (int k = 0; k < 2 * o->leaves; k++)
        o->some[k].n = o->full[k].n = 0;
}

/* The first range that ends at `at` or later. */
static int first_behind(const ls_byte_ranges *r, size_t at)
{
    int low = 0, high = r->n;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (r->list[mid].end < at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* *more: whether the list did not have all of these bytes. */
static ls_status add_range(ls_byte_ranges *r, size_t begin, size_t end, bool *more)
{
    const int at = first_behind(r, begin);
    int behind = at;
    *more = !(at < r->n && r->list[at].begin <= begin && r->list[at].end >= end);
    if (!*more)
        return LS_OK;
    struct byte_range *list = ls_sys_grow(r->list, r->n, &r->room, sizeof *list);
    LS_TRY(ls_sys_have(list));
    r->list = list;
    for (; behind < r->n && list[behind].begin <= end; behind++) {
        begin = list[behind].begin < begin ? list[behind].begin : begin;
        end = list[behind].end > end ? list[behind].end : end;
    }
    memmove(list + at + 1, list + behind, sizeof *list * (size_t)(r->n - behind));
    list[at] = (struct byte_range){ begin, end };
    r->n += 1 - (behind - at);
    return LS_OK;
}

static ls_status add_node(ls_occupied *o, int node, size_t begin, size_t end)
{
    bool more;
    LS_TRY(add_range(&o->full[node], begin, end, &more));
    for (more = true; node && more; node /= 2) /* (what a node has, the nodes above it have, too) */
        LS_TRY(add_range(&o->some[node], begin, end, &more));
    return LS_OK;
}

ls_status ls_occupied_add(ls_occupied *o, int first, int last, size_t begin, size_t end)
{
    if (begin == end)
        return LS_OK;
    for (int a = first + o->leaves, b = last + o->leaves + 1; a < b; a /= 2, b /= 2) {
        if (a % 2)
            LS_TRY(add_node(o, a++, begin, end));
        if (b % 2)
            LS_TRY(add_node(o, --b, begin, end));
    }
    return LS_OK;
}

typedef struct cursor {
    const struct byte_range *at, *end;
} cursor;

static void look_at(cursor *c, int *n, const ls_byte_ranges *r)
{
    if (r->n)
        c[(*n)++] = (cursor){ r->list, r->list + r->n };
}

size_t ls_occupied_lowest(const ls_occupied *o, int first, int last, size_t size)
{
    cursor lists[4 * 8 * sizeof(int)];
    int n = 0;
    for (int a = first + o->leaves, b = last + o->leaves + 1; a < b; a /= 2, b /= 2) {
        if (a % 2)
            look_at(lists, &n, &o->some[a++]);
        if (b % 2)
            look_at(lists, &n, &o->some[--b]);
    }
    for (int a = first + o->leaves, b = last + o->leaves; a; a /= 2, b /= 2) {
        look_at(lists, &n, &o->full[a]);
        if (b != a)
            look_at(lists, &n, &o->full[b]);
    }
    size_t lowest = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < n; i++) {
            cursor *c = &lists[i];
            for (; c->at < c->end && c->at->begin < lowest + size; c->at++)
                if (c->at->end > lowest) {
                    lowest = c->at->end;
                    moved = true;
                }
        }
    }
    return lowest;
}
