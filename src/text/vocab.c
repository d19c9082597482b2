/* vocab.c - the vocabulary: tokens by id and by text. */
#include <string.h>

#include "base/hash.h"
#include "text.h"

ls_status ls_vocab_make(ls_vocab *v, ls_arena *a, int32_t size)
{
    uint32_t slots = 16;
    while (slots < 2 * (uint32_t)size)
        slots *= 2;
    *v = (ls_vocab){ .size = size,
                     .text = LS_ARENA_ARRAY(a, const char *, size),
                     .length = LS_ARENA_ARRAY(a, uint32_t, size),
                     .slots = LS_ARENA_ARRAY(a, int32_t, slots),
                     .mask = slots - 1 };
    LS_TRY(ls_arena_status(a));
    memset(v->slots, 0xff, sizeof *v->slots * slots);
    return LS_OK;
}

/* The slot of a text, or the free slot where it would be. */
static int32_t *slot_of(const ls_vocab *v, const char *text, size_t n)
{
    uint32_t at = (uint32_t)ls_hash64(text, n) & v->mask;
    for (;; at = (at + 1) & v->mask) {
        const int32_t id = v->slots[at];
        if (id < 0 || (v->length[id] == n && !memcmp(v->text[id], text, n)))
            return &v->slots[at];
    }
}

bool ls_vocab_put(ls_vocab *v, ls_arena *a, int32_t id, const char *text, size_t n)
{
    int32_t *slot = slot_of(v, text, n);
    if (*slot >= 0 || v->text[id])
        return false;
    char *copy = ls_arena_alloc(a, n + 1);
    if (!copy)
        return true; /* the arena remembers */
    memcpy(copy, text, n);
    v->text[id] = copy;
    v->length[id] = (uint32_t)n;
    *slot = id;
    return true;
}

int32_t ls_vocab_find(const ls_vocab *v, const char *text, size_t n) { return *slot_of(v, text, n); }

void ls_find_byte_ids(const ls_vocab *v, int32_t out[256])
{
    static const char DIGITS[] = "0123456789ABCDEF";
    for (int b = 0; b < 256; b++)
        out[b] = ls_vocab_find(v, (const char[]){ '<', '0', 'x', DIGITS[b >> 4], DIGITS[b & 15], '>' }, 6);
}
