/* file.h - files: whole reads, read-only mappings, and replacement that is all or nothing. Messages carry
 * path and reason. */
#pragma once
#include <stddef.h>
#include "lockstep/status.h"

typedef struct ls_mapping {
    const uint8_t *data; /* NULL for an empty file */
    size_t size;
    void *base; /* what munmap wants; private to file.c */
} ls_mapping;

ls_status ls_file_map(ls_mapping *out, const char *path); /* read only, shared */
void ls_file_unmap(ls_mapping *m);

/* malloc'ed, NUL added after the last byte */
ls_status ls_file_read(char **out, size_t *size, const char *path);

/* Write to PATH.tmp-PID-CHANCE, fsync, rename over PATH, fsync the folder. A failure leaves the old file as
 * it was and no temporary. A pipe, a device (/dev/stdout) or a file without a name (/proc/self/fd/N of a
 * memory file) cannot be replaced; it is written directly, and `tmp` is NULL. */
typedef struct ls_writer {
    int fd;
    char *path, *tmp;
    uint64_t offset;
    uint8_t *buffer;
    size_t used;
} ls_writer;
ls_status ls_writer_open(ls_writer *w, const char *path);
ls_status ls_writer_put(ls_writer *w, const void *data, size_t n);
ls_status ls_writer_commit(ls_writer *w);                              /* releases w also when it fails */
void ls_writer_abort(ls_writer *w);                                    /* harmless after commit */
ls_status ls_file_write(const char *path, const void *data, size_t n); /* the four above in one */

/* those in it whose process died, or is this one and failed, before it could rename them; says nothing */
void ls_remove_temporaries(const char *dir);

ls_status ls_file_append(const char *path, const void *data, size_t n); /* O_APPEND, one write */
ls_status ls_make_dirs(const char *path);                               /* mkdir -p */
bool ls_file_exists(const char *path);
bool ls_dir_exists(const char *path);
int64_t ls_file_size(const char *path); /* -1 if not there */
/* LS_E_USAGE, beginning with `what`, for an address such as s3://bucket/x */
ls_status ls_path_check(const char *what, const char *path);
char *ls_path_join(const char *a, const char *b); /* malloc'ed */
/* from now on this process reads the cache and writes nothing into it: a dry run */
void ls_cache_freeze(void);
bool ls_cache_is_frozen(void);
/* LOCKSTEP_CACHE, else XDG_CACHE_HOME/lockstep, else ~/.cache/lockstep; malloc'ed, not created */
char *ls_cache_dir(void);
