/* test_shm.c - ranks as processes: this program starts itself again for each rank. They share windows and
 * sums. The others name a rank that is killed, stopped or leaves. Nothing is left behind. */
#include "base/clock.h"
#include "comm/comm.h"
#include "comm/shm.h"
#include "comm/group_own.h"
#include "support/support.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- what a rank does; it says on stdout how that ended */

enum { COUNT = 5000, STEPS = 20 };

static ls_status reduce_and_gather(ls_group *g, ls_axis *a)
{
    int n = ls_group_size(g), r = ls_group_rank(g);
    ls_window *w;
    ls_collective *scatter, *gather;
    LS_TRY(ls_window_create(&w, a, sizeof(float) * COUNT * (size_t)n, sizeof(float) * COUNT * (size_t)n));
    float sum[COUNT], slice[COUNT], *mine = (float *)(void *)w->mine;
    LS_TRY(ls_collective_create(&scatter, &(ls_collective_desc){ .kind = LS_REDUCE_SCATTER,
                                                                 .axis = a,
                                                                 .count = COUNT,
                                                                 .from = LS_F32,
                                                                 .via = LS_F32,
                                                                 .to = LS_F32,
                                                                 .window = w,
                                                                 .result = sum,
                                                                 .threads = 1,
                                                                 .label = "reduce_scatter of unit a" }));
    LS_TRY(ls_collective_create(&gather, &(ls_collective_desc){ .kind = LS_ALL_GATHER,
                                                                .axis = a,
                                                                .count = COUNT,
                                                                .from = LS_F32,
                                                                .to = LS_F32,
                                                                .map_from = (const char *)slice,
                                                                .map_to = w->shared,
                                                                .threads = 1,
                                                                .label = "all_gather of unit a" }));
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < COUNT * n; i++)
            mine[i] = (float)(i % 1000 * (r + 1) + step);
        LS_TRY(ls_collective_start(scatter));
        LS_TRY(ls_collective_wait(scatter));
        for (int i = 0; i < COUNT; i++) {
            if (sum[i] != (float)((i + COUNT * r) % 1000 * n * (n + 1) / 2 + n * step))
                return ls_fail(LS_E_INTERNAL, "step %d: sum %d is %g", step, i, (double)sum[i]);
            slice[i] = sum[i];
        }
        LS_TRY(ls_collective_start(gather));
        LS_TRY(ls_collective_wait(gather));
        for (int i = 0; i < COUNT * n; i++)
            if (((float *)(void *)w->shared)[i] != (float)(i % 1000 * n * (n + 1) / 2 + n * step))
                return ls_fail(LS_E_INTERNAL, "step %d: gathered %d is wrong", step, i);
        ls_axis_arrive(a);
        LS_TRY(ls_axis_fence(a, "all have read"));
    }
    ls_collective_destroy(&scatter);
    ls_collective_destroy(&gather);
    ls_window_destroy(&w);
    return LS_OK;
}

/* Until the last rank is stopped. */
static void await_stop(ls_group *g)
{
    char text[LS_DESCRIPTION_BYTES];
    do {
        usleep(1000);
        ls_control_describe(g->control, ls_group_size(g) - 1, text);
    } while (!strstr(text, "it is stopped"));
}

static void halt(int number)
{
    (void)number;
    raise(SIGSTOP);
}

/* Rank 0 is stopped while it waits for rank 1, and gets its core back later than the deadline is long. */
static ls_status pause_both(ls_group *g, ls_axis *a)
{
    ls_group_set_deadline(g, 1);
    if (ls_group_rank(g) == 0) {
        signal(SIGALRM, halt);
        setitimer(ITIMER_REAL, &(struct itimerval){ .it_value = { .tv_usec = 50000 } }, NULL);
    } else {
        raise(SIGSTOP);
    }
    ls_axis_arrive(a);
    return ls_axis_fence(a, "the end of program micro");
}

/* The last rank does as the scenario says, in its third step; the others wait for it. Of a stopped one rank 0
 * loses its patience. */
static ls_status misbehave(ls_group *g, ls_axis *a, const char *scenario)
{
    for (int step = 0;; step++) {
        char doing[64];
        snprintf(doing, sizeof doing, "step %d, linear_dw of layer %d", step, ls_group_rank(g));
        ls_group_doing(g, doing);
        if (step == 3 && ls_group_rank(g) == 0 && !strcmp(scenario, "stop")) {
            await_stop(g);
            ls_group_set_deadline(g, 0.2);
        }
        if (step == 3 && ls_group_rank(g) == ls_group_size(g) - 1) {
            if (!strcmp(scenario, "exit"))
                _exit(0);
            if (!strcmp(scenario, "fail"))
                return ls_fail(LS_E_NUMERIC, "the loss is not a number");
            raise(!strcmp(scenario, "kill") ? SIGKILL : SIGSTOP);
        }
        ls_axis_arrive(a);
        LS_TRY(ls_axis_fence(a, "the end of program micro"));
    }
}

static ls_status act(ls_group *g, const char *scenario)
{
    int n = ls_group_size(g), all[n];
    ls_axis *a;
    ls_window *w;
    for (int i = 0; i < n; i++)
        all[i] = i;
    LS_TRY(ls_axis_create(&a, g, "dp", n, all));
    ls_group_set_deadline(g, 60);
    ls_status s = !strcmp(scenario, "work")    ? reduce_and_gather(g, a)
                  : !strcmp(scenario, "pause") ? pause_both(g, a)
                  : !strcmp(scenario, "large") ? ls_window_create(&w, a, (size_t)1 << 45, 0)
                                               : misbehave(g, a, scenario);
    if (s != LS_OK && s != LS_E_PEER)
        ls_group_fail(g, s, ls_error_message());
    ls_axis_destroy(&a);
    return s;
}

static int rank_main(char **argv)
{
    ls_group *g;
    ls_status s = ls_shm_join(&g, atoi(argv[2]), atoi(argv[3]));
    if (s == LS_OK)
        s = act(g, argv[4]);
    printf("%s: %s\n", ls_status_name(s), s == LS_OK ? "" : ls_error_message());
    ls_group_destroy(&g);
    return s != LS_OK;
}

/* ---- starting ranks */

enum { MOST = 4 };
struct ranks {
    int n, fd, out[MOST];
    pid_t pid[MOST];
    char said[MOST][1024];
};

static void start(struct ranks *r, int n, const char *scenario)
{
    *r = (struct ranks){ .n = n };
    ASSERT_OK(ls_shm_create(n, &r->fd));
    for (int i = 0; i < n; i++) {
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        fflush(NULL);
        r->pid[i] = fork();
        if (r->pid[i] == 0) {
            char fd[16], rank[16];
            snprintf(fd, sizeof fd, "%d", r->fd);
            snprintf(rank, sizeof rank, "%d", i);
            fcntl(r->fd, F_SETFD, 0);
            dup2(ends[1], STDOUT_FILENO);
            execl("/proc/self/exe", "test_shm", "rank", fd, rank, scenario, (char *)NULL);
            _exit(99);
        }
        close(ends[1]);
        r->out[i] = ends[0];
    }
}

/* What rank i says until it ends, and its wait status. Not reaped before: a corpse does not count as alive.
 */
static int finish(struct ranks *r, int i)
{
    int status;
    size_t n = 0;
    for (ssize_t got; n < sizeof r->said[i] - 1; n += (size_t)got)
        if ((got = read(r->out[i], r->said[i] + n, sizeof r->said[i] - 1 - n)) <= 0)
            break;
    close(r->out[i]);
    assert_int_equal(waitpid(r->pid[i], &status, 0), r->pid[i]);
    return status;
}

static void finish_all(struct ranks *r)
{
    for (int i = 0; i < r->n; i++)
        finish(r, i);
    close(r->fd);
}

/* ---- tests */

static void work(void **state)
{
    (void)state;
    for (int n = 1; n <= MOST; n++) {
        struct ranks r;
        start(&r, n, "work");
        finish_all(&r);
        for (int i = 0; i < n; i++)
            assert_string_equal(r.said[i], "ok: \n");
    }
}

/* All others say the same, and it names rank 2, the wait, and what rank 2 was at. */
static void named(struct ranks *r, const char *why)
{
    for (int i = 0; i < 2; i++) {
        ASSERT_CONTAINS(r->said[i], "another rank failed: rank 2: ");
        ASSERT_CONTAINS(r->said[i], why);
        assert_string_equal(r->said[i], r->said[0]);
    }
}

static void dies(const char *scenario)
{
    struct ranks r;
    double began = ls_now();
    start(&r, 3, scenario);
    finish_all(&r);
    named(&r, "its process is gone");
    ASSERT_CONTAINS(r.said[0], "the end of program micro");
    ASSERT_CONTAINS(r.said[0], "it last did: step 3, linear_dw of layer 2");
    assert_true(ls_now() - began < 30); /* and not at the deadline, after 60 */
}

static void killed(void **state) { (void)state, dies("kill"); }
static void gone_without_a_word(void **state) { (void)state, dies("exit"); }

static void stopped(void **state)
{
    (void)state;
    struct ranks r;
    start(&r, 3, "stop");
    finish(&r, 0);
    finish(&r, 1);
    kill(r.pid[2], SIGKILL);
    finish(&r, 2);
    close(r.fd);
    named(&r, "did not come within 0.2 s; rank 0 waited for it");
    ASSERT_CONTAINS(r.said[0], "it is stopped");
    ASSERT_CONTAINS(r.said[0], "it last did: step 3, linear_dw of layer 2");
}

/* Ctrl-Z, and later fg: the time between does not count. Otherwise the rank that continues first would miss
 * the others. */
static void a_pause_of_all_is_no_failure(void **state)
{
    (void)state;
    struct ranks r;
    int status;
    start(&r, 2, "pause");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waitpid(r.pid[i], &status, WUNTRACED), r.pid[i]);
        assert_true(WIFSTOPPED(status));
    }
    usleep(1200000);
    kill(r.pid[0], SIGCONT);
    usleep(100000);
    kill(r.pid[1], SIGCONT);
    finish_all(&r);
    for (int i = 0; i < 2; i++)
        assert_string_equal(r.said[i], "ok: \n");
}

static void says_why(void **state)
{
    (void)state;
    struct ranks r;
    ls_shm_watch *w;
    ls_heard heard;
    char text[128];
    start(&r, 3, "fail");
    ASSERT_OK(ls_shm_watch_open(&w, r.fd));
    finish_all(&r);
    named(&r, "the loss is not a number");
    assert_true(ls_shm_watch_failure(w, &heard));
    assert_int_equal(heard.rank, 2);
    assert_int_equal(heard.code, LS_E_NUMERIC);
    assert_int_equal(heard.missed, LS_MISSED_NOT);
    assert_string_equal(heard.text, "the loss is not a number");
    ls_shm_watch_doing(w, 2, text);
    assert_string_equal(text, "step 3, linear_dw of layer 2");
    ls_shm_watch_close(&w);
}

/* The launcher knows first, of a rank that has not even joined. */
static void launcher_tells(void **state)
{
    (void)state;
    int fd;
    ls_group *g;
    ls_shm_watch *w;
    ls_heard heard;
    ASSERT_OK(ls_shm_create(2, &fd));
    ASSERT_OK(ls_shm_join(&g, fd, 0));
    assert_string_equal(ls_group_kind(g), "shm");
    ASSERT_OK(ls_shm_watch_open(&w, fd));
    assert_true(ls_shm_watch_joined(w, 0));
    assert_false(ls_shm_watch_joined(w, 1));
    assert_false(ls_shm_watch_failure(w, &heard));
    ls_shm_watch_gone(w, 1, "killed by signal 9");
    ls_shm_watch_gone(w, 0, "later");
    ASSERT_FAILS(ls_group_barrier(g), LS_E_PEER, "rank 1: killed by signal 9");
    assert_true(ls_shm_watch_failure(w, &heard));
    assert_int_equal(heard.rank, 1);
    assert_int_equal(heard.missed, LS_MISSED_GONE);
    ls_shm_watch_close(&w);
    ls_group_destroy(&g);
    close(fd);
}

static int64_t kept(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return (int64_t)st.st_blocks * 512;
}

/* What is mapped there, as the kernel tells: a name, if it has one. */
static void name_of_mapping(const void *at, char name[256])
{
    char line[512];
    unsigned long begin, end;
    FILE *f = fopen("/proc/self/maps", "r");
    *name = 0;
    while (f && fgets(line, sizeof line, f)) {
        int used = 0;
        if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %n", &begin, &end, &used) == 2 && (uintptr_t)at >= begin &&
            (uintptr_t)at < end)
            snprintf(name, 256, "%.*s", (int)strcspn(line + used, "\n"), line + used);
    }
    if (f)
        fclose(f);
}

/* A window's memory is there when it is made, has no name that could stay behind, and goes back when its last
 * user lets go. */
static void windows_go_back(void **state)
{
    (void)state;
    int fd;
    ls_group *g;
    ls_axis *a;
    ls_window *w, *v;
    ASSERT_OK(ls_shm_create(1, &fd));
    ASSERT_OK(ls_shm_join(&g, fd, 0));
    ASSERT_OK(ls_axis_create(&a, g, "dp", 1, (int[]){ 0 }));
    int64_t before = kept(fd);
    ASSERT_OK(ls_window_create(&w, a, 12 << 20, 4 << 20));
    ASSERT_OK(ls_window_create(&v, a, 100, 0));
    assert_true(kept(fd) >= before + (16 << 20));
    char name[256];
    name_of_mapping(w->mine, name);
    assert_string_equal(name, "/memfd:lockstep (deleted)");
    memset(w->shared, 1, w->shared_bytes);
    ls_window_destroy(&w);
    /* what is left is the small one, on a machine with huge pages two of those */
    assert_true(kept(fd) <= before + (4 << 20));
    assert_int_equal(v->mine[0], 0);
    ls_window_destroy(&v);
    ls_axis_destroy(&a);
    ls_group_destroy(&g);
    close(fd);
}

static void refused(void **state)
{
    (void)state;
    int fd;
    ls_group *g, *again;
    ASSERT_FAILS(ls_shm_create(0, &fd), LS_E_ARG, "0 processes");
    ASSERT_OK(ls_shm_create(2, &fd));
    ASSERT_FAILS(ls_shm_join(&g, fd, 2), LS_E_ARG, "rank 2 is not in the group, which has ranks 0 to 1");
    ASSERT_OK(ls_shm_join(&g, fd, 1));
    ASSERT_FAILS(ls_shm_join(&again, fd, 1), LS_E_ARG, "rank 1 has joined already");
    ls_group_destroy(&g);
    close(fd);
    int other = memfd_create("other", MFD_CLOEXEC);
    assert_int_equal(ftruncate(other, 1 << 20), 0);
    ASSERT_FAILS(ls_shm_join(&g, other, 0), LS_E_FORMAT, "not the shared memory of a process group");
    close(other);
    ASSERT_FAILS(ls_shm_join(&g, 1000, 0), LS_E_FORMAT, "descriptor 1000");
    struct ranks r;
    start(&r, 2, "large");
    finish_all(&r);
    for (int i = 0; i < 2; i++) { /* as its own failure, or already as the other's */
        ASSERT_CONTAINS(r.said[i], "windows of axis \"dp\" for 2 ranks need 64.0 TiB");
        ASSERT_CONTAINS(r.said[i], "available");
    }
}

static void no_process_is_left(void **state)
{
    (void)state;
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

int main(int argc, char **argv)
{
    if (argc == 5 && !strcmp(argv[1], "rank"))
        return rank_main(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work),
        cmocka_unit_test(killed),
        cmocka_unit_test(gone_without_a_word),
        cmocka_unit_test(stopped),
        cmocka_unit_test(a_pause_of_all_is_no_failure),
        cmocka_unit_test(says_why),
        cmocka_unit_test(launcher_tells),
        cmocka_unit_test(windows_go_back),
        cmocka_unit_test(refused),
        cmocka_unit_test(no_process_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
