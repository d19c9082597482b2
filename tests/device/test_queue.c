/* test_queue.c - what the queue of every device must do (device/queue.h), for both that there are: that of
 * devices in host memory, whose tasks are done at once, and that of device emulated, with several seeds of
 * its delays. */
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>
#include <cmocka.h>
#include "bench.h"

/* Each test runs on all of these. */
static const struct {
    const char *device, *settings;
} WAYS[] = {
    { "cpu", NULL },
    { "emulated", NULL },
    { "emulated", "delay=0us" },
    { "emulated", "seed=1,delay=300us" },
    { "emulated", "seed=2,delay=300us" },
    { "emulated", "seed=3,delay=300us" },
    { "emulated", "seed=4,delay=2ms" },
};
#define EVERY_WAY(t)                                                                                      \
    for (size_t way = 0;                                                                                  \
         way < sizeof WAYS / sizeof *WAYS ? begin(t, WAYS[way].device, WAYS[way].settings), true : false; \
         way++, end(t))

typedef struct word {
    int *list, *n, value;
} word;

static ls_status append(void *context)
{
    const word *w = context;
    w->list[(*w->n)++] = w->value;
    return LS_OK;
}

static void tasks_run_in_order(void **state)
{
    (void)state;
    bench t;
    EVERY_WAY(&t)
    {
        enum { TASKS = 3000 }; /* more than the ring of device emulated has at first */
        int list[TASKS], n = 0;
        word words[TASKS];
        for (int i = 0; i < TASKS; i++) {
            words[i] = (word){ list, &n, i };
            t.ops->host(t.q, append, &words[i]);
        }
        ASSERT_OK(t.ops->wait(t.q, NULL));
        assert_int_equal(n, TASKS);
        for (int i = 0; i < TASKS; i++)
            assert_int_equal(list[i], i);
        /* each reads what the one before wrote */
        t.ops->fill(t.q, t.a, 1, BYTES);
        t.ops->copy(t.q, t.b, t.a, BYTES);
        t.ops->fill(t.q, t.a, 2, BYTES);
        t.ops->copy(t.q, t.c, t.a, BYTES);
        t.ops->copy(t.q, t.host, t.b, BYTES / 2);
        t.ops->copy(t.q, t.host + N / 2, t.c, BYTES / 2);
        ASSERT_OK(t.ops->wait(t.q, NULL));
        for (size_t i = 0; i < BYTES; i++)
            assert_int_equal(((char *)t.host)[i], i < BYTES / 2 ? 1 : 2);
    }
}

/* The caller's arguments may be gone when the kernel runs. */
static void kernels_run_on_copied_arguments(void **state)
{
    (void)state;
    bench t;
    EVERY_WAY(&t)
    {
        ls_tensor operands[3];
        ls_kernel_args args;
        for (int i = 0; i < N; i++)
            t.host[i] = (float)i;
        t.ops->copy(t.q, t.a, t.host, BYTES);
        t.ops->copy(t.q, t.b, t.host, BYTES);
        const ls_kernel *k = adding(&t, operands, &args);
        t.ops->run(t.q, k, &args);
        memset(operands, 0, sizeof operands);
        memset(&args, 0, sizeof args);
        t.ops->copy(t.q, t.host, t.c, BYTES);
        ASSERT_OK(t.ops->wait(t.q, NULL));
        for (int i = 0; i < N; i++)
            assert_true(t.host[i] == (float)(2 * i));
    }
}

static void events_order_queues(void **state)
{
    (void)state;
    bench t;
    EVERY_WAY(&t)
    {
        ls_event *written, *read;
        ASSERT_OK(t.ops->event(&written, &t.d));
        ASSERT_OK(t.ops->event(&read, &t.d));
        t.ops->await(t.q, read); /* nothing was recorded yet: nothing to wait for */
        for (int round = 1; round <= 20; round++) {
            t.ops->await(t.q, read);
            t.ops->fill(t.q, t.a, round, BYTES);
            t.ops->record(t.q, written);
            t.ops->await(t.other, written);
            t.ops->copy(t.other, (char *)t.host + round, t.a, 1);
            t.ops->record(t.other, read);
        }
        ASSERT_OK(t.ops->wait(t.other, NULL));
        for (int round = 1; round <= 20; round++)
            assert_int_equal(((char *)t.host)[round], round);
        ASSERT_OK(t.ops->wait(t.q, NULL));
        t.ops->forget(&written);
        t.ops->forget(&read);
        assert_null(read);
    }
}

static ls_status takes_time(void *context)
{
    (void)context;
    nanosleep(&(struct timespec){ .tv_nsec = 3000000 }, NULL);
    return LS_OK;
}

static void events_have_times(void **state)
{
    (void)state;
    bench t;
    EVERY_WAY(&t)
    {
        ls_event *from, *to;
        ASSERT_OK(t.ops->event(&from, &t.d));
        ASSERT_OK(t.ops->event(&to, &t.d));
        t.ops->record(t.q, from);
        t.ops->host(t.q, takes_time, NULL);
        t.ops->record(t.q, to);
        ASSERT_OK(t.ops->wait(t.q, NULL));
        assert_true(t.ops->elapsed(from, to) >= 0.003);
        t.ops->forget(&from);
        t.ops->forget(&to);
    }
}

static void a_failure_is_reported_by_wait(void **state)
{
    (void)state;
    bench t;
    EVERY_WAY(&t)
    {
        ls_event *e;
        int64_t failed = -1;
        int list[2], n = 0;
        word w = { list, &n, 7 };
        ASSERT_OK(t.ops->event(&e, &t.d));
        ASSERT_OK(t.ops->wait(t.q, &failed));
        assert_int_equal(failed, -1);
        t.ops->number(t.q, 41);
        t.ops->fill(t.q, t.a, 1, BYTES);
        t.ops->number(t.q, 42);
        t.ops->host(t.q, refuses, "forty-two");
        t.ops->number(t.q, 43);
        t.ops->host(t.q, refuses, "forty-three");
        t.ops->fill(t.q, t.a, 2, BYTES);
        t.ops->host(t.q, append, &w);
        t.ops->record(t.q, e);
        t.ops->await(t.other, e); /* the other queue does not wait for ever */
        ASSERT_OK(t.ops->wait(t.other, NULL));
        ASSERT_FAILS(t.ops->wait(t.q, &failed), LS_E_NUMERIC, "task forty-two refuses");
        assert_int_equal(failed, 42);
        assert_int_equal(n, 0);
        /* then the queue works again */
        t.ops->copy(t.q, t.host, t.a, BYTES);
        t.ops->host(t.q, append, &w);
        ASSERT_OK(t.ops->wait(t.q, NULL));
        assert_int_equal(((char *)t.host)[5], 1);
        assert_int_equal(n, 1);
        t.ops->host(t.q, refuses, "last");
        ASSERT_FAILS(t.ops->wait(t.q, NULL), LS_E_NUMERIC, "task last refuses");
        t.ops->forget(&e);
    }
}

static void closing_runs_what_is_in_the_queue(void **state)
{
    (void)state;
    bench t;
    EVERY_WAY(&t)
    {
        int list[1], n = 0;
        word w = { list, &n, 7 };
        t.ops->host(t.other, takes_time, NULL);
        t.ops->host(t.other, append, &w);
        t.ops->close(&t.other);
        assert_int_equal(n, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_run_in_order),
        cmocka_unit_test(kernels_run_on_copied_arguments),
        cmocka_unit_test(events_order_queues),
        cmocka_unit_test(events_have_times),
        cmocka_unit_test(a_failure_is_reported_by_wait),
        cmocka_unit_test(closing_runs_what_is_in_the_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
