/* test_fork.c - a process that was forked after its parent used the GPU: each call ends with a message or
 * does nothing, and none hangs; the parent works on. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "device/bench.h"

static bool refused(ls_status s) { return s == LS_E_ARG && strstr(ls_error_message(), "forked"); }

/* In the child: 0, or the number of what is wrong. */
static int use(bench *t)
{
    ls_device d;
    ls_queue *q = NULL;
    ls_recording *r = NULL;
    void *room = NULL, *pinned = NULL;
    alarm(20); /* a call that hangs */
    if (!refused(ls_device_open(&d, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS })))
        return 1;
    if (!refused(t->ops->open(&q, &t->d)))
        return 2;
    if (!refused(t->ops->room(&room, &t->d, BYTES)) || !refused(t->ops->pinned(&pinned, &t->d, BYTES)))
        return 3;
    t->ops->fill(t->q, t->a, 2, BYTES);
    if (!refused(t->ops->wait(t->q, NULL)))
        return 4;
    t->ops->capture(t->other, NULL);
    if (!refused(t->ops->captured(t->other, &r)))
        return 5;
    t->ops->release(t->a, BYTES);
    t->ops->unpin(t->host, BYTES);
    t->ops->close(&t->q);
    return t->q ? 6 : 0;
}

static void after_the_parent(void **state)
{
    bench t;
    int status;
    (void)state;
    begin(&t, "cuda", NULL);
    t.ops->fill(t.q, t.a, 1, BYTES);
    ASSERT_OK(t.ops->wait(t.q, NULL));
    const pid_t child = fork();
    if (child == 0)
        _exit(use(&t));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    t.ops->fill(t.q, t.a, 3, BYTES);
    t.ops->copy(t.q, t.host, t.a, BYTES);
    ASSERT_OK(t.ops->wait(t.q, NULL));
    assert_int_equal(*(unsigned char *)t.host, 3);
    end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(after_the_parent) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
