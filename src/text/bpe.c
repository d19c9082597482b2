/* bpe.c - byte pair encoding: merges the symbols of a piece. Of all pairs, the one that was learned first is
 * merged first; of equal pairs, the leftmost. */
#include <stdlib.h>
#include <string.h>

#include "base/stop.h"
#include "base/sys.h"
#include "text.h"

/* ---- the table of merges */

ls_status ls_bpe_room(ls_bpe *b, ls_arena *a, int64_t merges)
{
    uint32_t size = 16;
    while (size < 2 * (uint64_t)merges)
        size *= 2;
    b->merges = LS_ARENA_ARRAY(a, ls_merge, size);
    LS_TRY(ls_arena_status(a));
    b->mask = size - 1;
    for (uint32_t i = 0; i < size; i++)
        b->merges[i].rank = -1;
    return LS_OK;
}

static ls_merge *merge_of(const ls_bpe *b, int32_t left, int32_t right)
{
    const uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint32_t at = (uint32_t)(pair * 0x9e3779b97f4a7c15u >> 32) & b->mask;
    while (b->merges[at].rank >= 0 && b->merges[at].pair != pair)
        at = (at + 1) & b->mask;
    return &b->merges[at];
}

void ls_bpe_put(ls_bpe *b, int32_t left, int32_t right, int32_t rank, int32_t id)
{
    *merge_of(b, left, right) = (ls_merge){ (uint64_t)(uint32_t)left << 32 | (uint32_t)right, rank, id };
}

/* ---- merging a piece */

/* A symbol of the piece: bytes [begin, end) of it. before, after: the indices of its neighbours; -1: none. id
 * -1: it was merged into its left neighbour. */
typedef struct symbol {
    int32_t id, before, after;
    uint32_t begin, end;
} symbol;
/* Two neighbours that can be merged. at: index of the left one; left, right: their ids when the candidate was
 * made; id: the result. */
typedef struct candidate {
    int32_t rank, at, left, right, id;
} candidate;

typedef struct work {
    const ls_bpe *b;
    const ls_encoding *out;
    symbol *symbols;
    candidate *heap; /* a heap: the smallest (rank, at) is first */
    int32_t n, heap_n;
} work;

static bool less(const candidate *x, const candidate *y)
{
    return x->rank != y->rank ? x->rank < y->rank : x->at < y->at;
}

static void push(work *w, candidate c)
{
    int32_t i = w->heap_n++;
    for (; i > 0 && less(&c, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = c;
}

static candidate pop(work *w)
{
    const candidate top = w->heap[0], last = w->heap[--w->heap_n];
    int32_t i = 0;
    for (int32_t child; (child = 2 * i + 1) < w->heap_n; i = child) {
        child += child + 1 < w->heap_n && less(&w->heap[child + 1], &w->heap[child]);
        if (!less(&w->heap[child], &last))
            break;
        w->heap[i] = w->heap[child];
    }
    w->heap[i] = last;
    return top;
}

static void consider(work *w, int32_t at)
{
    const symbol *s = &w->symbols[at];
    if (at < 0 || s->after < 0)
        return;
    const int32_t right = w->symbols[s->after].id;
    const ls_merge *m = merge_of(w->b, s->id, right);
    if (m->rank >= 0)
        push(w, (candidate){ m->rank, at, s->id, right, m->id });
}

static bool may(const ls_encoding *e, int32_t id, size_t begin, size_t end)
{
    return ls_encoding_may(e, id, ls_range_of(e->from, begin, end));
}

static void add_symbol(work *w, int32_t id, size_t begin, size_t end)
{
    if (w->n > 0)
        w->symbols[w->n - 1].after = w->n;
    w->symbols[w->n] = (symbol){ id, w->n - 1, -1, (uint32_t)begin, (uint32_t)end };
    w->n++;
}

/* Adds the character at `at`. One that is not a token becomes byte tokens, the unknown token (once for a run
 * of such characters), or nothing. */
static void add_character(work *w, const char *piece, size_t at, size_t bytes, bool *was_unknown)
{
    const ls_bpe *b = w->b;
    const char *c = piece + at;
    const int32_t found = ls_vocab_find(b->vocab, c, bytes),
                  id = may(w->out, found, at, at + bytes) ? found : -1;
    bool known = b->byte_fallback;
    for (size_t i = 0; i < bytes; i++)
        known = known && b->byte_ids[(uint8_t)c[i]] >= 0;
    if (id >= 0)
        add_symbol(w, id, at, at + bytes);
    else if (known)
        for (size_t i = 0; i < bytes; i++)
            add_symbol(w, b->byte_ids[(uint8_t)c[i]], at + i, at + i + 1);
    else if (b->unknown >= 0 && b->fuse_unknown && *was_unknown)
        w->symbols[w->n - 1].end = (uint32_t)(at + bytes);
    else if (b->unknown >= 0)
        add_symbol(w, b->unknown, at, at + bytes);
    *was_unknown = id < 0 && !known;
}

static ls_status merge_all(work *w)
{
    for (int32_t i = 0; i < w->n; i++)
        consider(w, i);
    for (uint32_t turn = 1; w->heap_n > 0; turn++) {
        const candidate c = pop(w);
        if (turn % (1 << 16) == 0)
            LS_TRY(ls_stop_check("encoding a word of %d characters", w->n));
        symbol *s = &w->symbols[c.at];
        if (s->id != c.left || s->after < 0 || w->symbols[s->after].id != c.right)
            continue; /* one of the two has been merged in the meantime */
        symbol *gone = &w->symbols[s->after];
        s->id = c.id;
        s->end = gone->end;
        s->after = gone->after;
        gone->id = -1;
        if (s->after >= 0)
            w->symbols[s->after].before = c.at;
        consider(w, c.at);
        if (s->before >= 0)
            consider(w, s->before);
    }
    return LS_OK;
}

ls_status ls_bpe_encode(const ls_bpe *b, const char *piece, size_t n, ls_encoding *out)
{
    const int32_t whole = b->ignore_merges ? ls_vocab_find(b->vocab, piece, n) : -1;
    if (whole >= 0 && may(out, whole, 0, n))
        return ls_encoding_put(out, whole, 0, n);
    enum { FEW = 64 };
    symbol few_symbols[FEW];
    candidate few_heap[3 * FEW]; /* room for the pairs at first, and two more for each merge */
    work w = { b, out, few_symbols, few_heap, 0, 0 };
    if (n > FEW) {
        w.symbols = ls_sys_malloc(sizeof *w.symbols * n);
        w.heap = ls_sys_malloc(sizeof *w.heap * 3 * n);
        if (!w.symbols || !w.heap) {
            free(w.symbols);
            free(w.heap);
            return ls_fail(LS_E_MEMORY, "no memory for a piece of %zu bytes", n);
        }
    }
    uint32_t c;
    bool was_unknown = false;
    for (size_t i = 0, bytes; i < n; i += bytes) {
        bytes = ls_utf8_next(piece + i, &c);
        add_character(&w, piece, i, bytes, &was_unknown);
    }
    ls_status s = merge_all(&w);
    for (int32_t i = 0; i < w.n && s == LS_OK; i++)
        if (w.symbols[i].id >= 0)
            s = ls_encoding_put(out, w.symbols[i].id, w.symbols[i].begin, w.symbols[i].end);
    if (n > FEW) {
        free(w.symbols);
        free(w.heap);
    }
    return s;
}
