/* download.c - see download.h. */
#include "net/download.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/sha.h"
#include "base/stop.h"
#include "base/str.h"
#include "base/sys.h"
#include "net/http.h"
#include "net/url.h"

typedef struct transfer {
    ls_download *d;
    int fd;
    int64_t at;      /* bytes in the .part file */
    int64_t resumed; /* of these, from before */
    double began, reported;
    int error;     /* errno of a failed write */
    bool too_many; /* more came than the file has */
} transfer;

static void report(transfer *t, bool last)
{
    const double now = ls_now(), seconds = now - t->began;
    if (!t->d->progress || (!last && now - t->reported < 0.1))
        return;
    t->reported = now;
    t->d->progress(t->d->context, t->d->name, t->at, t->d->bytes,
                   seconds > 0 ? (double)(t->at - t->resumed) / seconds : 0);
}

static bool on_bytes(void *context, const void *data, size_t n)
{
    transfer *t = context;
    if (t->at + (int64_t)n > t->d->bytes) { /* an error page, a portal: the checksum would say so later */
        t->too_many = true;
        return false;
    }
    for (size_t done = 0; done < n;) {
        const ssize_t w = ls_sys_pwrite(t->fd, (const char *)data + done, n - done, (off_t)t->at);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0) {
            t->error = w < 0 ? errno : ENOSPC;
            return false;
        }
        done += (size_t)w;
        t->at += w;
    }
    report(t, false);
    return !ls_stop_asked();
}

/* One attempt to complete t->fd from `url`. */
static ls_status fetch(transfer *t, const char *url)
{
    ls_http r = {
        .url = url, .bearer = t->d->bearer, .keys = t->d->keys, .from = t->at, .take = on_bytes, .context = t
    };
    char shown[LS_URL_SHOWN];
    t->resumed = t->at;
    t->began = ls_now();
    t->too_many = false;
    const ls_status s = ls_http_request(&r);
    t->d->answer = r.answer;
    if (t->error)
        return ls_fail(LS_E_IO, "cannot write %s.part: %s", t->d->path, strerror(t->error));
    if (t->too_many)
        return ls_fail(LS_E_FORMAT, "%s: more than the %lld bytes of %s came", ls_url_shown(shown, url),
                       (long long)t->d->bytes, t->d->name);
    if (r.refused)
        return ls_stop_check("downloading %s", t->d->name);
    return s;
}

static void begin_hash(ls_sha *sha, const ls_download *d)
{
    char head[48];
    if (!d->git_sha1) {
        ls_sha256_init(sha);
        return;
    }
    ls_sha1_init(sha); /* git hashes the words "blob SIZE", a NUL, and the file */
    const int n = snprintf(head, sizeof head, "blob %lld", (long long)d->bytes);
    ls_sha_add(sha, head, (size_t)n + 1);
}

static ls_status verify(const ls_download *d, int fd, const char *from)
{
    const char *kind = d->git_sha1 ? "git's SHA-1" : "SHA-256",
               *expected = d->git_sha1 ? d->git_sha1 : d->sha256;
    ls_sha sha;
    char hex[LS_SHA256_HEX], buffer[1 << 16];
    int64_t size = 0;
    begin_hash(&sha, d);
    for (ssize_t n; (n = pread(fd, buffer, sizeof buffer, (off_t)size)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ls_fail(LS_E_IO, "cannot read %s back: %s", d->path, strerror(errno));
        LS_TRY(ls_stop_check("comparing %s with its checksum", d->name));
        ls_sha_add(&sha, buffer, (size_t)n);
        size += n;
    }
    ls_sha_hex(&sha, hex);
    if (size != d->bytes && !expected)
        return ls_fail(LS_E_FORMAT, "%s: %lld bytes came, expected %lld", from, (long long)size,
                       (long long)d->bytes);
    if (expected && (size != d->bytes || strcmp(hex, expected)))
        return ls_fail(LS_E_FORMAT, "%s: %lld bytes with %s %s came, expected %lld bytes with %s", from,
                       (long long)size, kind, hex, (long long)d->bytes, expected);
    return LS_OK;
}

ls_status ls_download_verify(const ls_download *d, const char *path)
{
    int fd = -1;
    size_t size = 0;
    LS_TRY(ls_file_open(&fd, &size, path));
    const ls_status s = verify(d, fd, path);
    close(fd);
    return s;
}

/* Empties the .part file. */
static void start_over(transfer *t)
{
    t->at = 0;
    if (ls_sys_ftruncate(t->fd, 0) != 0)
        t->error = errno;
}

/* From one address: first what is missing, then, if that cannot be continued or makes a wrong file, once more
 * from the beginning. */
static ls_status fetch_from(transfer *t, const char *url)
{
    char shown[LS_URL_SHOWN];
    ls_status s = LS_OK;
    for (int attempt = 0; attempt < 2; attempt++) {
        const bool resuming = t->at > 0;
        s = t->at < t->d->bytes ? fetch(t, url) : LS_OK;
        if (s == LS_OK)
            s = verify(t->d, t->fd, ls_url_shown(shown, url));
        /* what is there is kept for the next address, or the next start */
        if (s == LS_OK || s == LS_E_IO || s == LS_E_MEMORY || s == LS_E_STOPPED || t->error)
            break;
        start_over(t);
        if (!resuming)
            break;
    }
    return s;
}

/* Locks PATH.part. A request to stop may come to any thread, so it would not end a wait of flock's. */
static ls_status lock(int fd, const ls_download *d)
{
    for (bool said = false; flock(fd, LOCK_EX | LOCK_NB) != 0; said = true) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return ls_fail(LS_E_IO, "%s.part: cannot lock: %s", d->path, strerror(errno));
        if (!said)
            ls_log_info("waiting for another process, which downloads %s", d->name);
        LS_TRY(ls_stop_check("another process downloaded %s", d->name));
        nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
    }
    return LS_OK;
}

/* Opens and locks PATH.part; *done if another process finished the file meanwhile. */
static ls_status lock_part(int *fd, bool *done, const ls_download *d, const char *part)
{
    for (;;) {
        *fd = ls_sys_open(part, O_RDWR | O_CREAT);
        if (*fd < 0)
            return ls_fail(LS_E_IO, "%s: cannot create: %s", part, strerror(errno));
        LS_TRY(lock(*fd, d)); /* the caller closes it */
        struct stat mine, there;
        const bool current = fstat(*fd, &mine) == 0 && stat(part, &there) == 0 &&
                             mine.st_ino == there.st_ino && mine.st_dev == there.st_dev;
        *done = ls_file_exists(d->path);
        if (current || *done) {
            if (*done && current)
                ls_sys_remove(part);
            return LS_OK;
        }
        close(*fd); /* renamed or removed while we waited */
        *fd = -1;
    }
}

/* Tries the addresses. Their failures are all in the log at level debug; the last one's is the message. */
static ls_status fetch_any(transfer *t)
{
    ls_status s = LS_E_IO;
    for (const char *const *url = t->d->urls; *url && s != LS_OK && s != LS_E_STOPPED && !t->error; url++) {
        s = fetch_from(t, *url);
        if (s != LS_OK)
            ls_log_debug("%s", ls_error_message());
    }
    if (t->error) /* the disk's, also when it came after a connection's */
        s = ls_fail(LS_E_IO, "cannot write %s.part: %s", t->d->path, strerror(t->error));
    return s;
}

ls_status ls_download_file(ls_download *d)
{
    char *part = NULL;
    ls_status s = LS_OK;
    transfer t = { .d = d, .fd = -1 };
    bool done = ls_file_exists(d->path);
    if (done)
        return LS_OK;
    part = ls_sys_text("%s.part", d->path);
    LS_TRY(ls_sys_have(part));
    LS_TRY_TO(s, lock_part(&t.fd, &done, d, part), end);
    if (done)
        goto end;
    t.at = lseek(t.fd, 0, SEEK_END);
    s = fetch_any(&t);
    if (s != LS_OK) {
        if (t.at == 0)
            ls_sys_remove(part);
    } else if (ls_sys_fsync(t.fd) != 0 || ls_sys_rename(part, d->path) != 0) {
        s = ls_fail(LS_E_IO, "%s: cannot finish: %s", d->path, strerror(errno));
    } else {
        report(&t, true);
    }
end:
    if (t.fd >= 0)
        close(t.fd);
    free(part);
    return s;
}
