/* test_link.c - links between the GPUs of several ranks (device/link.h), over the shims. */
#include <stdatomic.h>
#include "base/clock.h"
#include "base/log.h"
#include "link_ranks.h"

static const char *const WAYS[] = { "delay=0us", "seed=1,delay=300us", "seed=2,delay=1ms" };
#define EVERY_WAY(n, work)                                                             \
    for (int n = 1; n <= RANKS; n++)                                                   \
        for (size_t way = n == RANKS ? 2 : 0; way < sizeof WAYS / sizeof *WAYS; way++) \
    run(n, WAYS[way], work, 0, NULL)

/* The byte at i of what one rank gives another in a round. */
static char byte_of(int from, int to, int round, size_t i)
{
    return (char)(31 * from + 17 * to + 7 * round + (int)(i % 251));
}

/* ---- gather and exchange */

static void gathers(rank *r)
{
    const size_t sizes[] = { 1, 100, 4096, 100003 };
    begin(r);
    for (int round = 0; round < 4; round++) {
        const size_t bytes = sizes[round];
        for (size_t i = 0; i < bytes; i++)
            r->in[i] = byte_of(r->rank, 0, round, i);
        r->ops->fill(r->q, r->a, 0x77, MOST);
        r->ops->copy(r->q, r->a + bytes * (size_t)r->rank, r->in, bytes);
        r->link->gather(r->q, r->l, r->a, bytes);
        r->ops->copy(r->q, r->out, r->a, bytes * (size_t)r->n + 1);
        WORKS(r->ops->wait(r->q, NULL));
        for (int p = 0; p < r->n; p++)
            for (size_t i = 0; i < bytes; i++)
                HOLDS(r->out[bytes * (size_t)p + i] == byte_of(p, 0, round, i));
        HOLDS(r->out[bytes * (size_t)r->n] == 0x77);
    }
    end(r);
}

static void all_ranks_gather(void **state)
{
    (void)state;
    EVERY_WAY(n, gathers);
}

static void exchanges(rank *r)
{
    const size_t sizes[] = { 100003, 16, 1, 5000 };
    begin(r);
    for (int round = 0; round < 4; round++) {
        const size_t bytes = sizes[round];
        for (int p = 0; p < r->n; p++)
            for (size_t i = 0; i < bytes; i++)
                r->in[bytes * (size_t)p + i] = byte_of(r->rank, p, round, i);
        r->ops->fill(r->q, r->b, 0x77, MOST);
        r->ops->copy(r->q, r->a, r->in, bytes * (size_t)r->n);
        r->link->exchange(r->q, r->l, r->a, r->b, bytes);
        r->ops->copy(r->q, r->out, r->b, bytes * (size_t)r->n + 1);
        WORKS(r->ops->wait(r->q, NULL));
        for (int p = 0; p < r->n; p++)
            for (size_t i = 0; i < bytes; i++)
                HOLDS(r->out[bytes * (size_t)p + i] == byte_of(p, r->rank, round, i));
        HOLDS(r->out[bytes * (size_t)r->n] == 0x77);
    }
    end(r);
}

static void all_ranks_exchange(void **state)
{
    (void)state;
    EVERY_WAY(n, exchanges);
}

/* ---- a step as it is captured */

static void steps(rank *r)
{
    ls_event *ready, *done;
    ls_recording *step;
    begin(r);
    WORKS(r->ops->event(&ready, &r->d));
    WORKS(r->ops->event(&done, &r->d));
    set(r, 0);
    put_step(r, ready, done); /* and as it is, before and between */
    WORKS(r->ops->wait(r->q, NULL));
    look(r, 0);
    r->ops->capture(r->q, r->beside);
    put_step(r, ready, done);
    WORKS(r->ops->captured(r->q, &step));
    for (int round = 1; round <= 5; round++) {
        set(r, round);
        r->ops->replay(r->q, step);
        if (round == 3) { /* twice in a row */
            r->ops->replay(r->q, step);
            r->ops->replay(r->q, step);
        }
        WORKS(r->ops->wait(r->q, NULL));
        WORKS(r->ops->wait(r->beside, NULL));
        look(r, round);
    }
    set(r, 9);
    put_step(r, ready, done);
    WORKS(r->ops->wait(r->q, NULL));
    look(r, 9);
    r->ops->discard(&step);
    r->ops->forget(&ready);
    r->ops->forget(&done);
    end(r);
}

static void a_step_is_captured(void **state)
{
    (void)state;
    EVERY_WAY(n, steps);
}

static void a_step_is_put_in_task_by_task(void **state)
{
    (void)state;
    setenv("LOCKSTEP_CUDA_GRAPHS", "0", 1);
    EVERY_WAY(n, steps);
    unsetenv("LOCKSTEP_CUDA_GRAPHS");
}

/* ---- a rank that is lost */

static ls_status note_end(void *ended)
{
    atomic_store((atomic_bool *)ended, true);
    return LS_OK;
}

/* Rank 1 joins, and never puts in what rank 0 waits for. */
static void waits_in_vain(rank *r, bool graph)
{
    ls_event *ready, *done;
    ls_recording *step = NULL;
    const char *why;
    begin(r);
    WORKS(r->ops->event(&ready, &r->d));
    WORKS(r->ops->event(&done, &r->d));
    set(r, 0);
    if (r->rank == 0) {
        if (graph)
            r->ops->capture(r->q, r->beside);
        put_step(r, ready, done);
        if (graph) {
            WORKS(r->ops->captured(r->q, &step));
            r->ops->replay(r->q, step);
        }
        atomic_bool ended = false;
        r->ops->host(r->q, note_end, &ended);
        for (int i = 0; i < 50; i++) {
            HOLDS(!atomic_load(&ended));
            nap();
        }
        r->link->ask(r->l, &why);
        HOLDS(!why);
        const double start = ls_now();
        r->link->sever(r->l);
        r->link->sever(r->l);
        WORKS(r->ops->wait(r->q, NULL));
        WORKS(r->ops->wait(r->beside, NULL));
        HOLDS(ls_now() - start < 10);
        if (graph) /* it does nothing */
            r->ops->replay(r->q, step);
        else
            put_step(r, ready, done);
        WORKS(r->ops->wait(r->q, NULL));
        r->link->ask(r->l, &why);
        HOLDS(!why);
        r->ops->discard(&step);
        r->all->arrived = 1;
    } else {
        while (!r->all->arrived)
            nap();
        r->link->sever(r->l);
    }
    r->ops->forget(&ready);
    r->ops->forget(&done);
    end(r);
}
static void waits_for_tasks(rank *r) { waits_in_vain(r, false); }
static void waits_for_a_graph(rank *r) { waits_in_vain(r, true); }

static void a_severed_link_ends_the_wait(void **state)
{
    (void)state;
    run(2, "delay=0us", waits_for_tasks, 0, NULL);
    run(3, "seed=3", waits_for_a_graph, 0, NULL);
}

/* ---- what NCCL says has failed */

static void is_told(rank *r)
{
    const char *why = NULL;
    begin(r);
    for (int i = 0; i < 2; i++)
        r->link->gather(r->q, r->l, r->a, 100);
    while (!why) {
        r->link->ask(r->l, &why);
        nap();
    }
    HOLDS(strstr(why, "remote process exited"));
    r->link->sever(r->l);
    WORKS(r->ops->wait(r->q, NULL));
    end(r);
}

static void a_call_fails(rank *r)
{
    int64_t failed = 0;
    begin(r);
    r->link->gather(r->q, r->l, r->a, 100);
    r->ops->number(r->q, 17);
    r->link->gather(r->q, r->l, r->a, 100);
    FAILS(r->ops->wait(r->q, &failed), "ncclAllGather: unhandled system error: operation 2 fails");
    HOLDS(failed == 17);
    end(r);
}

static void sizes_that_differ(rank *r)
{
    const char *why = NULL;
    begin(r);
    r->link->gather(r->q, r->l, r->a, 100 + (size_t)r->rank);
    while (!why) {
        r->link->ask(r->l, &why);
        nap();
    }
    HOLDS(strstr(why, "ranks disagree: ncclAllGather of rank") && strstr(why, "100") && strstr(why, "101"));
    r->link->sever(r->l);
    WORKS(r->ops->wait(r->q, NULL));
    end(r);
}

static void stays(rank *r)
{
    begin(r);
    r->ops->close(&r->q);
    r->ops->close(&r->beside);
    r->ops->release(r->a, MOST);
    r->ops->release(r->b, MOST);
    r->ops->unpin(r->in, MOST);
    r->ops->unpin(r->out, MOST);
}

static void failures_are_told(void **state)
{
    (void)state;
    run(2, "nccl_lost=2", is_told, 0, NULL);
    run(2, "nccl_fail=2", a_call_fails, 0, NULL);
    run(2, "delay=0us", sizes_that_differ, 0, "ranks disagree");
    run(2, "delay=0us", stays, 86, "1 communicators were not destroyed");
}

/* ---- an event that is missing gives other results */

static ls_status until_open(void *open)
{
    while (!atomic_load((atomic_bool *)open))
        nap();
    return LS_OK;
}

/* A step of which a wait is left out. `late` stands still until `early`, which should have waited for it,
 * has done all its tasks: the result is wrong however the threads are scheduled. */
static void lacks_an_event(rank *r, ls_queue *late, ls_queue *early)
{
    ls_event *ready, *done;
    atomic_bool open = false;
    WORKS(r->ops->event(&ready, &r->d));
    WORKS(r->ops->event(&done, &r->d));
    set(r, 1);
    r->ops->host(late, until_open, &open);
    put_step(r, ready, done);
    WORKS(r->ops->wait(early, NULL));
    atomic_store(&open, true);
    WORKS(r->ops->wait(late, NULL));
    look(r, 1);
    r->ops->forget(&ready);
    r->ops->forget(&done);
    end(r);
}

static void reads_too_early(rank *r)
{
    begin(r);
    lacks_an_event(r, r->q, r->beside);
}

static void ends_too_early(rank *r)
{
    begin(r);
    lacks_an_event(r, r->beside, r->q);
}

static void a_missing_event_shows(void **state)
{
    (void)state;
    run(2, "delay=0us,skip=1", reads_too_early, WRONG_RESULT, NULL);
    run(2, "delay=0us,skip=2", ends_too_early, WRONG_RESULT, NULL);
}

/* ---- which NCCL there is */

static void is_found(rank *r)
{
    const char *name;
    WORKS(ls_device_open(&r->d, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    WORKS(r->d.ops->link->find(&name, &r->d));
    HOLDS(!strcmp(name, "NCCL 2.29.1"));
}

static void print(void *context, ls_level level, const char *message)
{
    (void)context, (void)level;
    fprintf(stderr, "%s\n", message);
}

static void may_hang(rank *r)
{
    const char *name;
    ls_log_set(print, NULL, LS_WARN);
    WORKS(ls_device_open(&r->d, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    WORKS(r->d.ops->link->find(&name, &r->d));
    HOLDS(!strcmp(name, "NCCL 2.28.6"));
}

static void is_too_old(rank *r)
{
    const char *name;
    WORKS(ls_device_open(&r->d, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    FAILS(r->d.ops->link->find(&name, &r->d), "has version 2.17.1; 2.18 or newer is needed");
}

static void is_absent(rank *r)
{
    const char *name;
    setenv("LOCKSTEP_CUDA_LIBRARIES", LS_TEST_SHIMS "/without_nccl", 1);
    WORKS(ls_device_open(&r->d, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    FAILS(r->d.ops->link->find(&name, &r->d), "libnccl.so.2 is not in " LS_TEST_SHIMS "/without_nccl");
    FAILS(r->d.ops->link->find(&name, &r->d), "pip install nvidia-nccl-cu13");
    /* one rank needs none */
    meet(r);
    r->link->leave(&r->l);
}

static void the_library_is_looked_for(void **state)
{
    (void)state;
    run(1, "nccl=22901", is_found, 0, NULL);
    run(1, "nccl=21701", is_too_old, 0, NULL);
    run(1, "nccl=22806", may_hang, 0, "may hang when a rank has failed");
}

/* (is_absent needs the link's calls before there is a queue) */
static void absent(rank *r)
{
    r->ops = &ls_queue_cuda;
    r->link = ls_device_cuda.link;
    is_absent(r);
}
static void one_rank_needs_no_library(void **state)
{
    (void)state;
    run(1, "delay=0us", absent, 0, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_gather),
        cmocka_unit_test(all_ranks_exchange),
        cmocka_unit_test(a_step_is_captured),
        cmocka_unit_test(a_step_is_put_in_task_by_task),
        cmocka_unit_test(a_severed_link_ends_the_wait),
        cmocka_unit_test(failures_are_told),
        cmocka_unit_test(a_missing_event_shows),
        cmocka_unit_test(the_library_is_looked_for),
        cmocka_unit_test(one_rank_needs_no_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
