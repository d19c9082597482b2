/* test_emulated.c - the device for tests: recordings, the faults that it makes on purpose, memory that the
 * host cannot read. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include "base/sys.h"
#include "bench.h"
#include "support/allocations.h"

static void recordings_are_put_in_again(void **state)
{
    (void)state;
    bench t;
    ls_tensor operands[3];
    ls_kernel_args args;
    ls_recording *r;
    ls_event *done;
    int64_t failed;
    begin(&t, "emulated", "seed=5,delay=300us");
    ASSERT_OK(t.ops->event(&done, &t.d));
    const ls_kernel *k = adding(&t, operands, &args);
    t.ops->fill(t.q, t.a, 0, BYTES);
    for (int i = 0; i < N; i++)
        t.host[i] = (float)i;
    t.ops->copy(t.q, t.b, t.host, BYTES);
    t.ops->fill(t.q, t.c, 0, BYTES);
    ASSERT_OK(t.ops->wait(t.q, NULL));
    t.ops->capture(t.q, NULL);
    t.ops->run(t.q, k, &args);
    t.ops->copy(t.q, t.a, t.c, BYTES);
    t.ops->record(t.q, done);
    ASSERT_OK(t.ops->captured(t.q, &r));
    memset(operands, 0, sizeof operands);
    ASSERT_OK(t.ops->wait(t.q, NULL));
    t.ops->copy(t.q, t.host, t.c, BYTES); /* nothing of it ran yet */
    ASSERT_OK(t.ops->wait(t.q, NULL));
    assert_true(t.host[3] == 0);
    for (int times = 1; times <= 5; times++) {
        t.ops->replay(t.q, r);
        t.ops->await(t.other, done);
        t.ops->copy(t.other, t.host + 10 * times, t.a + 3, sizeof *t.host);
        ASSERT_OK(t.ops->wait(t.other, NULL)); /* (the next replay writes `a`) */
    }
    ASSERT_OK(t.ops->wait(t.q, NULL));
    for (int times = 1; times <= 5; times++)
        assert_true(t.host[10 * times] == (float)(3 * times));
    t.ops->discard(&r);
    assert_null(r);
    /* a task keeps its number */
    t.ops->capture(t.q, NULL);
    t.ops->number(t.q, 7);
    t.ops->host(t.q, refuses, "seven");
    ASSERT_OK(t.ops->captured(t.q, &r));
    t.ops->number(t.q, 8);
    t.ops->replay(t.q, r);
    ASSERT_FAILS(t.ops->wait(t.q, &failed), LS_E_NUMERIC, "task seven refuses");
    assert_int_equal(failed, 7);
    t.ops->discard(&r);
    t.ops->forget(&done);
    end(&t);
}

/* The other queue copies what q writes, while q goes on. */
static void recordings_have_two_queues(void **state)
{
    (void)state;
    bench t;
    ls_recording *r;
    ls_event *there, *back;
    begin(&t, "emulated", "seed=6,delay=300us");
    ASSERT_OK(t.ops->event(&there, &t.d));
    ASSERT_OK(t.ops->event(&back, &t.d));
    t.ops->capture(t.q, t.other);
    for (int i = 0; i < 20; i++) {
        t.ops->fill(t.q, t.a, i + 1, BYTES);
        t.ops->record(t.q, there);
        t.ops->await(t.other, there);
        t.ops->copy(t.other, t.b, t.a, BYTES);
        t.ops->record(t.other, back);
        t.ops->fill(t.q, t.c, 9, BYTES);
        t.ops->await(t.q, back);
        t.ops->copy(t.q, (char *)t.host + i, t.b, 1);
    }
    ASSERT_OK(t.ops->captured(t.q, &r));
    for (int times = 0; times < 3; times++) {
        memset(t.host, 0, 20);
        t.ops->replay(t.q, r);
        ASSERT_OK(t.ops->wait(t.q, NULL));
        for (int i = 0; i < 20; i++)
            assert_int_equal(((char *)t.host)[i], i + 1);
    }
    t.ops->fill(t.other, t.host, 77, 1); /* it keeps nothing any more */
    ASSERT_OK(t.ops->wait(t.other, NULL));
    assert_int_equal(((char *)t.host)[0], 77);
    t.ops->discard(&r);
    t.ops->forget(&there);
    t.ops->forget(&back);
    end(&t);
}

static ls_status until_open(void *context)
{
    while (!atomic_load((atomic_bool *)context))
        nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
    return LS_OK;
}

/* That tests see wrong numbers if an await is missing: here the second of three. */
static void an_await_may_be_left_out(void **state)
{
    (void)state;
    bench t;
    atomic_bool open = true;
    ls_event *e;
    begin(&t, "emulated", "skip=2");
    ASSERT_OK(t.ops->event(&e, &t.d));
    for (int round = 1; round <= 3; round++) {
        atomic_store(&open, round != 2);
        t.ops->host(t.q, until_open, &open);
        t.ops->fill(t.q, t.a, round, BYTES);
        t.ops->record(t.q, e);
        t.ops->await(t.other, e);
        t.ops->copy(t.other, t.host, t.a, BYTES);
        ASSERT_OK(t.ops->wait(t.other, NULL));
        assert_int_equal(((char *)t.host)[9], round == 2 ? 1 : round);
        atomic_store(&open, true);
        ASSERT_OK(t.ops->wait(t.q, NULL));
    }
    t.ops->forget(&e);
    end(&t);
}

static void a_task_may_be_made_to_fail(void **state)
{
    (void)state;
    bench t;
    int64_t failed = -1;
    begin(&t, "emulated", "fail=3");
    for (int i = 1; i <= 4; i++) {
        t.ops->number(t.q, 10 * i);
        t.ops->fill(t.q, t.a, i, BYTES);
        t.ops->fill(t.other, t.b, i, BYTES); /* not of the first queue */
    }
    ASSERT_OK(t.ops->wait(t.other, NULL));
    ASSERT_FAILS(t.ops->wait(t.q, &failed), LS_E_DEVICE, "emulated: task 3 of the first queue fails");
    assert_int_equal(failed, 30);
    t.ops->copy(t.q, t.host, t.a, BYTES);
    ASSERT_OK(t.ops->wait(t.q, NULL));
    assert_int_equal(((char *)t.host)[9], 2);
    end(&t);
}

static void settings(void **state)
{
    (void)state;
    static const char *const WRONG[] = {
        "seed",     "seed=",      "seed=x",        "seed=-1",    "delay=3",
        "delay=3m", "delay=-3us", "memory=0",      "memory=12M", "memory=-1",
        "fail=0",   "skip=0",     "fail=1,",       ",fail=1",    "fail=1,,",
        "speed=3",  "seed=1 ",    "seed=1,Seed=2", "delay=90s",  "seed=123456789012345678901234567890",
    };
    ls_device d;
    void *room;
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        setenv("LOCKSTEP_EMULATED", WRONG[i], 1);
        ASSERT_FAILS(ls_device_open(&d, "emulated", &(ls_device_opts){ LS_DEVICE_DEFAULTS }), LS_E_USAGE,
                     "LOCKSTEP_EMULATED=", WRONG[i], "is not understood", "skip=2");
        ASSERT_OK(ls_device_open(&d, "cpu", &(ls_device_opts){ LS_DEVICE_DEFAULTS }));
    }
    setenv("LOCKSTEP_EMULATED", "memory=1MiB,seed=3,delay=1.5ms,fail=17,skip=2", 1);
    ASSERT_OK(ls_device_open(&d, "emulated", &(ls_device_opts){ LS_DEVICE_DEFAULTS }));
    assert_int_equal(d.ops->queue->memory(&d), 1 << 20);
    assert_true(d.ops->queue->apart && d.ops->computes && !strcmp(d.ops->name, "emulated"));
    ASSERT_FAILS(d.ops->queue->room(&room, &d, (1 << 20) + 1), LS_E_MEMORY, "refuses", "1.0 MiB");
    assert_null(room);
    unsetenv("LOCKSTEP_EMULATED");
}

static ls_status takes_time(void *context)
{
    (void)context;
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    return LS_OK;
}

static ls_status work_without_memory(void *context)
{
    bench *t = context;
    ls_event *e = NULL;
    ls_recording *r = NULL;
    ls_queue *q = NULL;
    ls_status s = t->ops->open(&q, &t->d);
    if (s == LS_OK)
        s = t->ops->event(&e, &t->d);
    if (s == LS_OK) {
        t->ops->host(q, takes_time, NULL); /* meanwhile more tasks come than there is memory for at first */
        for (int i = 0; i < 100; i++)
            t->ops->fill(q, t->a, i, BYTES);
        t->ops->record(q, e);
        t->ops->await(t->other, e);
        t->ops->fill(q, t->a, 1, BYTES);
        t->ops->capture(q, NULL);
        t->ops->fill(q, t->b, 1, BYTES);
        t->ops->fill(q, t->b, 2, BYTES);
        s = t->ops->captured(q, &r);
        if (s == LS_OK)
            t->ops->replay(q, r);
        const ls_status at_wait = t->ops->wait(q, NULL), at_other = t->ops->wait(t->other, NULL);
        s = s != LS_OK ? ls_fail(s, "no recording") : at_wait != LS_OK ? at_wait : at_other;
    }
    t->ops->close(&q);
    t->ops->forget(&e);
    t->ops->discard(&r);
    return s;
}

static void out_of_memory_is_reported(void **state)
{
    (void)state;
    bench t;
    begin(&t, "emulated", NULL);
    assert_true(ls_test_memory(work_without_memory, &t, 1) > 64);
    end(&t);
}

static void a_task_has_the_memory_of_one_before(void **state)
{
    (void)state;
    bench t;
    ls_tensor operands[3];
    ls_kernel_args args;
    int allocations = 0, mappings = 0;
    begin(&t, "emulated", "delay=0us");
    const ls_kernel *k = adding(&t, operands, &args);
    for (int round = 0; round < 3; round++) {
        atomic_bool open = false; /* no task is done before all are in the queue: the most memory is needed */
        if (round == 2)
            ls_test_count_begin();
        t.ops->host(t.q, until_open, &open);
        for (int i = 0; i < 40; i++) {
            t.ops->fill(t.q, t.a, i, BYTES);
            t.ops->run(t.q, k, &args);
        }
        atomic_store(&open, true);
        if (t.ops->wait(t.q, NULL) != LS_OK)
            fail();
    }
    ls_test_count_end(&allocations, &mappings);
    assert_int_equal(allocations, 0);
    assert_int_equal(mappings, 0);
    end(&t);
}

/* ---- the host's hands off the device's memory */

/* What a child writes to stderr; *status is how it ended. */
static const char *words_of(void (*child)(void), int *status)
{
    static char text[1 << 14];
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
        dup2(ends[1], STDERR_FILENO);
        child();
        _exit(0);
    }
    close(ends[1]);
    size_t n = 0;
    for (ssize_t more; n + 1 < sizeof text && (more = read(ends[0], text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)more;
    text[n] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(pid, status, 0), pid);
    return text;
}

static float *device_memory(void)
{
    ls_device d;
    void *room;
    if (ls_device_open(&d, "emulated", &(ls_device_opts){ LS_DEVICE_DEFAULTS }) != LS_OK ||
        d.ops->queue->room(&room, &d, 4096) != LS_OK)
        _exit(3);
    return room;
}

enum { PLANTED_LINE = __LINE__ + 4 };
static void reads_on_the_host(void)
{
    volatile float *at = device_memory();
    *(volatile float *)&at[1];
}

static void writes_out(void)
{
    if (ls_sys_write(STDERR_FILENO, device_memory(), 64) != 64)
        _exit(4);
}

static void writes_out_at(void)
{
    if (ls_sys_pwrite(STDERR_FILENO, device_memory(), 64, 0) != 64)
        _exit(4);
}

static void reads_nothing(void)
{
    signal(SIGSEGV, SIG_DFL); /* (cmocka has one) */
    *(volatile char *)(device_memory() ? NULL : "x");
}

/* Whether addr2line finds the line of one of the frames "PROGRAM(+0xOFFSET)" in the text. */
static bool names_line(const char *text, int line)
{
    char wanted[64], command[4500], answer[4500];
    bool found = false;
    snprintf(wanted, sizeof wanted, "test_emulated.c:%d", line);
    for (const char *at = text; !found && (at = strstr(at, "(+0x")); at++) {
        const char *begin = at;
        while (begin > text && begin[-1] != '\n')
            begin--;
        snprintf(command, sizeof command, "addr2line -e %.*s %.*s", (int)(at - begin), begin,
                 (int)strcspn(at + 2, ")"), at + 2);
        FILE *f = popen(command, "r");
        found = f && fgets(answer, sizeof answer, f) && strstr(answer, wanted);
        if (f)
            pclose(f);
    }
    return found;
}

static void the_host_cannot_read_there(void **state)
{
    (void)state;
    int status;
    const char *text = words_of(reads_on_the_host, &status);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    ASSERT_CONTAINS(text, "lockstep: the host read or wrote at a device address");
#ifdef LS_DEV /* (a release build knows no lines) */
    if (system("addr2line --version >/dev/null 2>&1") != 0)
        print_message("the line is not looked up: there is no addr2line (Debian: binutils)\n");
    else if (!names_line(text, PLANTED_LINE))
        fail_msg("no frame leads to line %d:\n%s", PLANTED_LINE, text);
#else
    (void)names_line;
#endif
    text = words_of(writes_out, &status);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    ASSERT_CONTAINS(text, "which is a device's: read it through a queue first");
    text = words_of(writes_out_at, &status);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    ASSERT_CONTAINS(text, "which is a device's: read it through a queue first");
    /* other faults are not the device's matter */
    text = words_of(reads_nothing, &status);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
#endif
    assert_null(strstr(text, "device address"));
}

/* The thread of a queue is not forked: a child that used it would wait for ever. */
static void a_forked_process_is_refused(void **state)
{
    (void)state;
    bench t;
    int status;
    ls_recording *r;
    begin(&t, "emulated", "delay=2ms");
    t.ops->fill(t.q, t.a, 1, BYTES);
    const pid_t child = fork();
    if (child == 0) {
        t.ops->number(t.q, 3);
        t.ops->fill(t.q, t.a, 2, BYTES);
        t.ops->capture(t.q, NULL);
        if (t.ops->captured(t.q, &r) != LS_E_ARG || t.ops->wait(t.q, NULL) != LS_E_ARG)
            _exit(1);
        if (!strstr(ls_error_message(), "this process was forked"))
            _exit(2);
        t.ops->close(&t.q);
        _exit(t.q ? 3 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    ASSERT_OK(t.ops->wait(t.q, NULL));
    end(&t);
}

static void only_where_it_is_named(void **state)
{
    (void)state;
    ls_device d;
    const ls_device_opts o = { LS_DEVICE_DEFAULTS };
    unsetenv("LOCKSTEP_DEVICE");
    setenv("LOCKSTEP_CUDA_LIBRARIES", "/nowhere", 1); /* no GPU, whatever this machine has */
    ASSERT_OK(ls_device_open(&d, NULL, &o));
    assert_string_equal(d.ops->name, "cpu");
    setenv("LOCKSTEP_DEVICE", "", 1);
    ASSERT_OK(ls_device_open(&d, NULL, &o));
    assert_string_equal(d.ops->name, "cpu");
    setenv("LOCKSTEP_DEVICE", "emulated", 1);
    ASSERT_OK(ls_device_open(&d, NULL, &o));
    assert_string_equal(d.ops->name, "emulated");
    ASSERT_OK(ls_device_open(&d, "cpu", &o)); /* a name wins */
    assert_string_equal(d.ops->name, "cpu");
    setenv("LOCKSTEP_DEVICE", "emulate", 1);
    ASSERT_FAILS(ls_device_open(&d, NULL, &o), LS_E_UNSUPPORTED,
                 "LOCKSTEP_DEVICE: device \"emulate\" is not known", "did you mean emulated?");
    unsetenv("LOCKSTEP_DEVICE");
    assert_string_equal(ls_device_bits("emulated"), "cpu");
    assert_string_equal(ls_device_bits("ref"), "ref");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forked_process_is_refused), cmocka_unit_test(recordings_are_put_in_again),
        cmocka_unit_test(recordings_have_two_queues),  cmocka_unit_test(an_await_may_be_left_out),
        cmocka_unit_test(a_task_may_be_made_to_fail),  cmocka_unit_test(settings),
        cmocka_unit_test(out_of_memory_is_reported),   cmocka_unit_test(the_host_cannot_read_there),
        cmocka_unit_test(only_where_it_is_named),      cmocka_unit_test(a_task_has_the_memory_of_one_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
