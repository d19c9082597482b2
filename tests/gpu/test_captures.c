/* test_captures.c - recordings of two queues of device cuda (device/queue.h), and what the shim's driver says
 * of captures whose events break the rules of CUDA. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/bench.h"
#include "device/cuda/driver.h"

#define DECLARE(field, symbol, arguments) cu_result symbol arguments;
CU_FUNCTIONS(DECLARE)

/* ---- the driver */

typedef struct driver {
    cu_context context;
    cu_stream s, other;
    cu_event e, f;
    cu_address room;
    cu_graph g;
} driver;

static int set_up(void **state)
{
    static driver d;
    *state = &d;
    return cuInit(0) || cuDevicePrimaryCtxRetain(&d.context, 0) || cuCtxSetCurrent(d.context) ||
           cuStreamCreate(&d.s, CU_STREAM_NON_BLOCKING) || cuStreamCreate(&d.other, CU_STREAM_NON_BLOCKING) ||
           cuEventCreate(&d.e, 0) || cuEventCreate(&d.f, 0) || cuMemAlloc_v2(&d.room, 64) ||
           cuStreamBeginCapture_v2(d.s, CU_CAPTURE_MODE_RELAXED);
}

/* A capture that failed leaves both streams usable. */
static int tear_down(void **state)
{
    driver *d = *state;
    if (d->g && cuGraphDestroy(d->g))
        return 1;
    d->g = NULL;
    return cuMemsetD8Async(d->room, 1, 32, d->s) || cuMemsetD8Async(d->room + 32, 1, 32, d->other) ||
           cuStreamSynchronize(d->s) || cuStreamSynchronize(d->other) || cuStreamDestroy_v2(d->s) ||
           cuStreamDestroy_v2(d->other) || cuEventDestroy_v2(d->e) || cuEventDestroy_v2(d->f) ||
           cuMemFree_v2(d->room) || cuDevicePrimaryCtxRelease_v2(0);
}

#define IS(call, result) assert_int_equal(call, result)
#define GOES(call) IS(call, CU_SUCCESS)

static void fork_stream(driver *d)
{
    GOES(cuMemsetD8Async(d->room, 1, 64, d->s));
    GOES(cuEventRecord(d->e, d->s));
    GOES(cuStreamWaitEvent(d->other, d->e, 0));
    GOES(cuMemsetD8Async(d->room, 2, 64, d->other));
}

static void joined(void **state)
{
    driver *d = *state;
    fork_stream(d);
    GOES(cuEventRecord(d->f, d->other));
    GOES(cuStreamWaitEvent(d->s, d->f, 0));
    GOES(cuStreamEndCapture(d->s, &d->g));
    IS(cuStreamWaitEvent(d->s, d->e, 0), CU_CAPTURED_EVENT); /* it has no time outside of the graph */
    GOES(cuEventRecord(d->e, d->s));
    GOES(cuStreamWaitEvent(d->other, d->e, 0));
}

static void unjoined(void **state)
{
    driver *d = *state;
    fork_stream(d);
    IS(cuStreamEndCapture(d->s, &d->g), CU_STREAM_CAPTURE_UNJOINED);
}

static void work_behind_the_join(void **state)
{
    driver *d = *state;
    fork_stream(d);
    GOES(cuEventRecord(d->f, d->other));
    GOES(cuMemsetD8Async(d->room, 3, 64, d->other));
    GOES(cuStreamWaitEvent(d->s, d->f, 0));
    IS(cuStreamEndCapture(d->s, &d->g), CU_STREAM_CAPTURE_UNJOINED);
}

static void an_event_from_outside(void **state)
{
    driver *d = *state;
    GOES(cuEventRecord(d->e, d->other));
    IS(cuStreamWaitEvent(d->s, d->e, 0), CU_STREAM_CAPTURE_ISOLATION);
    IS(cuMemsetD8Async(d->room, 1, 64, d->s), CU_STREAM_CAPTURE_INVALIDATED);
    IS(cuStreamEndCapture(d->s, &d->g), CU_STREAM_CAPTURE_INVALIDATED);
}

static void two_captures(void **state)
{
    driver *d = *state;
    GOES(cuStreamBeginCapture_v2(d->other, CU_CAPTURE_MODE_RELAXED));
    GOES(cuEventRecord(d->e, d->s));
    IS(cuStreamWaitEvent(d->other, d->e, 0), CU_STREAM_CAPTURE_MERGE);
    IS(cuStreamEndCapture(d->other, &d->g), CU_STREAM_CAPTURE_INVALIDATED);
    IS(cuStreamEndCapture(d->s, &d->g), CU_STREAM_CAPTURE_INVALIDATED);
}

static void ended_by_the_other_stream(void **state)
{
    driver *d = *state;
    fork_stream(d);
    IS(cuStreamEndCapture(d->other, &d->g), CU_STREAM_CAPTURE_UNMATCHED);
    IS(cuStreamEndCapture(d->s, &d->g), CU_STREAM_CAPTURE_INVALIDATED);
}

/* ---- queues */

/* `other` copies what q writes, while q goes on; `rounds` of it. */
static void put(bench *t, ls_event *there, ls_event *back, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        t->ops->fill(t->q, t->a, i + 1, BYTES);
        t->ops->record(t->q, there);
        t->ops->await(t->other, there);
        t->ops->copy(t->other, t->b, t->a, BYTES);
        t->ops->record(t->other, back);
        t->ops->fill(t->q, t->c, 9, BYTES);
        t->ops->await(t->q, back);
        t->ops->copy(t->q, (char *)t->host + i, t->b, 1);
    }
}

static void begin_cuda(bench *t, const char *graphs)
{
    setenv("LOCKSTEP_CUDA_GRAPHS", graphs, 1);
    begin(t, "cuda", NULL);
}

static void two_queues_in_one_recording(void **state)
{
    (void)state;
    static const char *const GRAPHS[] = { "1", "0" };
    for (int g = 0; g < 2; g++) {
        bench t;
        ls_event *there, *back;
        ls_recording *r;
        begin_cuda(&t, GRAPHS[g]);
        ASSERT_OK(t.ops->event(&there, &t.d));
        ASSERT_OK(t.ops->event(&back, &t.d));
        t.ops->capture(t.q, t.other);
        put(&t, there, back, 20);
        ASSERT_OK(t.ops->captured(t.q, &r));
        for (int times = 0; times < 3; times++) {
            memset(t.host, 0, 20);
            t.ops->replay(t.q, r);
            ASSERT_OK(t.ops->wait(t.q, NULL));
            for (int i = 0; i < 20; i++)
                assert_int_equal(((char *)t.host)[i], i + 1);
        }
        /* nothing of it is kept any more */
        t.ops->fill(t.other, t.a, 77, BYTES);
        t.ops->copy(t.other, t.host, t.a, 1);
        ASSERT_OK(t.ops->wait(t.other, NULL));
        assert_int_equal(((char *)t.host)[0], 77);
        t.ops->discard(&r);
        t.ops->forget(&there);
        t.ops->forget(&back);
        end(&t);
    }
    unsetenv("LOCKSTEP_CUDA_GRAPHS");
}

/* An event that was recorded elsewhere, or (`ahead` false) that is awaited elsewhere, cannot be in a graph.
 */
static void reach_out(bool ahead)
{
    bench t;
    ls_event *there, *back;
    ls_recording *r;
    begin_cuda(&t, "1");
    ASSERT_OK(t.ops->event(&there, &t.d));
    ASSERT_OK(t.ops->event(&back, &t.d));
    t.ops->record(t.other, back);
    t.ops->capture(t.q, NULL);
    if (ahead)
        t.ops->await(t.q, back);
    t.ops->fill(t.q, t.a, 3, BYTES);
    if (!ahead)
        t.ops->record(t.q, there);
    ASSERT_OK(t.ops->captured(t.q, &r));
    for (int i = 0; i < 3; i++) {
        if (!ahead)
            t.ops->await(t.q, back);
        t.ops->replay(t.q, r);
        if (ahead)
            t.ops->record(t.q, there);
        t.ops->await(t.other, there);
        t.ops->copy(t.other, t.host, t.a, BYTES);
        t.ops->record(t.other, back);
    }
    ASSERT_OK(t.ops->wait(t.other, NULL));
    assert_int_equal(((char *)t.host)[7], 3);
    ASSERT_OK(t.ops->wait(t.q, NULL));
    t.ops->discard(&r);
    t.ops->forget(&there);
    t.ops->forget(&back);
    end(&t);
    unsetenv("LOCKSTEP_CUDA_GRAPHS");
}

static void events_that_reach_out(void **state)
{
    (void)state;
    reach_out(true);
    reach_out(false);
}

static void a_queue_that_is_not_awaited(void **state)
{
    (void)state;
    bench t;
    ls_event *there, *back;
    ls_recording *r;
    begin_cuda(&t, "1");
    ASSERT_OK(t.ops->event(&there, &t.d));
    ASSERT_OK(t.ops->event(&back, &t.d));
    t.ops->capture(t.q, t.other);
    put(&t, there, back, 2);
    t.ops->copy(t.other, t.b, t.a, BYTES);
    ASSERT_OK(t.ops->captured(t.q, &r));
    t.ops->replay(t.q, r);
    ASSERT_FAILS(t.ops->wait(t.q, NULL), LS_E_DEVICE, "a graph of", "CAPTURE_UNJOINED");
    t.ops->discard(&r);
    t.ops->forget(&there);
    t.ops->forget(&back);
    end(&t);
    unsetenv("LOCKSTEP_CUDA_GRAPHS");
}

#define RULE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
int main(void)
{
    setenv("LOCKSTEP_SHIM", "seed=4,delay=200us,leaks", 1);
    const struct CMUnitTest tests[] = {
        RULE(joined),
        RULE(unjoined),
        RULE(work_behind_the_join),
        RULE(an_event_from_outside),
        RULE(two_captures),
        RULE(ended_by_the_other_stream),
        cmocka_unit_test(two_queues_in_one_recording),
        cmocka_unit_test(events_that_reach_out),
        cmocka_unit_test(a_queue_that_is_not_awaited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
