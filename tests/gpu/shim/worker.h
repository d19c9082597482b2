/* worker.h - what runs blocks: a thread of the host, and the threads of the block that it runs. */
#pragma once
#include <stdbool.h>

#include "emulator.h"
#include "fiber.h"

#define EXPORTED __attribute__((visibility("default")))

#if defined(EMULATOR_TSAN)
void __tsan_acquire(void *at), __tsan_release(void *at);
#else
static inline void __tsan_acquire(void *at) { (void)at; }
static inline void __tsan_release(void *at) { (void)at; }
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
    /* Addresses that stand for the barrier, in turn: a thread that leaves one late must not be ordered behind
     * those that have arrived at the next. */
    char barrier[2];
    unsigned barriers; /* how many all threads have left */
} worker;

extern _Thread_local worker *emulated_worker;

uint64_t emulated_draw(worker *w);
/* A new order of the threads of the warp that runs. */
void emulated_draw_order(worker *w);
/* The running thread is not ready: others run until it is. */
void emulated_wait(worker *w);
/* Ends the process: threads wait for each other at different places. */
_Noreturn void emulated_diverged(const worker *w);
