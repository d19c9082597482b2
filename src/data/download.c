/* download.c - fetching a named set's files with libcurl. A file grows as NAME.part, is checked against its
 * SHA-256 and renamed; what a broken connection or a killed process left of it is continued. Processes that
 * want the same file wait for each other on a lock of the .part file. The only place that includes libcurl.
 */
#define CURL_DISABLE_TYPECHECK /* its macros call the functions by name */
#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/str.h"
#include "base/sys.h"
#include "data/known.h"

/* Seconds to connect, and seconds below 1 KB/s after which a connection counts as dead. */
enum { CONNECT_SECONDS = 10, STALL_SECONDS = 20, STALL_RATE = 1000 };

typedef struct transfer {
    const ls_known_file *file;
    const ls_dataset_options *o;
    int fd;
    int64_t at;      /* bytes in the .part file */
    int64_t resumed; /* of these, from before */
    double began, reported;
    int error; /* errno of a failed write */
} transfer;

static void report(transfer *t, bool last)
{
    double now = ls_now();
    if (!t->o->progress || (!last && now - t->reported < 0.1))
        return;
    t->reported = now;
    double seconds = now - t->began;
    t->o->progress(t->o->context, t->file->name, t->at, t->file->bytes,
                   seconds > 0 ? (double)(t->at - t->resumed) / seconds : 0);
}

static size_t on_bytes(char *data, size_t size, size_t count, void *context)
{
    transfer *t = context;
    size_t n = size * count;
    if (t->at + (int64_t)n >
        t->file->bytes) /* not our file: an error page, a portal; the checksum would say so later */
        return 0;
    for (size_t done = 0; done < n;) {
        ssize_t w = ls_sys_pwrite(t->fd, data + done, n - done, (off_t)t->at);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0) {
            t->error = w < 0 ? errno : ENOSPC;
            return 0;
        }
        done += (size_t)w;
        t->at += w;
    }
    report(t, false);
    return n;
}

/* libcurl brings some 40 libraries, and most processes never download: it is opened by the first one that
 * does. */
static struct {
    __typeof__(curl_global_init) *global_init;
    __typeof__(curl_easy_init) *init;
    __typeof__(curl_easy_setopt) *setopt;
    __typeof__(curl_easy_perform) *perform;
    __typeof__(curl_easy_getinfo) *getinfo;
    __typeof__(curl_easy_cleanup) *cleanup;
    __typeof__(curl_easy_strerror) *strerror;
} curl;
static char refusal[512]; /* why it is not there; "": it is */

static void *function(void *library, const char *name)
{
    void *f = dlsym(library, name);
    if (!f)
        snprintf(refusal, sizeof refusal, "libcurl has no function %s", name);
    return f;
}

static void start_curl(void)
{
    static const char *const FILES[] = { "libcurl.so.4", "libcurl-gnutls.so.4" };
    void *l = NULL;
    for (int i = 0; i < 2 && !l; i++)
        if (!(l = dlopen(FILES[i], RTLD_NOW | RTLD_LOCAL)) && i == 0) /* stays open */
            snprintf(refusal, sizeof refusal, "%s", dlerror());
    if (!l)
        return;
    refusal[0] = 0;
    *(void **)&curl.global_init = function(l, "curl_global_init");
    *(void **)&curl.init = function(l, "curl_easy_init");
    *(void **)&curl.setopt = function(l, "curl_easy_setopt");
    *(void **)&curl.perform = function(l, "curl_easy_perform");
    *(void **)&curl.getinfo = function(l, "curl_easy_getinfo");
    *(void **)&curl.cleanup = function(l, "curl_easy_cleanup");
    *(void **)&curl.strerror = function(l, "curl_easy_strerror");
    if (!refusal[0])
        curl.global_init(CURL_GLOBAL_DEFAULT);
}

/* One attempt to complete t->fd from `url`. LS_E_IO: the connection; LS_E_UNSUPPORTED: cannot continue in the
 * middle; LS_E_FORMAT: too many bytes. */
static ls_status fetch(transfer *t, const char *url)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_curl);
    if (refusal[0])
        return ls_fail(LS_E_IO,
                       "%s: downloads need libcurl, which cannot be opened here (%s); install it, or fetch "
                       "the file yourself",
                       url, refusal);
    CURL *c = curl.init();
    if (!c)
        return ls_fail(LS_E_MEMORY, "libcurl cannot start");
    char text[CURL_ERROR_SIZE] = "";
    curl.setopt(c, CURLOPT_URL, url);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl.setopt(c, CURLOPT_PROTOCOLS_STR, "http,https,file");
    curl.setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
    curl.setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS | CURLPROTO_FILE));
    curl.setopt(c, CURLOPT_REDIR_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl.setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl.setopt(c, CURLOPT_MAXREDIRS, 5L);
    curl.setopt(c, CURLOPT_FAILONERROR, 1L);
    curl.setopt(c, CURLOPT_NOSIGNAL, 1L); /* we may be on any thread */
    curl.setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl.setopt(c, CURLOPT_LOW_SPEED_LIMIT, (long)STALL_RATE);
    curl.setopt(c, CURLOPT_LOW_SPEED_TIME, (long)STALL_SECONDS);
    curl.setopt(c, CURLOPT_USERAGENT, "lockstep/" LS_VERSION);
    curl.setopt(c, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)t->at);
    curl.setopt(c, CURLOPT_ERRORBUFFER, text);
    curl.setopt(c, CURLOPT_WRITEFUNCTION, on_bytes);
    curl.setopt(c, CURLOPT_WRITEDATA, t);
    t->resumed = t->at;
    t->began = ls_now();
    CURLcode r = curl.perform(c);
    long answer = 0;
    curl.getinfo(c, CURLINFO_RESPONSE_CODE, &answer);
    curl.cleanup(c);
    if (t->error)
        return ls_fail(LS_E_IO, "cannot write %s.part: %s", t->file->name, strerror(t->error));
    if (r == CURLE_WRITE_ERROR)
        return ls_fail(LS_E_FORMAT, "%s: more than the %lld bytes of %s came", url, (long long)t->file->bytes,
                       t->file->name);
    if (r == CURLE_RANGE_ERROR || r == CURLE_BAD_DOWNLOAD_RESUME || answer == 416)
        return ls_fail(LS_E_UNSUPPORTED, "%s: cannot be continued at byte %lld", url, (long long)t->resumed);
    if (r != CURLE_OK)
        return ls_fail(LS_E_IO, "%s: %s", url, *text ? text : curl.strerror(r));
    return LS_OK;
}

static ls_status verify(transfer *t, const char *url)
{
    ls_sha256 sha;
    char hex[65], buffer[1 << 16];
    ls_sha256_init(&sha);
    for (int64_t at = 0; at < t->at;) {
        ssize_t n = pread(t->fd, buffer, sizeof buffer, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return ls_fail(LS_E_IO, "cannot read %s.part back: %s", t->file->name,
                           n < 0 ? strerror(errno) : "it became shorter");
        ls_sha256_add(&sha, buffer, (size_t)n);
        at += n;
    }
    ls_sha256_hex(&sha, hex);
    if (t->at != t->file->bytes || strcmp(hex, t->file->sha256))
        return ls_fail(LS_E_FORMAT, "%s: %lld bytes with SHA-256 %s came, expected %lld bytes with %s", url,
                       (long long)t->at, hex, (long long)t->file->bytes, t->file->sha256);
    return LS_OK;
}

/* From one mirror: first what is missing, then, if that cannot be continued or makes a wrong file, once more
 * from the beginning. */
static ls_status fetch_from(transfer *t, const char *mirror)
{
    char *url = ls_sys_text("%s%s%s", mirror, mirror[strlen(mirror) - 1] == '/' ? "" : "/", t->file->name);
    if (!url)
        return ls_fail(LS_E_MEMORY, "no memory for a URL");
    ls_status s = LS_OK;
    for (int attempt = 0; attempt < 2; attempt++) {
        bool resuming = t->at > 0;
        s = t->at < t->file->bytes ? fetch(t, url) : LS_OK;
        if (s == LS_OK)
            s = verify(t, url);
        if (s == LS_OK || s == LS_E_IO ||
            t->error) /* what a broken connection left is kept for the next mirror, or the next start */
            break;
        t->at = 0;
        if (ls_sys_ftruncate(t->fd, 0) != 0)
            t->error = errno;
        if (!resuming)
            break;
    }
    free(url);
    return s;
}

/* Opens and locks PATH.part; *done if another process finished the file meanwhile. */
static ls_status lock_part(int *fd, bool *done, const char *path, const char *part)
{
    for (;;) {
        *fd = ls_sys_open(part, O_RDWR | O_CREAT);
        if (*fd < 0)
            return ls_fail(LS_E_IO, "%s: cannot create: %s", part, strerror(errno));
        while (flock(*fd, LOCK_EX) != 0)
            if (errno != EINTR) {
                int error = errno;
                close(*fd);
                return ls_fail(LS_E_IO, "%s: cannot lock: %s", part, strerror(error));
            }
        struct stat mine, there;
        bool current = fstat(*fd, &mine) == 0 && stat(part, &there) == 0 && mine.st_ino == there.st_ino &&
                       mine.st_dev == there.st_dev;
        *done = ls_file_exists(path);
        if (current || *done) {
            if (*done && current)
                ls_sys_remove(part);
            return LS_OK;
        }
        close(*fd); /* renamed or removed while we waited */
    }
}

static ls_status download_file(const ls_known *k, const ls_known_file *file, const char *dir,
                               const ls_dataset_options *o)
{
    char *path = ls_path_join(dir, file->name), *part = NULL;
    ls_str tried = { 0 };
    ls_status s = LS_OK;
    transfer t = { .file = file, .o = o, .fd = -1 };
    bool done = ls_file_exists(path);
    if (done)
        goto end;
    if (!path || !(part = ls_sys_text("%s.part", path))) {
        s = ls_fail(LS_E_MEMORY, "no memory for a path");
        goto end;
    }
    LS_TRY_TO(s, lock_part(&t.fd, &done, path, part), end);
    if (done)
        goto end;
    t.at = lseek(t.fd, 0, SEEK_END);
    if (t.at > file->bytes) {
        t.at = 0;
        if (ls_sys_ftruncate(t.fd, 0) != 0)
            t.error = errno;
    }
    const char *own[] = { o->mirror, NULL }, *const *mirrors = *o->mirror ? own : k->mirrors;
    ls_log_info("downloading %s of %s (%.1f MB) into %s", file->name, k->name, (double)file->bytes * 1e-6,
                dir);
    for (int i = 0; !done && !t.error && mirrors[i]; i++) {
        s = fetch_from(&t, mirrors[i]);
        done = s == LS_OK;
        if (!done) { /* the error keeps the last mirror's reason; all are in the log at level debug */
            ls_log_debug("%s", ls_error_message());
            ls_str_clear(&tried);
            ls_str_add(&tried, ls_error_message());
        }
    }
    if (!done) {
        s = ls_fail(s == LS_OK ? LS_E_IO : s, "%s",
                    *ls_str_text(&tried) ? ls_str_text(&tried) : strerror(t.error));
        if (t.at == 0)
            ls_sys_remove(part);
    } else if (ls_sys_fsync(t.fd) != 0 || ls_sys_rename(part, path) != 0) {
        s = ls_fail(LS_E_IO, "%s: cannot finish: %s", path, strerror(errno));
    } else {
        report(&t, true);
    }
end:
    if (t.fd >= 0)
        close(t.fd);
    ls_str_release(&tried);
    free(part);
    free(path);
    return s;
}

ls_status ls_known_download(const ls_known *k, const char *dir, const ls_dataset_options *o)
{
    if (ls_cache_is_frozen())
        return ls_fail(LS_E_IO, "a dry run downloads nothing");
    LS_TRY(ls_make_dirs(dir));
    for (int i = 0; i < LS_KNOWN_FILES; i++) {
        char plain[64];
        snprintf(plain, sizeof plain, "%.*s", (int)strlen(k->files[i].name) - 3, k->files[i].name);
        if (!ls_file_in(dir, plain)) /* inflated by hand */
            LS_TRY(download_file(k, &k->files[i], dir, o));
    }
    return LS_OK;
}
