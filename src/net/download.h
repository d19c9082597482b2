/* download.h - one file from the network to its place. It grows as PATH.part, is compared with its checksum
 * and renamed. What a broken connection or a killed process left of it is continued. Processes that want the
 * same file wait for each other on a lock of the .part file. */
#pragma once
#include <stdint.h>
#include "lockstep/status.h"

typedef struct ls_download {
    const char *path; /* of the finished file; its folder exists */
    const char *name; /* what messages and progress call it */
    /* its addresses, tried in order; NULL ends */
    const char *const *urls;
    int64_t bytes;
    /* its checksum in hexadecimal: a SHA-256, or, if git_sha1 is given, the SHA-1 that git has for the file
     */
    const char *sha256, *git_sha1;
    const char *bearer;              /* token for the server; NULL: none */
    const struct ls_http_keys *keys; /* that sign its requests; NULL: they are not signed */
    /* file, bytes so far, bytes in all, bytes a second; NULL: not wanted */
    void (*progress)(void *context, const char *file, int64_t so_far, int64_t total, double rate);
    void *context;
    long answer; /* set: the last status code of a server; 0: none came */
} ls_download;

/* Does nothing when the file is there. The message of a failure is that of the last address. LS_E_IO: no
 * connection, or the disk refuses; LS_E_FORMAT: wrong bytes came; LS_E_STOPPED: asked to stop, what has come
 * is kept. Local. */
ls_status ls_download_file(ls_download *d);

/* Compares a file with the download's size and checksum: LS_E_FORMAT if they differ, LS_E_IO if it cannot be
 * read. Local. */
ls_status ls_download_verify(const ls_download *d, const char *path);
