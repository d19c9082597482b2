/* vocab.c - the vocabulary: tokens by id and by text. */
#include <string.h>

#include "base/hash.h"
#include "text.h"

ls_status ls_vocab_make(ls_vocab *v, ls_arena *a, int32_t size)
{
    uint32_t n = 16;
    while (n < 2 * (uint32_t)size)
        n *= 2;
    *v = (ls_vocab){ .size = size,
                     .text = LS_ARENA_ARRAY(a, const char *, size),
                     .length = LS_ARENA_ARRAY(a, uint32_t, size),
                     .table = LS_ARENA_ARRAY(a, int32_t, n),
                     .mask = n - 1 };
    LS_TRY(ls_arena_status(a));
    memset(v->table, 0xff, sizeof *v->table * n);
    return LS_OK;
}

/* The entry of a text, or the free entry where it would be. */
static int32_t *entry_of(const ls_vocab *v, const char *text, size_t n)
{
    uint32_t at = (uint32_t)ls_hash64(text, n) & v->mask;
    for (;; at = (at + 1) & v->mask) {
        const int32_t id = v->table[at];
        if (id < 0 || (v->length[id] == n && !memcmp(v->text[id], text, n)))
            return &v->table[at];
    }
}

bool ls_vocab_put(ls_vocab *v, ls_arena *a, int32_t id, const char *text, size_t n)
{
    int32_t *entry = entry_of(v, text, n);
    if (*entry >= 0 || v->text[id])
        return false;
    char *copy = ls_arena_alloc(a, n + 1);
    if (!copy)
        return true; /* the arena remembers */
    memcpy(copy, text, n);
    v->text[id] = copy;
    v->length[id] = (uint32_t)n;
    *entry = id;
    return true;
}

int32_t ls_vocab_find(const ls_vocab *v, const char *text, size_t n) { return *entry_of(v, text, n); }

void ls_find_byte_ids(const ls_vocab *v, int32_t out[256])
{
    static const char DIGITS[] = "0123456789ABCDEF";
    for (int b = 0; b < 256; b++)
        out[b] = ls_vocab_find(v, (const char[]){ '<', '0', 'x', DIGITS[b >> 4], DIGITS[b & 15], '>' }, 6);
}
