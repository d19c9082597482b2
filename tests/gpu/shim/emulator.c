/* emulator.c - runs kernels on the host: each thread of a block by itself, on a stack of its own once it has
 * to wait. A drawn warp runs until a barrier, its threads in drawn order, so warps get as far apart as the
 * barriers let them, and a missing barrier shows. What is not yet there is NaN: shared memory when a block
 * begins, and the target of an asynchronous copy until the wait for it.
 *
 * ThreadSanitizer takes each thread of a block for a thread. Barriers, and the begin and the end of a launch,
 * order memory accesses; operations of a warp and the switch from one thread to another do not. It knows the
 * history of each address, so each block has shared memory of its own there. */
#define _GNU_SOURCE
#include "emulator.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "fiber.h"

#if defined(EMULATOR_TSAN)
void __tsan_acquire(void *at), __tsan_release(void *at);
#else
static void __tsan_acquire(void *at) { (void)at; }
static void __tsan_release(void *at) { (void)at; }
#endif

enum { MOST_THREADS = 1024, WARP_SIZE = 32, MOST_SHARED = 256 << 10, PAGE = 4096, COPIES = 128 };

typedef struct copy {
    void *to;
    const void *from;
    int group;
} copy;

typedef struct lane {
    emulated_place place;
    fiber *on;        /* it has begun, and runs or waits here */
    const char *file; /* where it waits */
    int line;
    unsigned exchanges;
    int group, n_copies;
    copy copies[COPIES];
#if defined(EMULATOR_TSAN)
    fiber own;
#endif
} lane;

/* Masks of the warp's threads; each thread is in one of the four. */
typedef struct warp {
    uint32_t all, ready, at_barrier, exchanging, ended;
    char given[2][WARP_SIZE][64];
} warp;

/* What a thread of the host runs blocks with. */
typedef struct worker {
    const emulated_kernel *kernel;
    const void *args;
    lane lanes[MOST_THREADS];
    warp warps[MOST_THREADS / WARP_SIZE];
    int threads, n_warps, live, at_barrier;
    lane *now;
    int warp;            /* that runs */
    uint32_t a, b, turn; /* its order of threads: (a * turn + b) % 32 */
    uint64_t drawn, switches;
    fiber thread, *idle; /* fibers that run no thread */
    char *shared_map;    /* ends at a page that cannot be touched */
    size_t shared_used;  /* of shared_map, where no block gets the memory of another one */
    char *shared;
    int barrier; /* its address stands for the barrier */
} worker;

#define EXPORTED __attribute__((visibility("default")))
EXPORTED _Thread_local emulated_place *emulated_here;
static _Thread_local worker *own;
static int begin_of_launch, end_of_launch; /* their addresses stand for them */
static uint64_t all_switches;

EXPORTED uint64_t emulated_switches(void) { return __atomic_load_n(&all_switches, __ATOMIC_RELAXED); }

/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014) */
static uint64_t draw(worker *w)
{
    uint64_t x = w->drawn += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

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

static _Noreturn void diverged(const worker *w)
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

/* ---- turns */

static void draw_order(worker *w)
{
    const uint64_t x = draw(w);
    w->a = (uint32_t)x | 1;
    w->b = (uint32_t)(x >> 32);
    w->turn = 0;
}

/* The thread that runs next; NULL: none can. */
static lane *next(worker *w)
{
    warp *p = &w->warps[w->warp];
    if (!p->ready) {
        if (p->exchanging)
            diverged(w);
        const int n = w->n_warps, start = n > 1 ? (int)(draw(w) % (uint64_t)n) : 0;
        for (int i = 0; i < n && !p->ready; i++) {
            w->warp = (start + i) % n;
            p = &w->warps[w->warp];
        }
        if (!p->ready)
            return NULL;
        draw_order(w);
    }
    uint32_t l;
    do
        l = (w->a * w->turn++ + w->b) % WARP_SIZE;
    while (!(p->ready >> l & 1));
    w->switches++;
    return &w->lanes[w->warp * WARP_SIZE + (int)l];
}

static void fiber_main(void);

static fiber *fiber_of(worker *w, lane *l)
{
    if (l->on)
        return l->on;
#if defined(EMULATOR_TSAN)
    (void)w;
    if (!l->own.stack)
        fiber_make(&l->own, fiber_main);
    return l->on = &l->own;
#else
    fiber *f = w->idle;
    if (f) {
        w->idle = f->next;
    } else {
        if (!(f = calloc(1, sizeof *f)))
            abort();
        fiber_make(f, fiber_main);
    }
    return l->on = f;
#endif
}

static void go(worker *w, fiber *from, lane *to)
{
    w->now = to;
    emulated_here = &to->place;
    fiber *f = fiber_of(w, to);
    if (f != from)
        fiber_switch(from, f);
}

/* The running thread is not ready: another one runs until it is. */
static void wait_here(worker *w)
{
    lane *me = w->now, *to = next(w);
    if (!to)
        diverged(w);
    go(w, me->on, to);
}

static void set_idle(worker *w, fiber *f)
{
#if !defined(EMULATOR_TSAN)
    f->next = w->idle;
    w->idle = f;
#else
    (void)w;
    (void)f;
#endif
}

/* Runs one thread of a block after the other. It goes on with another one on the same stack, unless that has
 * a stack. */
static void fiber_main(void)
{
    worker *w = own;
    fiber *f = w->now->on;
    fiber_begun(f);
    for (;;) {
        lane *l = w->now;
        __tsan_acquire(&begin_of_launch);
        w->kernel->run(w->args, w->shared);
        __tsan_release(&end_of_launch);
        warp *p = &w->warps[l->place.thread / WARP_SIZE];
        const uint32_t bit = UINT32_C(1) << l->place.thread % WARP_SIZE;
        p->ready &= ~bit;
        p->ended |= bit;
        w->live--;
        l->on = NULL;
        lane *to = next(w);
        if (!to && w->live)
            diverged(w);
#if !defined(EMULATOR_TSAN)
        if (to && !to->on) {
            to->on = f;
            w->now = to;
            emulated_here = &to->place;
            continue;
        }
#endif
        set_idle(w, f);
        if (to)
            go(w, f, to);
        else
            fiber_switch(f, &w->thread);
    }
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
    worker *w = own;
    lane *l = w->now;
    warp *p = &w->warps[l->place.thread / WARP_SIZE];
    const uint32_t bit = UINT32_C(1) << l->place.thread % WARP_SIZE;
    l->file = file;
    l->line = line;
    p->ready &= ~bit;
    p->at_barrier |= bit;
    __tsan_release(&w->barrier);
    if (++w->at_barrier == w->threads) {
        if (!same_places(w, 0, w->threads))
            diverged(w);
        w->at_barrier = 0;
        for (int i = 0; i < w->n_warps; i++) {
            w->warps[i].ready = w->warps[i].all;
            w->warps[i].at_barrier = 0;
        }
        w->warp = (int)(draw(w) % (uint64_t)w->n_warps);
        draw_order(w);
    }
    wait_here(w);
    __tsan_acquire(&w->barrier);
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
    worker *w = own;
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
            diverged(w);
        p->exchanging = 0;
        p->ready = p->all;
        draw_order(w);
    }
    wait_here(w);
    return (const char(*)[64])given;
}

EXPORTED void emulated_copy_16(void *to, const void *from, const char *file, int line)
{
    worker *w = own;
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
    memcpy(read, from, 16); /* for the sanitizers: it is read from here on, */
    __asm__ volatile("" ::"r"(read) : "memory");
    memset(to, 0xff, 16); /* and its target may have any contents */
    l->copies[l->n_copies++] = (copy){ to, from, l->group };
}

EXPORTED void emulated_copy_commit(void) { own->now->group++; }

EXPORTED void emulated_copy_wait(int newest)
{
    lane *l = own->now;
    int kept = 0;
    for (int i = 0; i < l->n_copies; i++)
        if (l->copies[i].group < l->group - newest)
            memcpy(l->copies[i].to, l->copies[i].from, 16);
        else
            l->copies[kept++] = l->copies[i];
    l->n_copies = kept;
}

/* ---- blocks */

static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        fprintf(stderr, "emulator: no memory for a block\n");
        abort();
    }
    return p;
}

static size_t rounded(size_t bytes) { return (bytes + 127) / 128 * 128; }

static void launch_begins(worker *w)
{
    const size_t bytes = w->kernel->shared;
#if defined(EMULATOR_ASAN)
    void *p = NULL; /* it knows where this ends */
    if (bytes && posix_memalign(&p, 128, bytes))
        abort();
    w->shared = p;
#elif !defined(EMULATOR_TSAN)
    if (!w->shared_map) {
        w->shared_map = map(MOST_SHARED + PAGE);
        if (mprotect(w->shared_map + MOST_SHARED, PAGE, PROT_NONE))
            abort();
    }
    w->shared = w->shared_map + MOST_SHARED - rounded(bytes);
#else
    (void)bytes;
#endif
}

static void launch_ends(worker *w)
{
#if defined(EMULATOR_ASAN)
    free(w->shared);
#endif
    w->shared = NULL;
}

static void new_shared(worker *w)
{
    const size_t bytes = rounded(w->kernel->shared);
#if defined(EMULATOR_TSAN)
    enum { POOL = 64 << 20 };
    if (!w->shared_map || w->shared_used + bytes > POOL) {
        if (w->shared_map)
            munmap(w->shared_map, POOL);
        w->shared_map = map(POOL);
        w->shared_used = 0;
        __tsan_release(&begin_of_launch);
    }
    w->shared = w->shared_map + w->shared_used;
    w->shared_used += bytes;
#endif
#if defined(EMULATOR_ASAN)
    const size_t words = w->kernel->shared / 4;
    (void)bytes;
#else
    const size_t words = bytes / 4;
#endif
    for (size_t i = 0; i < words; i++)
        ((volatile uint32_t *)(void *)w->shared)[i] = UINT32_MAX;
}

static void run_block(worker *w, long long number, long long blocks)
{
    const int n = w->kernel->threads;
    new_shared(w);
    w->threads = w->live = n;
    w->n_warps = (n + WARP_SIZE - 1) / WARP_SIZE;
    w->at_barrier = 0;
    for (int i = 0; i < n; i++) {
        lane *l = &w->lanes[i];
        l->place = (emulated_place){ i, n, number, blocks };
        l->on = NULL;
        l->exchanges = 0;
        l->group = l->n_copies = 0;
    }
    for (int i = 0; i < w->n_warps; i++) {
        const int here = n - i * WARP_SIZE;
        warp *p = &w->warps[i];
        p->all = p->ready = here >= WARP_SIZE ? UINT32_MAX : (UINT32_C(1) << here) - 1;
        p->at_barrier = p->exchanging = p->ended = 0;
    }
    w->warp = (int)(draw(w) % (uint64_t)w->n_warps);
    draw_order(w);
    go(w, &w->thread, next(w));
}

static void forget_worker(void *p)
{
    worker *w = p;
    for (fiber *f = w->idle, *after; f; f = after) {
        after = f->next;
        fiber_free(f);
        free(f);
    }
#if defined(EMULATOR_TSAN)
    for (int i = 0; i < MOST_THREADS; i++)
        if (w->lanes[i].own.stack)
            fiber_free(&w->lanes[i].own);
    if (w->shared_map)
        munmap(w->shared_map, 64 << 20);
#else
    if (w->shared_map)
        munmap(w->shared_map, MOST_SHARED + PAGE);
#endif
    munmap(w, sizeof *w);
}

static pthread_key_t key;
static void make_key(void) { pthread_key_create(&key, forget_worker); }

static worker *worker_of_thread(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!own) {
        pthread_once(&once, make_key);
        own = map(sizeof *own);
        pthread_setspecific(key, own);
    }
    return own;
}

static long long common_divisor(long long a, long long b) { return b ? common_divisor(b, a % b) : a; }

EXPORTED void emulated_launch(const emulated_kernel *k, long long blocks, const void *args, uint64_t seed)
{
    worker *w = worker_of_thread();
    if (k->threads < 1 || k->threads > MOST_THREADS || k->shared > MOST_SHARED) {
        fprintf(stderr, "emulator: kernel %s has %d threads and %zu bytes of shared memory\n", k->name,
                k->threads, k->shared);
        abort();
    }
    w->kernel = k;
    w->args = args;
    w->drawn = seed;
    w->switches = 0;
    fiber_of_thread(&w->thread);
    launch_begins(w);
    __tsan_release(&begin_of_launch);
    /* all blocks, in an order that jumps about */
    long long step = 1 + (long long)(draw(w) % (uint64_t)blocks),
              at = (long long)(draw(w) % (uint64_t)blocks);
    while (common_divisor(step, blocks) != 1)
        step++;
    for (long long i = 0; i < blocks; i++) {
        run_block(w, at, blocks);
        at = (at + step) % blocks;
    }
    __tsan_acquire(&end_of_launch);
    launch_ends(w);
    emulated_here = NULL;
    __atomic_fetch_add(&all_switches, w->switches, __ATOMIC_RELAXED);
}
