/* remote_ways.c - see remote_ways.h. */
#include "remote_ways.h"

#include "reduce.h"

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

int ls_way_rounds(int machines)
{
    int rounds = 0;
    while ((int64_t)1 << rounds < machines)
        rounds++;
    return rounds;
}

/* Equal steps of whole cache lines, of at most `most` elements. */
static void cut(ls_way *w, int64_t part, int64_t most, size_t size)
{
    const int64_t line = 64 / (int64_t)size, passes = divide_up(part, most);
    w->step = passes ? divide_up(divide_up(part, passes), line) * line : line;
    w->passes = divide_up(part, w->step);
}

static ls_way way_choose(int machines, int64_t part, int64_t piece, size_t size, bool may_double)
{
    ls_way turns = { .messages = machines - 1 },
           doubling = { .doubling = true, .messages = ls_way_rounds(machines) };
    const int64_t room = LS_REMOTE_REGION / 2 / machines / 64 * 64 / (int64_t)size;
    cut(&turns, part, piece, size);
    if (!may_double || !room)
        return turns;
    cut(&doubling, part, room, size);
    return doubling.passes * doubling.messages < turns.passes * turns.messages ? doubling : turns;
}

ls_way ls_way_to_share(int machines, int64_t part, size_t size)
{
    return way_choose(machines, part, LS_REMOTE_PIECE / (int64_t)size, size, true);
}

ls_way ls_way_to_reduce(int machines, int64_t part, size_t size, size_t wide)
{
    /* (a piece is added in a buffer of twice its size) */
    const int64_t piece = LS_REMOTE_PIECE / (int64_t)size, added = 2 * LS_REMOTE_PIECE / (int64_t)wide;
    return way_choose(machines, part, piece < added ? piece : added, wide, !(machines & (machines - 1)));
}

bool ls_way_is_whole(int machines, int64_t count, size_t wide)
{
    return machines <= LS_REDUCE_OPERANDS && machines * count * (int64_t)wide <= LS_REMOTE_WHOLE;
}

int64_t ls_way_part(int64_t count, int n) { return divide_up(divide_up(count, n), 64) * 64; }

ls_dtype ls_way_travels(int each, ls_dtype from, ls_dtype via)
{
    return each == 1 && ls_dtype_size(from) < ls_dtype_size(via) ? from : via;
}

/* ---- counting */

static void count_message(ls_message_count *t, int64_t bytes, int64_t times)
{
    if (!times || !bytes)
        return;
    t->least = !t->messages || bytes < t->least ? bytes : t->least;
    t->most = bytes > t->most ? bytes : t->most;
    t->messages += times;
    t->small += bytes < LS_REMOTE_SMALL ? times : 0;
    t->small_bytes += bytes < LS_REMOTE_SMALL ? (double)bytes * (double)times : 0;
    t->bytes += (double)bytes * (double)times;
}

/* `halves`: the messages of a sum, which get smaller. */
static void count_way(ls_message_count *t, const ls_way *w, int machines, int64_t part, size_t size,
                      bool halves)
{
    t->waits += w->doubling ? w->passes * w->messages : divide_up(w->passes * w->messages, 2);
    for (int64_t k = 0; k < w->passes; k++) {
        const int64_t left = part - k * w->step, bytes = (left < w->step ? left : w->step) * (int64_t)size;
        if (!w->doubling)
            count_message(t, bytes, w->messages);
        for (int64_t d = 1; w->doubling && d < machines; d *= 2)
            count_message(t, bytes * (halves ? machines / 2 / d : d < machines - d ? d : machines - d), 1);
    }
}

void ls_message_count_add(ls_message_count *to, const ls_message_count *more, int64_t times)
{
    if (!more->messages || !times)
        return;
    to->least = !to->messages || more->least < to->least ? more->least : to->least;
    to->most = more->most > to->most ? more->most : to->most;
    to->messages += more->messages * times;
    to->waits += more->waits * times;
    to->small += more->small * times;
    to->small_bytes += more->small_bytes * (double)times;
    to->bytes += more->bytes * (double)times;
}

ls_message_count ls_collective_messages(ls_collective_kind k, int machines, int each, int64_t count,
                                        ls_dtype from, ls_dtype via, ls_dtype to)
{
    ls_message_count t = { 0 };
    const bool gathers = k == LS_ALL_GATHER, scatters = k == LS_REDUCE_SCATTER,
               sums = scatters || k == LS_ALL_REDUCE;
    if (k == LS_SEND)
        count_message(&t, machines > 1 ? count * (int64_t)ls_dtype_size(from) : 0, 1);
    if (machines < 2 || k == LS_SEND || k == LS_RECEIVE)
        return t;
    if (k == LS_ALL_TO_ALL) { /* an even share for each rank of the other machines */
        const int64_t others = (int64_t)(machines - 1) * each;
        count_message(&t, count / (machines * each) * (int64_t)ls_dtype_size(from), others);
        t.waits = others;
        return t;
    }
    const ls_dtype by = sums ? via : from, travels = ls_way_travels(each, from, by),
                   sent = ls_dtype_size(to) < ls_dtype_size(from) ? to : from;
    const size_t wide = ls_dtype_size(by), size = ls_dtype_size(travels);
    if (!gathers && !scatters && ls_way_is_whole(machines, count, wide)) {
        const ls_way w = { true, 1, count, ls_way_rounds(machines) };
        count_way(&t, &w, machines, count, wide, false);
        return t;
    }
    const int64_t part = gathers || scatters ? count : ls_way_part(count, machines * each);
    if (!gathers) {
        const ls_way w = ls_way_to_reduce(machines, part, size, wide);
        count_way(&t, &w, machines, part, w.doubling ? wide : size, true);
    }
    if (!scatters) {
        const ls_way w = ls_way_to_share(machines, part, ls_dtype_size(gathers ? sent : to));
        count_way(&t, &w, machines, part, ls_dtype_size(gathers ? sent : to), false);
    }
    return t;
}
