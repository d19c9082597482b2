/* settings.c - LOCKSTEP_SHIM, and the lock. */
#define _GNU_SOURCE
#include "shim.h"

#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A number with an optional unit of one of two lists. */
static bool number(const char *text, double *out, const char *const *units, const double *factors, int n)
{
    char *end;
    *out = strtod(text, &end);
    if (end == text || *out < 0)
        return false;
    for (int i = 0; i < n && *end; i++)
        if (!strcmp(end, units[i])) {
            *out *= factors[i];
            return true;
        }
    return !*end;
}

static bool word(const char *text, shim_settings *s)
{
    static const char *const TIMES[] = { "us", "ms", "s" }, *const SIZES[] = { "KiB", "MiB", "GiB" };
    static const double SECONDS[] = { 1e-6, 1e-3, 1 }, BYTES[] = { 1024, 1048576, 1073741824 };
    const struct {
        const char *name;
        int64_t *to;
    } numbers[] = { { "gpus=", &s->gpus },
                    { "driver=", &s->driver },
                    { "capability=", &s->capability },
                    { "launch=", &s->launch },
                    { "skip=", &s->skip },
                    { "seed=", (int64_t *)&s->seed },
                    { "clock=", &s->clock },
                    { "memory_clock=", &s->memory_clock },
                    { "mode=", &s->mode },
                    { "nccl=", &s->nccl },
                    { "nccl_fail=", &s->nccl_fail },
                    { "nccl_lost=", &s->nccl_lost },
                    { "nccl_rank=", &s->nccl_rank } };
    const struct {
        const char *name;
        uint64_t *to;
    } sizes[] = { { "memory=", &s->memory }, { "taken=", &s->taken } };
    double x;
    if (!strcmp(text, "misaligned"))
        return s->misaligned = true;
    if (!strcmp(text, "leaks"))
        return s->leaks = true;
    if (!strcmp(text, "launches"))
        return s->said_launches = true;
    if (!strcmp(text, "compilations"))
        return s->compilations = true;
    if (!strcmp(text, "builtins=missing"))
        return s->builtins_missing = true;
    const char *value = strchr(text, '=');
    if (!value)
        return false;
    value++;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strncmp(text, numbers[i].name, (size_t)(value - text)) && number(value, &x, NULL, NULL, 0))
            return *numbers[i].to = (int64_t)x, true;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!strncmp(text, sizes[i].name, (size_t)(value - text)) && number(value, &x, SIZES, BYTES, 3))
            return *sizes[i].to = (uint64_t)x, true;
    if (!strncmp(text, "delay=", 6))
        return number(value, &s->delay, TIMES, SECONDS, 3);
    int major, minor;
    if (sscanf(text, "nvrtc=%d.%d", &major, &minor) == 2)
        return s->nvrtc = major * 10 + minor, true;
    if (sscanf(text, "cublaslt=%d.%d", &major, &minor) == 2)
        return s->cublaslt = major * 10000 + minor * 100, true;
    return false;
}

shim_settings shim_read_settings(void)
{
    shim_settings s = { .gpus = 1,
                        .driver = 13000,
                        .capability = 80,
                        .nvrtc = 130,
                        .clock = 1410000,
                        .memory_clock = 1215000,
                        .cublaslt = 130000,
                        .nccl = 22703,
                        .nccl_rank = -1,
                        .memory = UINT64_C(16) << 30,
                        .delay = 20e-6 };
    const char *text = getenv("LOCKSTEP_SHIM");
    for (const char *at = text ? text : ""; *at;) {
        char one[64];
        const size_t n = strcspn(at, ", ");
        snprintf(one, sizeof one, "%.*s", (int)n, at);
        if (n && (n >= sizeof one || !word(one, &s))) {
            fprintf(stderr, "LOCKSTEP_SHIM=%s: \"%s\" is not understood (tests/gpu/README.md)\n", text, one);
            abort();
        }
        at += n + (at[n] != 0);
    }
    return s;
}

cu_result shim_wrong(cu_result r, const char *function, const char *what, ...)
{
    va_list list;
    char text[512];
    va_start(list, what);
    vsnprintf(text, sizeof text, what, list);
    va_end(list);
    fprintf(stderr, "shim: %s: %s\n", function, text);
    return r;
}

/* ---- the lock (Drepper: Futexes are tricky, 2011) and changes */

static _Atomic int lock;
static _Atomic unsigned changes;
static _Atomic int waiters;

static void sleep_while(void *at, unsigned value)
{
    syscall(SYS_futex, at, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

void shim_lock(void)
{
    int was = 0;
    if (atomic_compare_exchange_strong(&lock, &was, 1))
        return;
    while (atomic_exchange(&lock, 2))
        sleep_while(&lock, 2);
}

void shim_unlock(void)
{
    if (atomic_exchange(&lock, 0) == 2)
        syscall(SYS_futex, &lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void shim_wait(void)
{
    const unsigned seen = atomic_load(&changes);
    atomic_fetch_add(&waiters, 1);
    shim_unlock();
    sleep_while(&changes, seen);
    atomic_fetch_sub(&waiters, 1);
    shim_lock();
}

void shim_changed(void)
{
    atomic_fetch_add(&changes, 1);
    if (atomic_load(&waiters))
        syscall(SYS_futex, &changes, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}
