/* words.c - the words of the dialect that threads wait in, and what a kernel must not do with them. */
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- what a kernel must not do */

static const char *doing(const worker *w, int thread)
{
    const warp *p = &w->warps[thread / WARP_SIZE];
    const uint32_t bit = UINT32_C(1) << thread % WARP_SIZE;
    return p->at_barrier & bit   ? "waits at a barrier"
           : p->exchanging & bit ? "waits in an operation of the warp"
           : p->ended & bit      ? "has ended"
                                 : "could go on";
}

_Noreturn void emulated_diverged(const worker *w)
{
    fprintf(stderr, "emulator: kernel %s, block %lld: threads wait for each other at different places\n",
            w->kernel->name, w->lanes[0].place.block);
    const char *last = "", *file = NULL;
    for (int i = 0, said = 0, line = 0; i < w->threads && said < 12; i++) {
        const lane *l = &w->lanes[i];
        const char *what = doing(w, i);
        const bool waits = what[0] == 'w';
        if (what == last && (!waits || (l->file == file && l->line == line)))
            continue;
        if (waits)
            fprintf(stderr, "  thread %d %s, %s:%d\n", i, what, l->file, l->line);
        else
            fprintf(stderr, "  thread %d %s\n", i, what);
        last = what;
        file = l->file;
        line = l->line;
        said++;
    }
    abort();
}

static _Noreturn void wrong(const worker *w, const char *file, int line, const char *what,
                            const void *address)
{
    fprintf(stderr, "emulator: kernel %s, block %lld, thread %d, %s:%d: %s (%p)\n", w->kernel->name,
            w->now->place.block, w->now->place.thread, file, line, what, address);
    abort();
}

/* ---- words of the dialect */

static bool same_places(const worker *w, int first, int n)
{
    for (int i = first + 1; i < first + n; i++)
        if (w->lanes[i].line != w->lanes[first].line ||
            (w->lanes[i].file != w->lanes[first].file && strcmp(w->lanes[i].file, w->lanes[first].file) != 0))
            return false;
    return true;
}

EXPORTED void emulated_barrier(const char *file, int line)
{
    worker *w = emulated_worker;
    lane *l = w->now;
    warp *p = &w->warps[l->place.thread / WARP_SIZE];
    const uint32_t bit = UINT32_C(1) << l->place.thread % WARP_SIZE;
    l->file = file;
    l->line = line;
    p->ready &= ~bit;
    p->at_barrier |= bit;
    char *own = &w->barrier[w->barriers & 1];
    __tsan_release(own);
    if (++w->at_barrier == w->threads) {
        if (!same_places(w, 0, w->threads))
            emulated_diverged(w);
        w->at_barrier = 0;
        w->barriers++;
        for (int i = 0; i < w->n_warps; i++) {
            w->warps[i].ready = w->warps[i].all;
            w->warps[i].at_barrier = 0;
        }
        w->warp = (int)(emulated_draw(w) % (uint64_t)w->n_warps);
        emulated_draw_order(w);
    }
    emulated_wait(w);
    __tsan_acquire(own);
}

/* (memcpy would be ThreadSanitizer's, which takes these bytes for memory that the threads share) */
static void give(char *to, const char *from, size_t bytes)
{
    volatile char *t = to;
    if (bytes == 4)
        *(volatile uint32_t *)(void *)to = *(const uint32_t *)(const void *)from;
    else
        for (size_t i = 0; i < bytes; i++)
            t[i] = from[i];
}

EXPORTED const char (*emulated_warp(const void *mine, size_t bytes, const char *file, int line))[64]
{
    worker *w = emulated_worker;
    lane *l = w->now;
    const int number = l->place.thread / WARP_SIZE;
    warp *p = &w->warps[number];
    const uint32_t bit = UINT32_C(1) << l->place.thread % WARP_SIZE;
    /* two in turn: the next operation gives while others have yet to read this one */
    char(*given)[64] = p->given[l->exchanges++ & 1];
    if (bytes > sizeof *given)
        wrong(w, file, line, "more bytes than an operation of the warp takes", mine);
    give(given[l->place.thread % WARP_SIZE], mine, bytes);
    l->file = file;
    l->line = line;
    p->ready &= ~bit;
    p->exchanging |= bit;
    if (p->exchanging == p->all) {
        if (!same_places(w, number * WARP_SIZE, __builtin_popcount(p->all)))
            emulated_diverged(w);
        p->exchanging = 0;
        p->ready = p->all;
        emulated_draw_order(w);
    }
    emulated_wait(w);
    return (const char(*)[64])given;
}

/* Calls, so that they are the sanitizers', which see the memory that is read and written. */
static void *(*volatile copy_bytes)(void *, const void *, size_t) = memcpy;
static void *(*volatile set_bytes)(void *, int, size_t) = memset;

EXPORTED void emulated_aligned(const void *address, size_t bytes, const char *word, const char *file,
                               int line)
{
    char what[128];
    if ((uintptr_t)address % bytes == 0)
        return;
    snprintf(what, sizeof what, "%s at an address that is not a multiple of %zu", word, bytes);
    wrong(emulated_worker, file, line, what, address);
}

EXPORTED void emulated_copy_16(void *to, const void *from, const char *file, int line)
{
    worker *w = emulated_worker;
    lane *l = w->now;
    char *t = to, read[16];
    if ((uintptr_t)to % 16)
        wrong(w, file, line, "COPY_16 to an address that is not a multiple of 16", to);
    if ((uintptr_t)from % 16)
        wrong(w, file, line, "COPY_16 from an address that is not a multiple of 16", from);
    if (t < w->shared || t + 16 > w->shared + w->kernel->shared)
        wrong(w, file, line, "COPY_16 to an address outside the block's shared memory", to);
    if (l->n_copies == COPIES)
        wrong(w, file, line, "more copies are in flight than the emulator keeps", to);
    copy_bytes(read, from, 16); /* for the sanitizers: it is read from here on, */
    set_bytes(to, 0xff, 16);    /* and its target may have any contents */
    l->copies[l->n_copies++] = (copy){ to, from, l->group };
}

EXPORTED void emulated_copy_commit(void) { emulated_worker->now->group++; }

EXPORTED void emulated_copy_wait(int newest)
{
    lane *l = emulated_worker->now;
    int kept = 0;
    for (int i = 0; i < l->n_copies; i++)
        if (l->copies[i].group < l->group - newest)
            copy_bytes(l->copies[i].to, l->copies[i].from, 16);
        else
            l->copies[kept++] = l->copies[i];
    l->n_copies = kept;
}
