/* memory.c - memory of the shim's libcuda.so.1. Device memory is the host's, at addresses that the host
 * cannot read (EMULATED_DEVICE). Its contents are NaN at first. */
#define _GNU_SOURCE
#include "shim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define DECLARE(field, symbol, arguments) EXPORT cu_result symbol arguments;
CU_FUNCTIONS(DECLARE)

#if defined(EMULATOR_ASAN)
void __asan_poison_memory_region(const volatile void *at, size_t bytes);
void __asan_unpoison_memory_region(const volatile void *at, size_t bytes);
#else
static void __asan_poison_memory_region(const volatile void *at, size_t bytes) { (void)at, (void)bytes; }
static void __asan_unpoison_memory_region(const volatile void *at, size_t bytes) { (void)at, (void)bytes; }
#endif

typedef struct range {
    uint64_t at; /* as the caller sees it */
    char *map;   /* what munmap or free gets; NULL: the caller's */
    size_t bytes, mapped;
    shim_kind kind;
    const void *owner; /* the module that it is a variable of */
    struct range *next;
} range;
static range *ranges;

static range *range_at(uint64_t address)
{
    for (range *r = ranges; r; r = r->next)
        if (address >= r->at && address - r->at < r->bytes)
            return r;
    return NULL;
}

shim_kind shim_find(uint64_t address, size_t *left)
{
    const range *r = range_at(address);
    *left = r ? r->bytes - (size_t)(address - r->at) : SIZE_MAX;
    return r ? r->kind : address & EMULATED_DEVICE ? SHIM_NOWHERE : SHIM_PAGEABLE;
}

static void add_range(uint64_t at, char *map, size_t bytes, size_t mapped, shim_kind kind)
{
    range *r = malloc(sizeof *r);
    if (!r)
        abort();
    *r = (range){ at, map, bytes, mapped, kind, NULL, ranges };
    ranges = r;
}

static bool take_range(uint64_t at, shim_kind kind, range *out)
{
    for (range **link = &ranges, *r; (r = *link); link = &r->next)
        if (r->at == at && r->kind == kind) {
            *out = *r;
            *link = r->next;
            free(r);
            return true;
        }
    return false;
}

enum { PAGE = 4096, MISALIGNED = 256 };

/* Pages whose contents are anything: NaN. What is behind `bytes` AddressSanitizer does not let be touched. */
static char *new_pages(size_t bytes, size_t *mapped)
{
    *mapped = (bytes + PAGE - 1) / PAGE * PAGE + PAGE;
    char *p = mmap(NULL, *mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

cu_result cuMemAlloc_v2(cu_address *at, size_t bytes)
{
    size_t mapped;
    ENTER();
    if (!bytes)
        return shim_leave(WRONG(CU_INVALID_VALUE, "0 bytes"));
    const size_t shift = shim.set.misaligned ? MISALIGNED : 0;
    if (bytes > shim.set.memory || shim.used + shim.set.taken + bytes > shim.set.memory)
        return shim_leave(CU_OUT_OF_MEMORY);
    char *p = new_pages(bytes + shift, &mapped);
    if (!p)
        return shim_leave(CU_OUT_OF_MEMORY);
    memset(p, 0xff, bytes + shift);
    __asan_poison_memory_region(p + shift + bytes, mapped - shift - bytes);
    *at = (uint64_t)(uintptr_t)(p + shift) | EMULATED_DEVICE;
    add_range(*at, p, bytes, mapped, SHIM_DEVICE);
    shim.used += bytes;
    shim.live_rooms++;
    return shim_leave(CU_SUCCESS);
}

static cu_result free_range(const char *function, uint64_t at, shim_kind kind)
{
    range r;
    if (!take_range(at, kind, &r))
        return shim_wrong(CU_INVALID_VALUE, function,
                          "%#llx is not what an allocation returned, or was freed", (unsigned long long)at);
    if (r.map) {
        __asan_unpoison_memory_region(r.map, r.mapped);
        munmap(r.map, r.mapped);
    }
    if (kind == SHIM_DEVICE) {
        shim.used -= r.bytes;
        shim.live_rooms--;
    } else {
        shim.live_pinned--;
    }
    return CU_SUCCESS;
}

cu_result cuMemFree_v2(cu_address at)
{
    ENTER();
    return shim_leave(free_range(__func__, at, SHIM_DEVICE));
}

cu_result cuMemHostAlloc(void **at, size_t bytes, unsigned flags)
{
    size_t mapped;
    ENTER();
    if (!bytes || flags & ~7u)
        return shim_leave(WRONG(CU_INVALID_VALUE, "%zu bytes, flags %u", bytes, flags));
    char *p = new_pages(bytes, &mapped);
    if (!p)
        return shim_leave(CU_OUT_OF_MEMORY);
    memset(p, 0xff, bytes);
    __asan_poison_memory_region(p + bytes, mapped - bytes);
    *at = p;
    add_range((uint64_t)(uintptr_t)p, p, bytes, mapped, SHIM_PINNED);
    shim.live_pinned++;
    return shim_leave(CU_SUCCESS);
}

cu_result cuMemFreeHost(void *at)
{
    ENTER();
    return shim_leave(free_range(__func__, (uint64_t)(uintptr_t)at, SHIM_PINNED));
}

cu_result cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags)
{
    ENTER();
    if (!at || !bytes || flags & ~15u)
        return shim_leave(WRONG(CU_INVALID_VALUE, "%p, %zu bytes, flags %u", at, bytes, flags));
    const uint64_t address = (uint64_t)(uintptr_t)at;
    for (const range *r = ranges; r; r = r->next)
        if (address < r->at + r->bytes && r->at < address + bytes)
            return shim_leave(WRONG(712, "%p is registered, or was allocated as pinned memory", at));
    add_range(address, NULL, bytes, 0, SHIM_PINNED);
    shim.live_pinned++;
    return shim_leave(CU_SUCCESS);
}

cu_result cuMemHostUnregister(void *at)
{
    ENTER();
    return shim_leave(free_range(__func__, (uint64_t)(uintptr_t)at, SHIM_PINNED));
}

cu_result cuMemGetInfo_v2(size_t *free, size_t *total)
{
    ENTER();
    *total = shim.set.memory;
    *free = shim.set.memory - shim.set.taken - shim.used;
    return shim_leave(CU_SUCCESS);
}

cu_result cuMemcpyDtoH_v2(void *to, cu_address from, size_t bytes)
{
    size_t left;
    ENTER();
    if (shim_find(from, &left) != SHIM_DEVICE || left < bytes)
        return shim_leave(WRONG(CU_INVALID_VALUE, "%zu bytes at %#llx are not device memory", bytes,
                                (unsigned long long)from));
    shim_unlock();
    memcpy(to, shim_host(from), bytes);
    return CU_SUCCESS;
}

void shim_add_global(uint64_t at, size_t bytes, const void *owner)
{
    if (range_at(at))
        return;
    add_range(at, NULL, bytes, 0, SHIM_DEVICE);
    ranges->owner = owner;
}

void shim_drop_globals(const void *owner)
{
    for (range **link = &ranges, *r; (r = *link);) {
        if (r->owner != owner) {
            link = &r->next;
            continue;
        }
        *link = r->next;
        free(r);
    }
}
