/* tar.h - the regular files of a tar archive in memory: POSIX (ustar and pax) and GNU's long names. Only
 * headers are read. */
#pragma once
#include "base/str.h"

typedef struct ls_tar {
    const uint8_t *p;
    size_t n, at;
    const char *what; /* names the archive in messages */
    ls_str name;      /* of the latest file */
} ls_tar;

typedef struct ls_tar_file {
    const char *name; /* valid until the next call */
    size_t offset, size;
} ls_tar_file;

/* The next regular file; *end: there is none. LS_E_FORMAT with the offset: a damaged header, a file that is
 * cut off, an archive without its end (a block of zeros), or data after the end. Release t->name when
 * done. */
ls_status ls_tar_next(ls_tar *t, ls_tar_file *out, bool *end);
