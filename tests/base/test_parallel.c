/* test_parallel.c - the parallel loop: every task runs once, with any number of threads; a slow task holds up
 * no other; many loops run in a row and at the same time. */
#include "base/clock.h"
#include "base/thread_pool.h"
#include "support/support.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

enum { MOST = 17, TASKS = 300 };
typedef struct seen {
    int64_t n;
    int threads, times[TASKS];
    /* `wrong`: a call outside [0, n), or by a worker that there is not, or two at once */
    _Atomic bool runs[MOST], wrong;
} seen;

static void note(void *context, int64_t begin, int64_t end, int worker)
{
    seen *s = context;
    if (begin < 0 || end > s->n || begin >= end || worker < 0 || worker >= s->threads ||
        atomic_exchange(&s->runs[worker], true)) {
        atomic_store(&s->wrong, true);
        return;
    }
    for (int64_t i = begin; i < end; i++)
        s->times[i]++; /* under ThreadSanitizer a task that runs twice shows for certain */
    atomic_store(&s->runs[worker], false);
}

static bool each_once(int threads, int64_t n)
{
    seen s = { .n = n, .threads = threads > n ? (int)n : threads < 1 ? 1 : threads };
    ls_parallel_for(threads, n, note, &s);
    bool right = !atomic_load(&s.wrong);
    for (int64_t i = 0; i < n; i++)
        right = right && s.times[i] == 1;
    return right;
}

static void every_task_once(void **state)
{
    (void)state;
    for (int64_t n = 0; n < TASKS; n += n < 40 ? 1 : 13)
        for (int threads = -1; threads <= MOST; threads++)
            assert_true(each_once(threads, n));
}

/* The first task of range 0 waits for all others: they come to pass only if another worker takes what its
 * owner cannot. */
static void wait_for_others(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    _Atomic int64_t *done = context;
    for (double stop = ls_now() + 60; begin == 0 && atomic_load(done) < 5 && ls_now() < stop;)
        sched_yield();
    if (begin > 0 || atomic_load(done) == 5)
        atomic_fetch_add(done, end - begin);
}

static void a_slow_one_is_helped(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        _Atomic int64_t done = 0;
        ls_parallel_for(2, 6, wait_for_others, &done);
        assert_int_equal(atomic_load(&done), 6);
    }
}

static int64_t cells[1000];

static void add(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        cells[i] += i * *(const int64_t *)context;
}

/* Loops one after another read what the one before wrote: a missing barrier shows here, and under
 * ThreadSanitizer for certain. */
static void many_loops(void **state)
{
    (void)state;
    int64_t total = 0;
    for (int64_t round = 1; round <= 300; round++) {
        ls_parallel_for((int)(round % 5), 1000, add, &round);
        total += round;
        assert_int_equal(cells[999], 999 * total);
    }
    for (int64_t i = 0; i < 1000; i++)
        assert_int_equal(cells[i], i * total);
}

/* Threads with loops of their own at the same time: one has the workers, the others run theirs alone. */
static void *loops_of_a_thread(void *argument)
{
    for (int round = 0; round < 500; round++)
        if (!each_once(3, 10 + round % 30))
            return argument;
    return NULL;
}

static void several_threads(void **state)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, loops_of_a_thread, state), 0);
    for (int i = 0; i < 3; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

static struct {
    pthread_t thread;
    bool known, changed;
} workers[4];

static void note_thread(void *context, int64_t begin, int64_t end, int worker)
{
    (void)context, (void)begin, (void)end;
    workers[worker].changed = workers[worker].known && !pthread_equal(workers[worker].thread, pthread_self());
    workers[worker].thread = pthread_self();
    workers[worker].known = true;
}

static void workers_are_threads(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        ls_parallel_for(4, 64, note_thread, NULL);
        for (int a = 0; a < 4; a++) {
            assert_false(workers[a].changed);
            for (int b = 0; b < a; b++)
                assert_false(workers[a].known && workers[b].known &&
                             pthread_equal(workers[a].thread, workers[b].thread));
        }
    }
    assert_true(pthread_equal(workers[0].thread, pthread_self())); /* the caller works too */
}

static void cpu_count_respects_affinity(void **state)
{
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    assert_int_equal(ls_cpu_count(), CPU_COUNT(&all));
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(ls_cpu_count(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_once),     cmocka_unit_test(a_slow_one_is_helped),
        cmocka_unit_test(many_loops),          cmocka_unit_test(several_threads),
        cmocka_unit_test(workers_are_threads), cmocka_unit_test(cpu_count_respects_affinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
