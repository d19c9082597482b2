/* arena.h - memory whose contents are freed together. Graphs, recipes and parsers allocate all that they
 * build from one arena. Arenas hold kilobytes (tensors are allocated elsewhere), so running out of memory
 * aborts with a message. */
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include "lockstep/status.h"

typedef struct ls_arena {
    struct ls_arena_block *head;
    size_t bytes; /* handed out so far */
} ls_arena;

void ls_arena_init(ls_arena *a);                 /* storage is the caller's */
void ls_arena_release(ls_arena *a);              /* frees the contents, not *a; harmless twice */
void *ls_arena_alloc(ls_arena *a, size_t bytes); /* zeroed, 16-byte aligned */
void *ls_arena_dup(ls_arena *a, const void *p, size_t bytes);
char *ls_arena_strdup(ls_arena *a, const char *s);
char *ls_arena_printf(ls_arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define LS_ARENA_NEW(a, type) ((type *)ls_arena_alloc((a), sizeof(type)))
#define LS_ARENA_ARRAY(a, type, n) ((type *)ls_arena_alloc((a), sizeof(type) * (size_t)(n)))
