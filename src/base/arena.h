/* arena.h - memory whose contents are freed together. Graphs, recipes and parsers allocate all that they
 * build from one arena. An arena remembers that memory ran out: from then on it gives none (NULL, and "" for
 * a text), and ls_arena_status says so. Ask it, or look at the pointer, before writing to what it gave. */
#pragma once
#include <stdarg.h>
#include <stddef.h>
#include "lockstep/status.h"

typedef struct ls_arena {
    struct ls_arena_block *head;
    size_t bytes; /* handed out so far */
    bool no_memory;
} ls_arena;

void ls_arena_init(ls_arena *a);                 /* storage is the caller's */
void ls_arena_release(ls_arena *a);              /* frees the contents, not *a; harmless twice */
void *ls_arena_alloc(ls_arena *a, size_t bytes); /* zeroed, 16-byte aligned */
void *ls_arena_dup(ls_arena *a, const void *p, size_t bytes);
/* never NULL: "" without memory, and of NULL, which stands for a text that there was no memory for */
char *ls_arena_strdup(ls_arena *a, const char *s);
char *ls_arena_printf(ls_arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
ls_status ls_arena_status(const ls_arena *a); /* LS_E_MEMORY: something that was asked for is missing */
/* `s`, unless memory ran out: then that is the reason of whatever else went wrong. */
ls_status ls_arena_outcome(const ls_arena *a, ls_status s);
#define LS_ARENA_NEW(a, type) ((type *)ls_arena_alloc((a), sizeof(type)))
#define LS_ARENA_ARRAY(a, type, n) ((type *)ls_arena_alloc((a), sizeof(type) * (size_t)(n)))
