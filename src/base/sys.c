/* sys.c - each call with its fault point, and the errno with which it is most likely to fail. */
#include "sys.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "c_locale.h"
#include "check.h"
#include "fault.h"

static bool refused(ls_point p, int error)
{
    if (!LS_FAULT(p))
        return false;
    errno = error;
    return true;
}

/* base/file.h: a path for which there was no memory is NULL. */
static bool refused_path(ls_point p, int error, const char *path)
{
    if (path)
        return refused(p, error);
    errno = ENOMEM;
    return true;
}

int ls_sys_open(const char *path, int flags)
{
    return refused_path(LS_POINT_OPEN, EMFILE, path) ? -1 : open(path, flags | O_CLOEXEC, 0666);
}
int ls_sys_memory_file(const char *name)
{
    return refused(LS_POINT_OPEN, EMFILE) ? -1 : memfd_create(name, MFD_CLOEXEC);
}

/* How many of n bytes to write; 0: fail. */
static size_t allowed(size_t n)
{
    const int fault = LS_FAULT(LS_POINT_WRITE);
    if (fault)
        errno = ENOSPC;
    return fault == 0 ? n : fault == 1 ? 0 : n / 2;
}

/* Bits 48 to 55 are zero in every address that Linux gives a program that does not ask for a higher one
 * (x86-64, arm64; arm64 ignores the bits above). An address with one of them is not the host's. The system
 * would only say "Bad address". */
static void check_address(const void *data)
{
    LS_CHECK(!((uint64_t)(uintptr_t)data >> 48 & 0xff),
             "the host writes out memory at %p, which is a device's: read it through a queue first", data);
}

ssize_t ls_sys_write(int fd, const void *data, size_t n)
{
    check_address(data);
    const size_t some = n ? allowed(n) : 0;
    return n && !some ? -1 : write(fd, data, some);
}

ssize_t ls_sys_pwrite(int fd, const void *data, size_t n, off_t at)
{
    check_address(data);
    const size_t some = n ? allowed(n) : 0;
    return n && !some ? -1 : pwrite(fd, data, some, at);
}

int ls_sys_fsync(int fd) { return refused(LS_POINT_SYNC, EIO) ? -1 : fsync(fd); }
int ls_sys_ftruncate(int fd, off_t size) { return refused(LS_POINT_SIZE, ENOSPC) ? -1 : ftruncate(fd, size); }
int ls_sys_fallocate(int fd, int mode, off_t at, off_t n)
{
    return refused(LS_POINT_SIZE, ENOSPC) ? -1 : fallocate(fd, mode, at, n);
}
int ls_sys_rename(const char *from, const char *to)
{
    return refused_path(LS_POINT_NAME, EIO, from && to ? to : NULL) ? -1 : rename(from, to);
}
int ls_sys_exchange(const char *a, const char *b)
{
    return refused_path(LS_POINT_NAME, EINVAL, a && b ? a : NULL) /* as file systems that cannot do it */
               ? -1
               : renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
}
int ls_sys_symlink(const char *target, const char *path)
{
    return refused_path(LS_POINT_NAME, ENOSPC, target && path ? path : NULL) ? -1 : symlink(target, path);
}
int ls_sys_mkdir(const char *path)
{
    return refused_path(LS_POINT_FOLDER, ENOSPC, path) ? -1 : mkdir(path, 0777);
}
int ls_sys_remove(const char *path) { return refused_path(LS_POINT_REMOVE, EIO, path) ? -1 : remove(path); }

void *ls_sys_mmap(size_t n, int protection, int flags, int fd, off_t at)
{
    return refused(LS_POINT_MAP, ENOMEM) ? MAP_FAILED : mmap(NULL, n, protection, flags, fd, at);
}

pid_t ls_sys_fork(void) { return refused(LS_POINT_SPAWN, EAGAIN) ? -1 : fork(); }

int ls_sys_thread(pthread_t *thread, void *(*run)(void *), void *context)
{
    enum { STACK = 8 << 20 }; /* bytes, whatever the limit of the main thread's (ulimit -s) */
    pthread_attr_t how;
    if (refused(LS_POINT_SPAWN, EAGAIN))
        return EAGAIN;
    int error = pthread_attr_init(&how);
    if (error)
        return error;
    error = pthread_attr_setstacksize(&how, STACK);
    if (!error)
        error = pthread_create(thread, &how, run, context);
    pthread_attr_destroy(&how);
    return error;
}

void *ls_sys_malloc(size_t n) { return refused(LS_POINT_MEMORY, ENOMEM) ? NULL : malloc(n); }
void *ls_sys_calloc(size_t count, size_t size)
{
    return refused(LS_POINT_MEMORY, ENOMEM) ? NULL : calloc(count, size);
}
void *ls_sys_realloc(void *p, size_t n) { return refused(LS_POINT_MEMORY, ENOMEM) ? NULL : realloc(p, n); }
void *ls_sys_aligned_alloc(size_t align, size_t n)
{
    return refused(LS_POINT_MEMORY, ENOMEM) ? NULL : aligned_alloc(align, n);
}

void *ls_sys_grow(void *items, int64_t n, int *cap, size_t size)
{
    if (items && n < *cap)
        return items;
    const int room = *cap ? 2 * *cap : 16;
    void *more = ls_sys_realloc(items, (size_t)room * size);
    *cap = more ? room : *cap;
    return more;
}

char *ls_sys_strdup(const char *text)
{
    return !text || refused(LS_POINT_MEMORY, ENOMEM) ? NULL : strdup(text);
}
char *ls_sys_strndup(const char *text, size_t n)
{
    return refused(LS_POINT_MEMORY, ENOMEM) ? NULL : strndup(text, n);
}

char *ls_sys_text(const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int n = ls_vsnprintf(NULL, 0, format, args);
    char *text = n < 0 || refused(LS_POINT_MEMORY, ENOMEM) ? NULL : malloc((size_t)n + 1);
    if (text)
        ls_vsnprintf(text, (size_t)n + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

ls_status ls_sys_have(const void *memory) { return memory ? LS_OK : ls_fail(LS_E_MEMORY, "out of memory"); }
