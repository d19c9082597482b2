/* bench.h - a device with two queues and some memory, for tests of queues. */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device/queue.h"
#include "support/support.h"

enum { N = 1000, BYTES = N * sizeof(float) };

/* A device with two queues, and memory that both can use. */
typedef struct bench {
    ls_device d;
    const ls_queue_ops *ops;
    ls_queue *q, *other;
    float *a, *b, *c; /* of the device */
    float *host;      /* pinned */
} bench;

static inline void begin(bench *t, const char *device, const char *settings)
{
    if (settings)
        setenv("LOCKSTEP_EMULATED", settings, 1);
    else
        unsetenv("LOCKSTEP_EMULATED");
    ASSERT_OK(ls_device_open(&t->d, device, &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 2 }));
    t->ops = t->d.ops->queue;
    ASSERT_OK(t->ops->open(&t->q, &t->d));
    ASSERT_OK(t->ops->open(&t->other, &t->d));
    ASSERT_OK(t->ops->room((void **)&t->a, &t->d, BYTES));
    ASSERT_OK(t->ops->room((void **)&t->b, &t->d, BYTES));
    ASSERT_OK(t->ops->room((void **)&t->c, &t->d, BYTES));
    ASSERT_OK(t->ops->pinned((void **)&t->host, &t->d, BYTES));
    assert_true((uintptr_t)t->a % 4096 == 0 && t->host[0] == 0 && t->host[N - 1] == 0);
}

static inline void end(bench *t)
{
    t->ops->close(&t->q);
    t->ops->close(&t->other);
    assert_null(t->q);
    t->ops->release(t->a, BYTES);
    t->ops->release(t->b, BYTES);
    t->ops->release(t->c, BYTES);
    t->ops->unpin(t->host, BYTES);
    unsetenv("LOCKSTEP_EMULATED");
}

static inline const ls_kernel *adding(const bench *t, ls_tensor operands[3], ls_kernel_args *a)
{
    const ls_type type = LS_TYPE(LS_F32, N);
    operands[0] = ls_tensor_of(t->a, &type);
    operands[1] = ls_tensor_of(t->b, &type);
    operands[2] = ls_tensor_of(t->c, &type);
    *a = (ls_kernel_args){ .n_in = 2,
                           .n_out = 1,
                           .in = operands,
                           .out = operands + 2,
                           .threads = t->d.threads,
                           .arch = t->d.arch,
                           .queue = t->q };
    const ls_kernel *k = ls_device_find(&t->d, "add", a, NULL);
    assert_non_null(k);
    return k;
}

static inline ls_status refuses(void *context)
{
    return ls_fail(LS_E_NUMERIC, "task %s refuses", (const char *)context);
}
