/* allocations.c - see allocations.h. */
#include "allocations.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int allocations, mappings;
static atomic_bool counting;

static void count(atomic_int *which)
{
    if (counting)
        (*which)++;
}

#if LS_TEST_SANITIZED
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
                                              void (*on_free)(const volatile void *));
static void on_malloc(const volatile void *p, size_t n) { (void)p, (void)n, count(&allocations); }
static void on_free(const volatile void *p) { (void)p; }
static void install(void)
{
    static bool installed;
    if (!installed)
        __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    installed = true;
}
#else
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t alignment, size_t n);
void *malloc(size_t n)
{
    count(&allocations);
    return __libc_malloc(n);
}
void *calloc(size_t n, size_t size)
{
    count(&allocations);
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t n)
{
    count(&allocations);
    return __libc_realloc(p, n);
}
void *aligned_alloc(size_t alignment, size_t n)
{
    count(&allocations);
    return __libc_memalign(alignment, n);
}
int posix_memalign(void **p, size_t alignment, size_t n)
{
    count(&allocations);
    *p = __libc_memalign(alignment, n);
    return *p ? 0 : ENOMEM;
}
void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    count(&mappings);
    return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}
static void install(void) {}
#endif

void ls_test_count_begin(void)
{
    install();
    allocations = mappings = 0;
    counting = true;
}

void ls_test_count_end(int *n_allocations, int *n_mappings)
{
    counting = false;
    *n_allocations = allocations;
    *n_mappings = mappings;
}
