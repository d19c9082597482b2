/* emulator.c - runs kernels on the host: each thread of a block by itself, on a stack of its own
 * once it has to wait. A drawn warp runs until a barrier, its threads in drawn order, so warps get as far
 * apart as the barriers let them, and a missing barrier shows. What is not yet there is NaN: shared memory
 * when a block begins, and the target of an asynchronous copy until the wait for it.
 *
 * ThreadSanitizer takes each thread of a block for a thread. Barriers, and the begin and the end of a launch,
 * order memory accesses; operations of a warp and the switch from one thread to another do not. It knows the
 * history of each address, so each block has shared memory of its own there. */
#define _GNU_SOURCE
#include "worker.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

EXPORTED _Thread_local emulated_place *emulated_here;
_Thread_local worker *emulated_worker;
static int begin_of_launch, end_of_launch; /* their addresses stand for them */
static uint64_t all_switches;

EXPORTED uint64_t emulated_switches(void) { return __atomic_load_n(&all_switches, __ATOMIC_RELAXED); }

/* splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014) */
uint64_t emulated_draw(worker *w)
{
    uint64_t x = w->drawn += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* ---- turns */

void emulated_draw_order(worker *w)
{
    const uint64_t x = emulated_draw(w);
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
            emulated_diverged(w);
        const int n = w->n_warps, start = n > 1 ? (int)(emulated_draw(w) % (uint64_t)n) : 0;
        for (int i = 0; i < n && !p->ready; i++) {
            w->warp = (start + i) % n;
            p = &w->warps[w->warp];
        }
        if (!p->ready)
            return NULL;
        emulated_draw_order(w);
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

void emulated_wait(worker *w)
{
    lane *me = w->now, *to = next(w);
    if (!to)
        emulated_diverged(w);
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
    worker *w = emulated_worker;
    fiber *f = w->now->on;
    fiber_begun(f);
    for (;;) {
        lane *l = w->now;
        __tsan_acquire(&begin_of_launch);
        w->kernel->run(w->args, w->shared);
        emulated_copy_wait(0); /* what nobody waited for arrives some time */
        __tsan_release(&end_of_launch);
        warp *p = &w->warps[l->place.thread / WARP_SIZE];
        const uint32_t bit = UINT32_C(1) << l->place.thread % WARP_SIZE;
        p->ready &= ~bit;
        p->ended |= bit;
        w->live--;
        l->on = NULL;
        lane *to = next(w);
        if (!to && w->live)
            emulated_diverged(w);
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
    w->warp = (int)(emulated_draw(w) % (uint64_t)w->n_warps);
    emulated_draw_order(w);
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
    if (!emulated_worker) {
        pthread_once(&once, make_key);
        emulated_worker = map(sizeof *emulated_worker);
        pthread_setspecific(key, emulated_worker);
    }
    return emulated_worker;
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
    long long step = 1 + (long long)(emulated_draw(w) % (uint64_t)blocks),
              at = (long long)(emulated_draw(w) % (uint64_t)blocks);
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
