/* file.h - files: read-only mappings, whole reads, and replacing a file atomically. Messages contain path and
 * reason. A path may be NULL: there was no memory for it. Every call here accepts it and reports it
 * (LS_E_MEMORY; false, -1 or NULL where no status is returned), so a caller that joins paths need not
 * check. */
#pragma once
#include <stddef.h>
#include "str.h"

typedef struct ls_mapping {
    const uint8_t *data; /* NULL for an empty file */
    size_t size;
    void *base; /* address for munmap; used by file.c only */
} ls_mapping;

/* Opens a regular file for reading; every file that is read as data is opened here. A folder, a pipe, a
 * socket or a device is an error that says what it is: opening a pipe would wait for a writer, and nothing
 * could stop that. LS_E_IO. The caller closes *fd. */
ls_status ls_file_open(int *fd, size_t *size, const char *path);
/* The same, for a file that a library opens by its name. */
ls_status ls_file_check(const char *path);

ls_status ls_file_map(ls_mapping *out, const char *path); /* read-only and shared */
void ls_file_unmap(ls_mapping *m);

/* Reads the whole file. *out is malloc'ed; a NUL follows the last byte. */
ls_status ls_file_read(char **out, size_t *size, const char *path);

/* Replaces a file: the new content goes to PATH.tmp-PID-CHANCE, fsync, rename to PATH, fsync of the folder.
 * On failure the old file is unchanged and no temporary file is left. Some files cannot be replaced and are
 * written directly (then `tmp` is NULL): a pipe, a device (/dev/stdout), and a file without a name
 * (/proc/self/fd/N of a memory file). */
typedef struct ls_writer {
    int fd;
    char *path, *tmp;
    uint64_t offset;
    uint8_t *buffer;
    size_t used;
    bool soon; /* does not wait for the disk; set between open and commit */
} ls_writer;
ls_status ls_writer_open(ls_writer *w, const char *path);
ls_status ls_writer_put(ls_writer *w, const void *data, size_t n);
ls_status ls_writer_commit(ls_writer *w); /* releases w, also on failure */
void ls_writer_abort(ls_writer *w);       /* does nothing after a commit */
/* begin, write and commit in one call */
ls_status ls_file_write(const char *path, const void *data, size_t n);

ls_status ls_file_write_text(const char *path, const ls_str *text); /* LS_E_MEMORY: it is not whole */
/* The same without fsync, which takes milliseconds: for a state that is out of date a second later. After a
 * crash of the machine the file may be empty. */
ls_status ls_file_write_soon(const char *path, const ls_str *text);

/* Removes temporary files whose process died, or is this one and failed before it could rename them. Reports
 * nothing. */
void ls_remove_temporaries(const char *dir);

ls_status ls_make_dirs(const char *path);   /* mkdir -p */
ls_status ls_make_parent(const char *path); /* mkdir -p of the folder that `path` is in */
bool ls_file_exists(const char *path);
bool ls_dir_exists(const char *path);
/* Whether files can be written into a folder, which may have to be made first; errno says why not. */
bool ls_dir_writable(const char *path);
int64_t ls_file_size(const char *path); /* -1 if not there */
/* LS_E_USAGE for an address such as s3://bucket/x. The message begins with `what`. */
ls_status ls_path_check(const char *what, const char *path);
bool ls_file_in(const char *folder, const char *name); /* whether FOLDER/NAME exists; needs no memory */
char *ls_path_join(const char *a, const char *b);      /* malloc'ed; NULL without memory or from NULL */
/* From now on this process reads the cache but writes nothing to it (dry runs). */
void ls_cache_freeze(void);
bool ls_cache_is_frozen(void);
/* The cache folder: LOCKSTEP_CACHE, else XDG_CACHE_HOME/lockstep, else ~/.cache/lockstep. malloc'ed; it may
 * not exist. */
char *ls_cache_dir(void);
