/* rows.c - see rows.h. */
#include "rows.h"

#include "axis_own.h"

/* How many rows member `from` has for the groups of member `to`, and where they begin among its rows. */
static int64_t rows_for(const ls_collective *c, int from, int to, int64_t *begin)
{
    const ls_collective_desc *d = &c->d;
    const int64_t own = d->groups / c->axis->n;
    const int32_t *begins = d->begins + from * (d->groups + 1);
    *begin = begins[to * own];
    return begins[(to + 1) * own] - *begin;
}

/* Where the rows of member `from` begin among those that member `to` has received. */
static int64_t received_at(const ls_collective *c, int from, int to)
{
    int64_t at = 0, begin;
    for (int i = 0; i < from; i++)
        at += rows_for(c, i, to, &begin);
    return at;
}

ls_rows ls_rows_taken(const ls_collective *c, int from, int to)
{
    const size_t row = (size_t)c->d.row * ls_dtype_size(c->d.from);
    const int home = c->d.back ? to : from, there = c->d.back ? from : to;
    int64_t begin;
    const int64_t rows = rows_for(c, home, there, &begin), at = received_at(c, home, there);
    return (ls_rows){ .operand = (size_t)(c->d.back ? at : begin) * row,
                      .result = (size_t)(c->d.back ? begin : at) * row,
                      .bytes = (size_t)rows * row };
}

ls_status ls_rows_check_room(const ls_collective *c)
{
    const int64_t rows = received_at(c, c->axis->n, c->axis->position);
    if (c->d.back || rows <= c->d.room)
        return LS_OK;
    return ls_fail(LS_E_USAGE,
                   "%s: rank %d gets %lld rows for its experts, and has room for %lld; give more room "
                   "(expert_room; 0: for all that can come) and continue from the last checkpoint",
                   c->d.label, c->axis->members[c->axis->position], (long long)rows, (long long)c->d.room);
}

int64_t ls_rows_bytes(const ls_collective *c)
{
    int64_t bytes = 0;
    for (int i = 0; i < c->axis->n; i++)
        bytes += i == c->axis->position ? 0 : (int64_t)ls_rows_taken(c, i, c->axis->position).bytes;
    return bytes;
}
