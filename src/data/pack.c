#include "data/pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/sys.h"

/* The windows by the room that is left in them: for each room a list, and two levels of bits, which find the
 * next room that has a window without looking at all of them. */
typedef struct rooms {
    int64_t *top, *next;   /* top[room]: the last window opened or filled to it; next[window]; -1: none */
    uint64_t *here, *some; /* bit r of `here`: top[r] is a window; bit w of `some`: here[w] has a bit */
    int64_t words;         /* of `here` */
} rooms;

enum { BITS = 64 };

static int64_t words_of(int64_t bits) { return (bits + BITS - 1) / BITS; }

/* The first bit from `at` on; -1: there is none. */
static int64_t next_bit(const uint64_t *bits, int64_t words, int64_t at)
{
    int64_t w = at / BITS;
    uint64_t word = w < words ? bits[w] & ~UINT64_C(0) << at % BITS : 0;
    while (!word && ++w < words)
        word = bits[w];
    return word ? w * BITS + __builtin_ctzll(word) : -1;
}

/* The smallest room of at least `least` that a window has; -1: none. */
static int64_t find_room(const rooms *r, int64_t least)
{
    const int64_t w = least / BITS, in_word = next_bit(r->here, w + 1, least);
    if (in_word >= 0)
        return in_word;
    const int64_t word = next_bit(r->some, words_of(r->words), w + 1);
    return word < 0 ? -1 : word * BITS + __builtin_ctzll(r->here[word]);
}

static void add_window(rooms *r, int64_t room, int64_t window)
{
    r->next[window] = r->top[room];
    r->top[room] = window;
    r->here[room / BITS] |= UINT64_C(1) << room % BITS;
    r->some[room / BITS / BITS] |= UINT64_C(1) << room / BITS % BITS;
}

static int64_t take_window(rooms *r, int64_t room)
{
    const int64_t window = r->top[room], word = room / BITS;
    r->top[room] = r->next[window];
    if (r->top[room] < 0)
        r->here[word] &= ~(UINT64_C(1) << room % BITS);
    if (!r->here[word])
        r->some[word / BITS] &= ~(UINT64_C(1) << word % BITS);
    return window;
}

/* Gives each item its window; returns how many there are. order: [n], the longest first. */
static int64_t fill_windows(rooms *r, const int32_t *lengths, const int64_t *order, int64_t n, int64_t room,
                    int64_t *window)
{
    int64_t windows = 0;
    for (int64_t k = 0; k < n; k++) {
        const int64_t length = lengths[order[k]], found = find_room(r, length),
                      left = (found < 0 ? room : found) - length,
                      w = found < 0 ? windows++ : take_window(r, found);
        window[order[k]] = w;
        if (left)
            add_window(r, left, w);
    }
    return windows;
}

/* Items by length, the longest first, and of the same length in their order. start: [room + 1] of scratch */
static void sort_items(int64_t *order, const int32_t *lengths, int64_t n, int64_t room, int64_t *start)
{
    memset(start, 0, sizeof *start * (size_t)(room + 1));
    for (int64_t i = 0; i < n; i++)
        start[lengths[i] - 1]++;
    for (int64_t l = room - 1; l >= 0; l--)
        start[l] += start[l + 1];
    for (int64_t i = 0; i < n; i++)
        order[start[lengths[i]]++] = i;
}

/* Numbers the windows in the order of their first items, and lists the items of each. number: [windows] of
 * scratch */
static void list_windows(ls_packing *p, const int64_t *window, int64_t n, int64_t *number)
{
    int64_t known = 0;
    for (int64_t w = 0; w < p->windows; w++)
        number[w] = -1;
    memset(p->first, 0, sizeof *p->first * (size_t)(p->windows + 1));
    for (int64_t i = 0; i < n; i++) {
        int64_t *of = &number[window[i]];
        *of = *of < 0 ? known++ : *of;
        p->first[*of + 1]++;
    }
    for (int64_t w = 0; w < p->windows; w++)
        p->first[w + 1] += p->first[w];
    for (int64_t i = 0; i < n; i++)
        p->item[p->first[number[window[i]]]++] = i;
    memmove(p->first + 1, p->first, sizeof *p->first * (size_t)p->windows);
    p->first[0] = 0;
}

ls_status ls_packing_make(ls_packing *out, const int32_t *lengths, int64_t n, int64_t room)
{
    rooms r = { .words = words_of(room + 1) };
    *out = (ls_packing){ 0 };
    const size_t items = sizeof(int64_t) * (size_t)(n + 1);
    int64_t *window = ls_sys_malloc(items);
    r.top = ls_sys_malloc(sizeof *r.top * (size_t)(room + 1));
    r.next = ls_sys_malloc(items);
    r.here = ls_sys_calloc((size_t)r.words, sizeof *r.here);
    r.some = ls_sys_calloc((size_t)words_of(r.words), sizeof *r.some);
    out->first = ls_sys_malloc(items);
    out->item = ls_sys_malloc(items);
    const bool have = window && r.top && r.next && r.here && r.some && out->first && out->item;
    if (have) {
        sort_items(out->item, lengths, n, room, r.top);
        memset(r.top, 0xff, sizeof *r.top * (size_t)(room + 1));
        out->windows = fill_windows(&r, lengths, out->item, n, room, window);
        list_windows(out, window, n, r.next);
    } else
        ls_packing_release(out);
    free(window);
    free(r.top);
    free(r.next);
    free(r.here);
    free(r.some);
    return have ? LS_OK : ls_fail(LS_E_MEMORY, "no memory to pack %lld documents", (long long)n);
}

void ls_packing_release(ls_packing *p)
{
    free(p->first);
    free(p->item);
    *p = (ls_packing){ 0 };
}
