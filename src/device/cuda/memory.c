/* memory.c - memory of the GPU, and memory of the host that the GPU can reach. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "cuda_own.h"

enum { ALIGN = 4096 };

size_t ls_cuda_memory(const ls_device *d)
{
    const ls_cuda_gpu *gpu;
    return d->here && ls_cuda_gpu_of_process(&gpu) == LS_OK ? gpu->memory / (size_t)gpu->ranks : 0;
}

/* Rooms whose aligned address is not the one that the driver gave. */
typedef struct shifted {
    void *room;
    cu_address base;
    struct shifted *next;
} shifted;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static shifted *all;

static ls_status remember(void *room, cu_address base)
{
    shifted *s = ls_sys_malloc(sizeof *s);
    LS_TRY(ls_sys_have(s));
    pthread_mutex_lock(&lock);
    *s = (shifted){ room, base, all };
    all = s;
    pthread_mutex_unlock(&lock);
    return LS_OK;
}

static cu_address base_of(void *room)
{
    cu_address base = (cu_address)(uintptr_t)room;
    pthread_mutex_lock(&lock);
    for (shifted **link = &all, *s; (s = *link); link = &s->next)
        if (s->room == room) {
            base = s->base;
            *link = s->next;
            free(s);
            break;
        }
    pthread_mutex_unlock(&lock);
    return base;
}

static ls_status no_room(const cu_driver *cu, cu_result r, size_t bytes)
{
    const ls_cuda_gpu *gpu;
    char a[32], b[32], c[32];
    size_t free = 0, total = 0;
    if (r != CU_OUT_OF_MEMORY)
        return ls_cuda_check(r, "device cuda: cuMemAlloc");
    LS_TRY(ls_cuda_gpu_of_process(&gpu));
    cu->memory_info(&free, &total);
    return ls_fail(
        LS_E_MEMORY,
        "device cuda: %s are needed, and %s of %s are free on GPU %d (%s): nvidia-smi lists what else "
        "uses it",
        ls_format_bytes(a, bytes), ls_format_bytes(b, free), ls_format_bytes(c, total), gpu->ordinal,
        gpu->name);
}

ls_status ls_cuda_room(void **out, const ls_device *d, size_t bytes)
{
    const cu_driver *cu;
    cu_address given = 0;
    (void)d;
    *out = NULL;
    LS_TRY(ls_cuda_enter(&cu));
    cu_result r = cu->allocate(&given, bytes);
    if (r == CU_SUCCESS && given % ALIGN) {
        cu->release(given);
        r = cu->allocate(&given, bytes + ALIGN);
    }
    if (r != CU_SUCCESS)
        return no_room(cu, r, bytes);
    const cu_address aligned = (given + ALIGN - 1) / ALIGN * ALIGN;
    *out = (void *)(uintptr_t)aligned; /* NOLINT: the GPU's address */
    const ls_status s = aligned == given ? LS_OK : remember(*out, given);
    if (s != LS_OK) {
        cu->release(given);
        *out = NULL;
    }
    return s;
}

void ls_cuda_release(void *room, size_t bytes)
{
    const cu_driver *cu;
    (void)bytes;
    if (room && ls_cuda_enter(&cu) == LS_OK)
        cu->release(base_of(room));
}

ls_status ls_cuda_pinned(void **out, const ls_device *d, size_t bytes)
{
    const cu_driver *cu;
    char text[32];
    (void)d;
    *out = NULL;
    LS_TRY(ls_cuda_enter(&cu));
    const cu_result r = cu->pin(out, bytes, CU_HOST_ALLOC_PORTABLE);
    if (r == CU_OUT_OF_MEMORY)
        return ls_fail(LS_E_MEMORY,
                       "device cuda: the host has no %s of memory that the GPU can reach (pinned)",
                       ls_format_bytes(text, bytes));
    LS_TRY(ls_cuda_check(r, "device cuda: cuMemHostAlloc"));
    memset(*out, 0, bytes);
    return LS_OK;
}

void ls_cuda_unpin(void *pinned, size_t bytes)
{
    const cu_driver *cu;
    (void)bytes;
    if (pinned && ls_cuda_enter(&cu) == LS_OK)
        cu->unpin(pinned);
}

ls_status ls_cuda_reach(void *memory, const ls_device *d, size_t bytes)
{
    const cu_driver *cu;
    char text[32], what[160];
    (void)d;
    LS_TRY(ls_cuda_enter(&cu));
    snprintf(what, sizeof what, "device cuda: %s of memory that ranks share cannot be pinned (ulimit -l)",
             ls_format_bytes(text, bytes));
    return ls_cuda_check(cu->host_register(memory, bytes, CU_HOST_ALLOC_PORTABLE), what);
}

void ls_cuda_unreach(void *memory)
{
    const cu_driver *cu;
    if (ls_cuda_enter(&cu) == LS_OK)
        cu->host_unregister(memory);
}
