/* sys.h - system calls that fail when a resource runs out or a device is broken. Each passes a fault point
 * (fault.h) and otherwise is the call of the same name. tools/check_layers refuses other ways to make these
 * calls. Errors are in errno. */
#pragma once
#include <pthread.h>
#include <stddef.h>
#include <sys/types.h>
#include "lockstep/status.h"

/* A path may be NULL, where there was no memory for it: ENOMEM. */

/* adds O_CLOEXEC; the umask applies to the mode of a new file */
int ls_sys_open(const char *path, int flags);
int ls_sys_memory_file(const char *name); /* memfd_create */
/* Both abort at an address that is not the host's (a device's). */
ssize_t ls_sys_write(int fd, const void *data, size_t n);
ssize_t ls_sys_pwrite(int fd, const void *data, size_t n, off_t at);
int ls_sys_fsync(int fd);
int ls_sys_ftruncate(int fd, off_t size);
int ls_sys_fallocate(int fd, int mode, off_t at, off_t n);
int ls_sys_rename(const char *from, const char *to);
int ls_sys_exchange(const char *a, const char *b); /* exchanges two names; not all file systems can */
int ls_sys_symlink(const char *target, const char *path);
int ls_sys_mkdir(const char *path);
int ls_sys_remove(const char *path); /* removes a file, a link or an empty folder */
void *ls_sys_mmap(size_t n, int protection, int flags, int fd, off_t at);
pid_t ls_sys_fork(void);
int ls_sys_thread(pthread_t *thread, void *(*run)(void *), void *context); /* returns the errno */

/* Allocations. NULL: out of memory, which the caller reports with LS_E_MEMORY. */
void *ls_sys_malloc(size_t n);
void *ls_sys_calloc(size_t count, size_t size);
void *ls_sys_realloc(void *p, size_t n); /* NULL: p is unchanged */
void *ls_sys_aligned_alloc(size_t align, size_t n);
/* Room behind n items of `size` bytes for one more: the array, perhaps moved, of *cap items. NULL: none, and
 * the array is as it was. */
void *ls_sys_grow(void *items, int64_t n, int *cap, size_t size);
char *ls_sys_strdup(const char *text); /* NULL gives NULL */
char *ls_sys_strndup(const char *text, size_t n);
char *ls_sys_text(const char *format, ...) __attribute__((format(printf, 1, 2))); /* like asprintf */

/* LS_E_MEMORY if the pointer is NULL: LS_TRY(ls_sys_have(p)) checks a small allocation whose message needs no
 * details. */
ls_status ls_sys_have(const void *memory);
