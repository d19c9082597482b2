/* arena.c - a list of zeroed blocks, newest first. Block sizes double up to 1 MiB; a larger request gets a
 * block of its own. Under AddressSanitizer every allocation is a block, so that overruns are detected. */
#include "arena.h"
#include "c_locale.h"
#include "check.h"
#include "fault.h"
#include "sys.h"
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#define BLOCK_EACH 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BLOCK_EACH 1
#endif
#endif
#ifndef BLOCK_EACH
#define BLOCK_EACH 0
#endif

enum { ALIGN = 16, FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

struct ls_arena_block {
    struct ls_arena_block *next;
    size_t size, used;
    alignas(ALIGN) unsigned char data[];
};

void ls_arena_init(ls_arena *a) { *a = (ls_arena){ 0 }; }

void ls_arena_release(ls_arena *a)
{
    for (struct ls_arena_block *b = a->head, *next; b; b = next) {
        next = b->next;
#ifdef LS_DEV
        memset(b->data, 0xdd, b->used); /* a dangling pointer reads garbage, not values that look right */
#endif
        free(b);
    }
    ls_arena_init(a);
}

static struct ls_arena_block *new_block(ls_arena *a, size_t bytes)
{
    size_t size = a->head ? 2 * a->head->size : FIRST_BLOCK;
    if (size > LARGEST_BLOCK)
        size = LARGEST_BLOCK;
    if (size < bytes || BLOCK_EACH)
        size = bytes;
    LS_CHECK(size < SIZE_MAX / 2, "arena asked for %zu bytes", bytes);
    struct ls_arena_block *b = ls_sys_calloc(1, sizeof *b + size);
    if (!b)
        return NULL;
    b->size = size;
    b->next = a->head;
    a->head = b;
    return b;
}

void *ls_arena_alloc(ls_arena *a, size_t bytes)
{
    /* Rounded up to the alignment, and never 0, so that each allocation has an address of its own.
     * AddressSanitizer gets the exact size, so that its red zone begins right after it. */
    size_t take = BLOCK_EACH ? bytes : (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (take == 0)
        take = ALIGN;
    LS_CHECK(take >= bytes, "arena asked for %zu bytes", bytes);
    struct ls_arena_block *b = a->no_memory || LS_FAULT(LS_POINT_MEMORY)          ? NULL
                               : a->head && a->head->size - a->head->used >= take ? a->head
                                                                                  : new_block(a, take);
    a->no_memory = !b;
    if (!b)
        return NULL;
    void *p = b->data + b->used;
    b->used += take;
    a->bytes += take;
    return p;
}

void *ls_arena_dup(ls_arena *a, const void *p, size_t bytes)
{
    void *copy = ls_arena_alloc(a, bytes);
    if (bytes && copy)
        memcpy(copy, p, bytes);
    return copy;
}

static char nothing[1]; /* always "" */

char *ls_arena_strdup(ls_arena *a, const char *s)
{
    a->no_memory = a->no_memory || !s;
    char *copy = s ? ls_arena_dup(a, s, strlen(s) + 1) : NULL;
    return copy ? copy : nothing;
}

ls_status ls_arena_status(const ls_arena *a)
{
    return a->no_memory ? ls_fail(LS_E_MEMORY, "out of memory, after %zu bytes", a->bytes) : LS_OK;
}

ls_status ls_arena_outcome(const ls_arena *a, ls_status s) { return a->no_memory ? ls_arena_status(a) : s; }

char *ls_arena_printf(ls_arena *a, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = ls_vsnprintf(NULL, 0, format, args);
    va_end(args);
    LS_CHECK(n >= 0, "bad format \"%s\"", format);
    char *text = ls_arena_alloc(a, (size_t)n + 1);
    if (text)
        ls_vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    return text ? text : nothing;
}
