/* thread_pool.c - the thread pool.
 *
 * Workers spin for a moment while they wait for the next loop, and then sleep in the kernel. Within a step
 * that is as fast as a pool that always spins, and ranks or other programs on the same cores lose nothing
 * (libgomp's workers spin for milliseconds). The workers run one loop at a time. A loop that finds them busy,
 * because ranks may be threads of one process, runs on its caller.
 *
 * Worker t begins with range t, the same part of the work in every loop, because its caches hold that data.
 * It takes pieces from the front of its range; a worker that has finished takes pieces from the back of
 * another's. So a slow core, or one that another program uses, delays a loop by one piece at most. */
#include "thread_pool.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "check.h"
#include "sys.h"

/* How many pauses a thread spins before it sleeps. Workers spin longer, to bridge the serial ops between two
 * loops of a step (about 50 to 200 microseconds). */
enum { WORKER_SPINS = 4000, CALLER_SPINS = 1000 };

/* A piece is a quarter of what is left of a range: long pieces first and short ones at the end, so that all
 * threads finish together. No piece is shorter than a 32nd of the range, because a kernel does some work anew
 * for each piece. */
enum { SHARE = 4, SMALLEST = 32 };

/* What is left of a range: tasks [front, back), in one word, so that its owner and other workers can take
 * from both ends atomically. Each has a cache line of its own. */
typedef struct range {
    _Alignas(64) _Atomic uint64_t left; /* front + (back << 32) */
} range;

/* How a loop begins and ends: `inside` counts the workers in the loop. While it is CLOSED, the caller writes
 * the plain fields; then the caller sets it to 0, which opens the loop. A worker adds itself to `inside`,
 * works until no piece is left, and subtracts itself. When the caller finds no piece left, it closes the loop
 * and waits for the workers inside. So it does not wait for a worker that wakes up late. Workers are made
 * when they are first needed, and never end. */
#define CLOSED (UINT32_C(1) << 31)
static struct {
    _Atomic uint32_t round, inside, sleepers, caller_sleeps;
    _Atomic int busy;
    int workers, threads;
    int64_t n;
    ls_range_fn fn;
    void *context;
    range *ranges;
} pool = { .inside = CLOSED };

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void sleep_while(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}
static void wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

static uint32_t next_round(uint32_t seen)
{
    uint32_t now;
    for (int i = 0; i < WORKER_SPINS; i++) {
        if ((now = atomic_load_explicit(&pool.round, memory_order_acquire)) != seen)
            return now;
        relax();
    }
    atomic_fetch_add(&pool.sleepers, 1);
    while ((now = atomic_load(&pool.round)) == seen)
        sleep_while(&pool.round, seen);
    atomic_fetch_sub(&pool.sleepers, 1);
    return now;
}

static int64_t range_begin(int t) { return pool.n * t / pool.threads; }

/* Takes a piece from the front or the back of range t. False: nothing is left. */
static bool pool_take(int t, bool front, int64_t *begin, int64_t *end)
{
    const int64_t first = range_begin(t), smallest = (range_begin(t + 1) - first + SMALLEST - 1) / SMALLEST;
    uint64_t left = atomic_load_explicit(&pool.ranges[t].left, memory_order_relaxed);
    for (;;) {
        const int64_t from = (int64_t)(left & UINT32_MAX), to = (int64_t)(left >> 32),
                      share = (to - from + SHARE - 1) / SHARE;
        const int64_t n = share > smallest ? share : to - from < smallest ? to - from : smallest;
        if (n == 0)
            return false;
        if (atomic_compare_exchange_weak(&pool.ranges[t].left, &left,
                                         front ? left + (uint64_t)n : left - ((uint64_t)n << 32))) {
            *begin = first + (front ? from : to - n);
            *end = *begin + n;
            return true;
        }
    }
}

static void run_pieces(int worker)
{
    int64_t begin, end;
    for (int k = 0; k < pool.threads; k++)
        while (pool_take((worker + k) % pool.threads, k == 0, &begin, &end))
            pool.fn(pool.context, begin, end, worker);
}

static bool pool_enter(void)
{
    uint32_t inside = atomic_load(&pool.inside);
    while (!(inside & CLOSED))
        if (atomic_compare_exchange_weak(&pool.inside, &inside, inside + 1))
            return true;
    return false;
}

static void pool_leave(void)
{
    if (atomic_fetch_sub(&pool.inside, 1) - 1 == CLOSED && atomic_load(&pool.caller_sleeps))
        wake(&pool.inside, 1);
}

struct start {
    int worker;
    uint32_t round;
};

static void *work(void *argument)
{
    struct start me = *(struct start *)argument;
    free(argument);
    for (;;) {
        me.round = next_round(me.round);
        if (!pool_enter())
            continue;
        if (me.worker < pool.threads)
            run_pieces(me.worker);
        pool_leave();
    }
    return NULL;
}

static void wait_for_workers(void)
{
    for (int i = 0; i < CALLER_SPINS; i++) {
        if (atomic_load_explicit(&pool.inside, memory_order_acquire) == CLOSED)
            return;
        relax();
    }
    atomic_store(&pool.caller_sleeps, 1);
    for (uint32_t inside; (inside = atomic_load(&pool.inside)) != CLOSED;)
        sleep_while(&pool.inside, inside);
    atomic_store(&pool.caller_sleeps, 0);
}

/* False: no memory for more threads. */
static bool add_workers(int threads)
{
    if (pool.workers >= threads - 1)
        return true;
    range *ranges = ls_sys_aligned_alloc(64, (size_t)threads * sizeof *ranges);
    if (!ranges)
        return false;
    free(pool.ranges);
    pool.ranges = ranges;
    while (pool.workers < threads - 1) {
        struct start *start = ls_sys_malloc(sizeof *start);
        if (!start)
            return false;
        *start = (struct start){ pool.workers + 1, atomic_load(&pool.round) };
        pthread_t thread;
        if (ls_sys_thread(&thread, work, start) != 0) {
            free(start);
            return false;
        }
        pool.workers++;
        pthread_detach(thread);
    }
    return true;
}

static void pool_run(int threads, int64_t n, ls_range_fn fn, void *context)
{
    if (atomic_exchange(&pool.busy, 1)) {
        fn(context, 0, n, 0);
        return;
    }
    LS_CHECK(n / threads < UINT32_MAX, "a loop of %lld tasks", (long long)n);
    if (!add_workers(threads)) { /* without workers the caller computes the same, but slower */
        fn(context, 0, n, 0);
        atomic_store(&pool.busy, 0);
        return;
    }
    pool.n = n;
    pool.fn = fn;
    pool.context = context;
    pool.threads = threads;
    for (int t = 0; t < threads; t++)
        atomic_store_explicit(&pool.ranges[t].left, (uint64_t)(range_begin(t + 1) - range_begin(t)) << 32,
                              memory_order_relaxed);
    atomic_store(&pool.inside, 0);
    atomic_fetch_add(&pool.round, 1);
    if (atomic_load(&pool.sleepers))
        wake(&pool.round, pool.workers);
    run_pieces(0);
    atomic_fetch_or(&pool.inside, CLOSED);
    wait_for_workers();
    atomic_store(&pool.busy, 0);
}

void ls_parallel_for(int threads, int64_t n, ls_range_fn fn, void *context)
{
    if (n <= 0)
        return;
    if (threads > n)
        threads = (int)n;
    if (threads <= 1)
        fn(context, 0, n, 0);
    else
        pool_run(threads, n, fn, context);
}

int ls_cpu_count(void)
{
    /* The kernel refuses a set that is smaller than its own, so the set grows until it fits. */
    for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        size_t size = CPU_ALLOC_SIZE((size_t)cpus);
        if (!set)
            break;
        int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return count;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int)online : 1;
}
