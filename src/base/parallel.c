/* parallel.c - the thread pool: OpenMP's, or one of plain pthreads where that is missing or must not be (LS_PTHREADS: clang without
 * it, ThreadSanitizer). In both, one parallel loop runs at a time, and worker t runs range t. */
#include "parallel.h"
#include "check.h"
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef LS_PTHREADS

#include <pthread.h>

/* A loop is announced by raising `round`; workers 1 .. threads-1 run their ranges, the caller runs range 0 and then waits until
 * `running` is 0. Workers are made when first needed and live as long as the process. All fields are guarded by `lock`. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t begin, end;
    uint64_t round;
    int workers, running, threads;
    int64_t n;
    ls_range_fn fn;
    void *context;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER, .begin = PTHREAD_COND_INITIALIZER, .end = PTHREAD_COND_INITIALIZER };

struct start {
    int worker;
    uint64_t round;
};

static void *work(void *argument) {
    struct start me = *(struct start *)argument;
    free(argument);
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        while (pool.round == me.round)
            pthread_cond_wait(&pool.begin, &pool.lock);
        me.round = pool.round;
        if (me.worker >= pool.threads)
            continue;
        int64_t n = pool.n, t = me.worker, threads = pool.threads;
        pthread_mutex_unlock(&pool.lock);
        pool.fn(pool.context, n * t / threads, n * (t + 1) / threads, me.worker);
        pthread_mutex_lock(&pool.lock);
        if (--pool.running == 0)
            pthread_cond_signal(&pool.end);
    }
    return NULL;
}

static void run(int threads, int64_t n, ls_range_fn fn, void *context) {
    pthread_mutex_lock(&pool.lock);
    LS_CHECK(pool.running == 0, "ls_parallel_for inside ls_parallel_for");
    while (pool.workers < threads - 1) {
        struct start *start = malloc(sizeof *start);
        LS_CHECK(start != NULL);
        *start = (struct start){ ++pool.workers, pool.round };
        pthread_t thread;
        LS_CHECK(pthread_create(&thread, NULL, work, start) == 0, "cannot start thread %d", pool.workers);
        pthread_detach(thread);
    }
    pool.n = n;
    pool.fn = fn;
    pool.context = context;
    pool.threads = threads;
    pool.running = threads - 1;
    pool.round++;
    pthread_cond_broadcast(&pool.begin);
    pthread_mutex_unlock(&pool.lock);
    fn(context, 0, n / threads, 0);
    pthread_mutex_lock(&pool.lock);
    while (pool.running)
        pthread_cond_wait(&pool.end, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

#else

#include <omp.h>

static void run(int threads, int64_t n, ls_range_fn fn, void *context) {
#pragma omp parallel num_threads(threads)
    /* OpenMP may give fewer threads than asked for (OMP_THREAD_LIMIT); the cut stays the same. */
    for (int t = omp_get_thread_num(); t < threads; t += omp_get_num_threads())
        fn(context, n * t / threads, n * (t + 1) / threads, t);
}

#endif

void ls_parallel_for(int threads, int64_t n, ls_range_fn fn, void *context) {
    if (n <= 0)
        return;
    if (threads > n)
        threads = (int)n;
    if (threads <= 1)
        fn(context, 0, n, 0);
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
