/* parallel.c - the thread pool. Its workers look for a new loop for a moment and then sleep in the kernel: as quick as a
 * spinning pool inside a step, harmless where ranks or other programs share the cores (libgomp's workers spin for milliseconds). One
 * loop at a time has the workers, and worker t runs range t; a loop that finds them taken (ranks that are threads of one process) runs
 * on its caller. Where a library brings OpenMP (kernels: onednn), ls_parallel_use_openmp lets our loops run on its workers instead, so
 * that there is still one pool. */
#include "parallel.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "check.h"
#include "sys.h"
#ifdef _OPENMP
#include <omp.h>
#endif

/* Pauses before sleeping: a worker looks longer, over the serial ops between two loops of a step (some 50 to 200 microseconds). */
enum { WORKER_SPINS = 4000, CALLER_SPINS = 1000 };

/* A loop is published by raising `round` (release); workers 1 .. threads-1 run their ranges and lower `running`, the caller runs range 0
 * and waits for 0. The plain fields are written only while no worker runs. Workers are made when first needed and live for ever. */
static struct {
    _Atomic uint32_t round, running, sleepers, caller_sleeps;
    _Atomic int busy;
    int workers, threads;
    int64_t n;
    ls_range_fn fn;
    void *context;
} pool;

static bool use_openmp;

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void sleep_while(_Atomic uint32_t *word, uint32_t value) { syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0); }
static void wake(_Atomic uint32_t *word, int count) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0); }

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
        int64_t n = pool.n, t = me.worker, threads = pool.threads;
        if (t < threads)
            pool.fn(pool.context, n * t / threads, n * (t + 1) / threads, me.worker);
        if (atomic_fetch_sub(&pool.running, 1) == 1 && atomic_load(&pool.caller_sleeps))
            wake(&pool.running, 1);
    }
    return NULL;
}

static void wait_for_workers(void)
{
    for (int i = 0; i < CALLER_SPINS; i++) {
        if (atomic_load_explicit(&pool.running, memory_order_acquire) == 0)
            return;
        relax();
    }
    atomic_store(&pool.caller_sleeps, 1);
    for (uint32_t left; (left = atomic_load(&pool.running)) != 0;)
        sleep_while(&pool.running, left);
    atomic_store(&pool.caller_sleeps, 0);
}

static void add_workers(int threads)
{
    while (pool.workers < threads - 1) {
        struct start *start = malloc(sizeof *start);
        LS_CHECK(start != NULL, "out of memory");
        *start = (struct start){ ++pool.workers, atomic_load(&pool.round) };
        pthread_t thread;
        LS_CHECK(ls_sys_thread(&thread, work, start) == 0, "cannot start thread %d", pool.workers);
        pthread_detach(thread);
    }
}

/* Every worker takes part in every round, also one without a range, so that nobody reads the fields of a later one. Where another thread's
 * loop has the workers, the caller runs all its ranges itself. */
static void run(int threads, int64_t n, ls_range_fn fn, void *context)
{
    if (atomic_exchange(&pool.busy, 1)) {
        for (int t = 0; t < threads; t++)
            fn(context, n * t / threads, n * (t + 1) / threads, t);
        return;
    }
    add_workers(threads);
    pool.n = n;
    pool.fn = fn;
    pool.context = context;
    pool.threads = threads;
    atomic_store(&pool.running, (uint32_t)pool.workers);
    atomic_fetch_add(&pool.round, 1);
    if (atomic_load(&pool.sleepers))
        wake(&pool.round, pool.workers);
    fn(context, 0, n / threads, 0);
    wait_for_workers();
    atomic_store(&pool.busy, 0);
}

#ifdef _OPENMP
static void run_openmp(int threads, int64_t n, ls_range_fn fn, void *context)
{
#pragma omp parallel num_threads(threads)
    /* OpenMP may give fewer threads than asked for (OMP_THREAD_LIMIT); the cut stays the same. */
    for (int t = omp_get_thread_num(); t < threads; t += omp_get_num_threads())
        fn(context, n * t / threads, n * (t + 1) / threads, t);
}

void ls_parallel_use_openmp(bool on) { use_openmp = on; }
#else
static void run_openmp(int threads, int64_t n, ls_range_fn fn, void *context) { run(threads, n, fn, context); }
void ls_parallel_use_openmp(bool on) { use_openmp = on; }
#endif

void ls_parallel_for(int threads, int64_t n, ls_range_fn fn, void *context) {
    if (n <= 0)
        return;
    if (threads > n)
        threads = (int)n;
    if (threads <= 1)
        fn(context, 0, n, 0);
    else if (use_openmp)
        run_openmp(threads, n, fn, context);
    else
        run(threads, n, fn, context);
}

int ls_cpu_count(void) {
    /* The kernel refuses a set smaller than its own: grow until it fits. */
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
