/* test_link.c - links between the GPUs of several ranks (device/link.h), over the shims. Each rank is a
 * process, which is forked before it opens the driver. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "device/cuda/nccl_api.h"
#include "device/link.h"
#include "support/support.h"

#define DECLARE(field, symbol, arguments) nccl_result symbol arguments;
NCCL_FUNCTIONS(DECLARE)
const char *ncclGetLastError(nccl_comm c);
cu_result cuStreamCreate(cu_stream *s, unsigned flags), cuStreamDestroy_v2(cu_stream s);

enum { MOST = 512 << 10, RANKS = 4 };

/* Of all ranks. */
typedef struct meeting {
    _Atomic int invited, arrived;
    unsigned char id[LS_LINK_ID];
} meeting;

typedef struct rank {
    int rank, n;
    meeting *all;
    ls_device d;
    const ls_queue_ops *ops;
    const ls_link_ops *link;
    ls_queue *q, *beside;
    ls_link *l;
    char *a, *b;    /* of the device */
    char *in, *out; /* pinned */
} rank;
typedef void (*body)(rank *r);

/* In a rank's process, where a failed assertion of cmocka has nowhere to go. */
#define HOLDS(x)                                                              \
    do {                                                                      \
        if (!(x)) {                                                           \
            fprintf(stderr, "rank %d: line %d: %s\n", r->rank, __LINE__, #x); \
            _exit(3);                                                         \
        }                                                                     \
    } while (0)
#define WORKS(x)                                                                                      \
    do {                                                                                              \
        if ((x) != LS_OK) {                                                                           \
            fprintf(stderr, "rank %d: line %d: %s: %s\n", r->rank, __LINE__, #x, ls_error_message()); \
            _exit(3);                                                                                 \
        }                                                                                             \
    } while (0)
#define FAILS(x, text)                                                                        \
    do {                                                                                      \
        if ((x) == LS_OK || !strstr(ls_error_message(), text)) {                              \
            fprintf(stderr, "rank %d: line %d: %s\n", r->rank, __LINE__, ls_error_message()); \
            _exit(3);                                                                         \
        }                                                                                     \
    } while (0)

static void nap(void) { nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL); }

static void meet(rank *r)
{
    meeting *m = r->all;
    if (r->rank == 0) {
        if (r->n > 1)
            WORKS(r->link->invite(m->id));
        m->invited = 1;
    }
    while (!m->invited)
        nap();
    WORKS(r->link->join(&r->l, &r->d, m->id, r->n, r->rank));
}

static void begin(rank *r)
{
    WORKS(ls_device_open(&r->d, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    r->ops = r->d.ops->queue;
    r->link = r->ops->link;
    WORKS(r->ops->open(&r->q, &r->d));
    WORKS(r->ops->open(&r->beside, &r->d));
    WORKS(r->ops->room((void **)&r->a, &r->d, MOST));
    WORKS(r->ops->room((void **)&r->b, &r->d, MOST));
    WORKS(r->ops->pinned((void **)&r->in, &r->d, MOST));
    WORKS(r->ops->pinned((void **)&r->out, &r->d, MOST));
    meet(r);
}

static void end(rank *r)
{
    r->link->leave(&r->l);
    HOLDS(!r->l);
    r->ops->close(&r->q);
    r->ops->close(&r->beside);
    r->ops->release(r->a, MOST);
    r->ops->release(r->b, MOST);
    r->ops->unpin(r->in, MOST);
    r->ops->unpin(r->out, MOST);
}

/* Runs `work` in n processes; their exit statuses must be `status`. What they wrote to stderr must have
 * `text`. */
static void run(int n, const char *settings, body work, int status, const char *text)
{
    char shim[160], said[16384];
    FILE *err = tmpfile();
    assert_non_null(err);
    meeting *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t ids[RANKS];
    snprintf(shim, sizeof shim, "gpus=8,leaks,%s", settings);
    for (int i = 0; i < n; i++) {
        if ((ids[i] = fork()) > 0)
            continue;
        rank r = { .rank = i, .n = n, .all = m };
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        setenv("LOCKSTEP_CUDA_DEVICE", number, 1);
        setenv("LOCKSTEP_SHIM", shim, 1);
        dup2(fileno(err), 2);
        alarm(100);
        work(&r);
        exit(0);
    }
    bool right = true;
    for (int left = n, how; left; left--) {
        const pid_t one = waitpid(-1, &how, 0);
        const bool failed = !WIFEXITED(how) || WEXITSTATUS(how) != status;
        right &= !failed;
        for (int i = 0; i < n; i++) { /* the others may wait for it */
            if (ids[i] == one)
                ids[i] = 0;
            else if (ids[i] && failed)
                kill(ids[i], SIGKILL);
        }
    }
    rewind(err);
    said[fread(said, 1, sizeof said - 1, err)] = 0;
    if (!right || (text && !strstr(said, text)))
        fail_msg("%d ranks (%s): %s", n, settings, said);
    fclose(err);
    munmap(m, sizeof *m);
}

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
        HOLDS(r->ops->idle(r->q));
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

/* ---- a step as it is captured: an all-reduce in a second queue, beside other work */

enum { EACH = 256 }; /* f32 of a piece */

static float value(int from, int round, int i)
{
    return (float)(i % 13) * 0.5f + (float)(100 * from + round);
}

static void put_step(rank *r, ls_event *ready, ls_event *done)
{
    const size_t bytes = EACH * sizeof(float);
    r->ops->copy(r->q, r->a, r->in, bytes * (size_t)r->n);
    r->ops->record(r->q, ready);
    r->ops->await(r->beside, ready);
    r->link->exchange(r->beside, r->l, r->a, r->b, bytes);
    r->link->combine(r->beside, &(ls_combination){ .from = LS_F32,
                                                   .via = LS_F32,
                                                   .to = LS_F32,
                                                   .n = r->n,
                                                   .stride = bytes,
                                                   .in = r->b,
                                                   .out = r->b + bytes * RANKS + bytes * (size_t)r->rank,
                                                   .count = EACH });
    r->link->gather(r->beside, r->l, r->b + bytes * RANKS, bytes);
    r->ops->record(r->beside, done);
    r->ops->fill(r->q, r->a + bytes * RANKS, 5, bytes);
    r->ops->await(r->q, done);
    r->ops->copy(r->q, r->out, r->b + bytes * RANKS, bytes * (size_t)r->n);
    r->ops->copy(r->q, r->out + bytes * RANKS, r->a + bytes * RANKS, bytes);
}

static void look(const rank *r, int round)
{
    const float *in = (const float *)(const void *)r->out;
    for (int i = 0; i < r->n * EACH; i++) {
        float sum = 0;
        for (int p = 0; p < r->n; p++)
            sum += value(p, round, i);
        HOLDS(in[i] == sum);
    }
    HOLDS(r->out[EACH * sizeof(float) * RANKS] == 5);
}

static void set(rank *r, int round)
{
    for (int i = 0; i < r->n * EACH; i++)
        ((float *)(void *)r->in)[i] = value(r->rank, round, i);
}

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
        if (round == 3) { /* one behind the other */
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
        for (int i = 0; i < 50; i++) {
            HOLDS(!r->ops->idle(r->q));
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

/* ---- calls that the header forbids: the shim names them */

static nccl_comm comm_of(rank *r, cu_stream *s)
{
    nccl_comm c;
    nccl_id id;
    HOLDS(!cuStreamCreate(s, CU_STREAM_NON_BLOCKING));
    if (r->rank == 0) {
        HOLDS(!ncclGetUniqueId(&id));
        memcpy(r->all->id, &id, sizeof id);
        r->all->arrived = 1;
    }
    while (!r->all->arrived)
        nap();
    memcpy(&id, r->all->id, sizeof id);
    HOLDS(!ncclCommInitRank(&c, r->n, id, r->rank));
    return c;
}

static nccl_result in_group(nccl_result a, nccl_result b) { return a ? a : b; }

static void forbidden(rank *r)
{
    cu_stream s;
    begin(r);
    const nccl_comm c = comm_of(r, &s);
    char *own = r->a + 64 * (size_t)r->rank, *host = malloc(256), *end_of_room = r->a + MOST;
    const int other = 1 - r->rank;
    nccl_comm none;
    nccl_id id = { "no id" };
#define REFUSED(call, text)                                                      \
    do {                                                                         \
        const nccl_result got = (call);                                          \
        if (!got || !strstr(ncclGetLastError(NULL), text)) {                     \
            fprintf(stderr, "%s: %d, %s\n", #call, got, ncclGetLastError(NULL)); \
            _exit(3);                                                            \
        }                                                                        \
    } while (0)
    REFUSED(ncclAllGather(own, r->a, 64, 7, c, s), "type 7");
    REFUSED(ncclAllGather(r->b, r->a, 64, NCCL_INT8, c, s), "not in place");
    REFUSED(ncclAllGather(own, r->a, MOST, NCCL_INT8, c, s), "no memory of the GPU");
    REFUSED(ncclAllGather(host, host, 64, NCCL_INT8, c, s), "no memory of the GPU");
    REFUSED(ncclAllGather(own, r->a, 64, NCCL_INT8, c, NULL), "the NULL stream");
    REFUSED(ncclAllGather(own, r->a, 64, NCCL_INT8, NULL, s), "no communicator");
    REFUSED(ncclSend(r->a, 64, NCCL_INT8, other, c, s), "outside of a group");
    REFUSED(ncclGroupEnd(), "no group has begun");
#define REFUSED_IN_GROUP(call, text)        \
    do {                                    \
        HOLDS(!ncclGroupStart());           \
        const nccl_result failed = (call);  \
        REFUSED(in_group(failed, 0), text); \
        HOLDS(ncclGroupEnd());              \
    } while (0)
    REFUSED_IN_GROUP(ncclSend(r->a, 64, NCCL_INT8, 2, c, s), "peer 2 of 2 ranks");
    REFUSED_IN_GROUP(ncclSend(r->a, 64, NCCL_INT8, -1, c, s), "peer -1 of 2 ranks");
    REFUSED_IN_GROUP(ncclRecv(end_of_room - 63, 64, NCCL_INT8, other, c, s), "no memory of the GPU");
    REFUSED_IN_GROUP(
        in_group(ncclSend(r->a, 64, NCCL_INT8, other, c, s), ncclRecv(r->a + 63, 64, NCCL_INT8, other, c, s)),
        "overlap in memory");
    REFUSED_IN_GROUP(
        in_group(ncclSend(r->a, 64, NCCL_INT8, other, c, s), ncclSend(r->b, 64, NCCL_INT8, other, c, s)),
        "a second message for rank");
    REFUSED(ncclCommInitRank(&none, 2, id, 0), "the id is none");
    REFUSED(ncclCommInitRank(&none, 2, id, 2), "rank 2 of 2");
    HOLDS(!cuStreamDestroy_v2(s));
    REFUSED(ncclAllGather(own, r->a, 64, NCCL_INT8, c, s), "the stream was destroyed");
    HOLDS(!ncclCommFinalize(c));
    REFUSED(ncclCommFinalize(c), "was finalized");
    HOLDS(!ncclCommDestroy(c));
    REFUSED(ncclCommDestroy(c), "no communicator");
    free(host);
    end(r);
}

/* Both ranks say that they are rank 0. */
static void same_rank(rank *r)
{
    r->rank = 0;
    r->all->arrived++;
    WORKS(ls_device_open(&r->d, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    r->link = ls_queue_cuda.link;
    if (!strcmp(getenv("LOCKSTEP_CUDA_DEVICE"), "0")) {
        WORKS(r->link->invite(r->all->id));
        r->all->invited = 1;
    }
    while (!r->all->invited)
        nap();
    FAILS(r->link->join(&r->l, &r->d, r->all->id, 2, 0), "another process has this rank");
    r->all->arrived++;
    while (r->all->arrived < 4)
        nap();
}

/* Two ranks on one GPU. */
static void same_gpu(rank *r)
{
    setenv("LOCKSTEP_CUDA_DEVICE", "5", 1);
    WORKS(ls_device_open(&r->d, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    r->link = ls_queue_cuda.link;
    if (r->rank == 0) {
        WORKS(r->link->invite(r->all->id));
        r->all->invited = 1;
    }
    while (!r->all->invited)
        nap();
    FAILS(r->link->join(&r->l, &r->d, r->all->id, 2, r->rank), "Duplicate GPU detected");
    r->all->arrived++;
    while (r->all->arrived < 2)
        nap();
}

static void wrong_arguments_are_named(void **state)
{
    (void)state;
    run(2, "delay=0us", forbidden, 0, "shim: ncclAllGather: type 7");
    run(2, "delay=0us", same_rank, 0, NULL);
    run(2, "delay=0us", same_gpu, 0, NULL);
}

/* ---- an event that is missing gives other results */

static void a_missing_event_shows(void **state)
{
    (void)state;
    run(2, "seed=1,delay=3ms,skip=1", steps, 3, "line");
    run(2, "seed=1,delay=3ms,skip=2", steps, 3, "line");
}

/* ---- which NCCL there is */

static void is_found(rank *r)
{
    const char *name;
    WORKS(ls_device_open(&r->d, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    WORKS(r->d.ops->queue->link->find(&name, &r->d));
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
    WORKS(r->d.ops->queue->link->find(&name, &r->d));
    HOLDS(!strcmp(name, "NCCL 2.28.6"));
}

static void is_too_old(rank *r)
{
    const char *name;
    WORKS(ls_device_open(&r->d, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    FAILS(r->d.ops->queue->link->find(&name, &r->d), "has version 2.17.1; 2.18 or newer is needed");
}

static void is_absent(rank *r)
{
    const char *name;
    setenv("LOCKSTEP_CUDA_LIBRARIES", LS_TEST_SHIMS "/without_nccl", 1);
    WORKS(ls_device_open(&r->d, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    FAILS(r->d.ops->queue->link->find(&name, &r->d), "libnccl.so.2 is not in " LS_TEST_SHIMS "/without_nccl");
    FAILS(r->d.ops->queue->link->find(&name, &r->d), "pip install nvidia-nccl-cu13");
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
    r->link = ls_queue_cuda.link;
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
        cmocka_unit_test(wrong_arguments_are_named),
        cmocka_unit_test(a_missing_event_shows),
        cmocka_unit_test(the_library_is_looked_for),
        cmocka_unit_test(one_rank_needs_no_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
