/* link_ranks.h - ranks with a link between their GPUs, for tests over the shims. Each rank is a process,
 * which is forked before it opens the driver. */
#pragma once
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

#include "device/link.h"
#include "support/support.h"

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

enum { WRONG_RESULT = 3, RACE = 66 }; /* exit statuses; the second is ThreadSanitizer's */

/* In a rank's process, where a failed assertion of cmocka has nowhere to go. */
#define HOLDS(x)                                                              \
    do {                                                                      \
        if (!(x)) {                                                           \
            fprintf(stderr, "rank %d: line %d: %s\n", r->rank, __LINE__, #x); \
            _exit(WRONG_RESULT);                                              \
        }                                                                     \
    } while (0)
#define WORKS(x)                                                                                      \
    do {                                                                                              \
        if ((x) != LS_OK) {                                                                           \
            fprintf(stderr, "rank %d: line %d: %s: %s\n", r->rank, __LINE__, #x, ls_error_message()); \
            _exit(WRONG_RESULT);                                                                      \
        }                                                                                             \
    } while (0)
#define FAILS(x, text)                                                                        \
    do {                                                                                      \
        if ((x) == LS_OK || !strstr(ls_error_message(), text)) {                              \
            fprintf(stderr, "rank %d: line %d: %s\n", r->rank, __LINE__, ls_error_message()); \
            _exit(WRONG_RESULT);                                                              \
        }                                                                                     \
    } while (0)

static inline void nap(void) { nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL); }

static inline void meet(rank *r)
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

static inline void begin(rank *r)
{
    WORKS(ls_device_open(&r->d, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    r->ops = r->d.ops->queue;
    r->link = ls_device_cuda.link;
    WORKS(r->ops->open(&r->q, &r->d));
    WORKS(r->ops->open(&r->beside, &r->d));
    WORKS(r->ops->room((void **)&r->a, &r->d, MOST));
    WORKS(r->ops->room((void **)&r->b, &r->d, MOST));
    WORKS(r->ops->pinned((void **)&r->in, &r->d, MOST));
    WORKS(r->ops->pinned((void **)&r->out, &r->d, MOST));
    meet(r);
}

static inline void end(rank *r)
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

/* Runs `work` in n processes; their exit statuses must be `status`; where that is WRONG_RESULT, one process
 * that has one, or a race that ThreadSanitizer finds, is enough: the others may be right, or wait for it.
 * What they wrote to stderr must have `text`. */
static inline void run(int n, const char *settings, body work, int status, const char *text)
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
    const bool one_is_enough = status == WRONG_RESULT;
    bool right = !one_is_enough;
    for (int left = n, how; left; left--) {
        const pid_t ended = waitpid(-1, &how, 0);
        const int code = WIFEXITED(how) ? WEXITSTATUS(how) : -1;
        const bool as_wanted = code == status || (one_is_enough && code == RACE);
        right = one_is_enough ? right || as_wanted : right && as_wanted;
        for (int i = 0; i < n; i++) {
            if (ids[i] == ended)
                ids[i] = 0;
            else if (ids[i] &&
                     right == one_is_enough) /* the answer is known, and this one may wait in vain */
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

/* ---- a step: an all-reduce in a second queue, beside other work */

enum { EACH = 256 }; /* f32 of a piece */

static inline float value(int from, int round, int i)
{
    return (float)(i % 13) * 0.5f + (float)(100 * from + round);
}

static inline void put_step(rank *r, ls_event *ready, ls_event *done)
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

static inline void look(const rank *r, int round)
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

static inline void set(rank *r, int round)
{
    for (int i = 0; i < r->n * EACH; i++)
        ((float *)(void *)r->in)[i] = value(r->rank, round, i);
}
