/* The parallel loop: the documented cut, every task once, the same result for any number of threads, many loops in a row. */
#include "base/parallel.h"
#include "support/support.h"
#include <pthread.h>
#include <sched.h>
#include <string.h>

enum { MOST = 17 };
static struct seen {
    int64_t begin[MOST], end[MOST];
    int calls[MOST];
} seen;

static void note(void *context, int64_t begin, int64_t end, int worker) {
    struct seen *s = context;
    s->begin[worker] = begin;
    s->end[worker] = end;
    s->calls[worker]++;
}

static void the_cut(void **state) {
    (void)state;
    for (int64_t n = 0; n < 40; n++)
        for (int threads = -1; threads <= MOST; threads++) {
            memset(&seen, 0, sizeof seen);
            ls_parallel_for(threads, n, note, &seen);
            int64_t workers = threads > n ? n : threads < 1 ? 1 : threads;
            if (n == 0)
                workers = 0;
            for (int64_t t = 0; t < MOST; t++) {
                assert_int_equal(seen.calls[t], t < workers);
                if (t < workers) {
                    assert_int_equal(seen.begin[t], n * t / workers);
                    assert_int_equal(seen.end[t], n * (t + 1) / workers);
                }
            }
        }
}

static int64_t cells[1000];

static void add(void *context, int64_t begin, int64_t end, int worker) {
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        cells[i] += i * *(const int64_t *)context;
}

/* Loops one after another read what the one before wrote: a missing barrier shows here, and under ThreadSanitizer for certain. */
static void many_loops(void **state) {
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

/* Threads with loops of their own at the same time: one has the workers, the others run theirs alone, and all are cut as documented. */
static void *loops_of_a_thread(void *argument)
{
    struct seen mine;
    for (int round = 0; round < 500; round++) {
        memset(&mine, 0, sizeof mine);
        ls_parallel_for(3, 10, note, &mine);
        for (int t = 0; t < 3; t++)
            if (mine.calls[t] != 1 || mine.begin[t] != 10 * t / 3 || mine.end[t] != 10 * (t + 1) / 3)
                return argument;
    }
    return NULL;
}

static void several_threads(void **state) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, loops_of_a_thread, state), 0);
    for (int i = 0; i < 3; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

static pthread_t ids[4];

static void note_thread(void *context, int64_t begin, int64_t end, int worker) {
    (void)context, (void)begin, (void)end;
    ids[worker] = pthread_self();
}

static void workers_are_threads(void **state) {
    (void)state;
    ls_parallel_for(4, 4, note_thread, NULL);
    for (int a = 0; a < 4; a++)
        for (int b = 0; b < a; b++)
            assert_false(pthread_equal(ids[a], ids[b]));
    assert_true(pthread_equal(ids[0], pthread_self())); /* the caller works too */
}

static void cpu_count_respects_affinity(void **state) {
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cut), cmocka_unit_test(many_loops), cmocka_unit_test(several_threads), cmocka_unit_test(workers_are_threads),
        cmocka_unit_test(cpu_count_respects_affinity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
