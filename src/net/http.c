/* http.c - see http.h. */
#include "net/http.h"
#ifdef LS_HAVE_CURL
#define CURL_DISABLE_TYPECHECK /* its macros call the functions by name */
#include <curl/curl.h>
#include <dlfcn.h>
#include <pthread.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/sha.h"
#include "base/sys.h"

#ifdef LS_HAVE_CURL
/* Seconds to connect, and seconds below 1 KB/s after which a connection counts as dead. */
enum { CONNECT_SECONDS = 10, STALL_SECONDS = 20, STALL_RATE = 1000, REDIRECTIONS = 5, GO_AHEAD_MS = 100 };

/* libcurl brings some 40 libraries, and most processes never download. So the first request opens it, once;
 * afterwards all threads only read this. */
static struct {
    __typeof__(curl_global_init) *global_init;
    __typeof__(curl_easy_init) *init;
    __typeof__(curl_easy_setopt) *setopt;
    __typeof__(curl_easy_perform) *perform;
    __typeof__(curl_easy_getinfo) *getinfo;
    __typeof__(curl_easy_cleanup) *cleanup;
    __typeof__(curl_easy_strerror) *strerror;
    __typeof__(curl_slist_append) *append;
    __typeof__(curl_slist_free_all) *free_all;
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
    *(void **)&curl.append = function(l, "curl_slist_append");
    *(void **)&curl.free_all = function(l, "curl_slist_free_all");
    if (!refusal[0])
        curl.global_init(CURL_GLOBAL_DEFAULT);
}

static size_t on_bytes(char *data, size_t size, size_t count, void *context)
{
    ls_http *r = context;
    if (r->take(r->context, data, size * count))
        return size * count;
    r->refused = true;
    return 0;
}

/* Keeps the header ETag. */
static size_t on_header(char *line, size_t size, size_t count, void *context)
{
    static const char NAME[] = "etag:";
    ls_http *r = context;
    const size_t n = size * count, name = sizeof NAME - 1;
    if (n > name && !strncasecmp(line, NAME, name)) {
        size_t from = name, to = n;
        while (from < to && line[from] == ' ')
            from++;
        while (to > from && (line[to - 1] == '\r' || line[to - 1] == '\n' || line[to - 1] == ' '))
            to--;
        snprintf(r->etag, sizeof r->etag, "%.*s", (int)(to - from), line + from);
    }
    return n;
}

/* Takes `header`, whose memory it frees; NULL: there was none for it. */
static bool add_header(struct curl_slist **headers, char *header)
{
    struct curl_slist *longer = header ? curl.append(*headers, header) : NULL;
    free(header);
    *headers = longer ? longer : *headers;
    return longer;
}

/* Gives libcurl a text, which it copies. */
static bool set_text(CURL *c, CURLoption option, char *text)
{
    const bool set = text && curl.setopt(c, option, text) == CURLE_OK;
    free(text);
    return set;
}

/* The signature covers the body by its SHA-256, which stands in a header of the request. */
static bool sign(CURL *c, const ls_http *r, struct curl_slist **headers)
{
    const ls_http_keys *k = r->keys;
    ls_sha sha;
    char hex[LS_SHA256_HEX];
    ls_sha256_init(&sha);
    ls_sha_add(&sha, r->body, r->body_size);
    ls_sha_hex(&sha, hex);
    return set_text(c, CURLOPT_AWS_SIGV4, ls_sys_text("aws:amz:%s:s3", k->region)) &&
           set_text(c, CURLOPT_USERPWD, ls_sys_text("%s:%s", k->key, k->secret)) &&
           add_header(headers, ls_sys_text("x-amz-content-sha256: %s", hex)) &&
           (!k->session || add_header(headers, ls_sys_text("x-amz-security-token: %s", k->session)));
}

static bool set_body(CURL *c, const ls_http *r, struct curl_slist **headers)
{
    const bool post = !strcmp(r->method, "POST");
    if (post || !strcmp(r->method, "PUT")) {
        curl.setopt(c, CURLOPT_POST, 1L);
        curl.setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body_size);
        curl.setopt(c, CURLOPT_POSTFIELDS, r->body_size ? r->body : "");
        if (!add_header(headers, ls_sys_strdup("Content-Type: application/octet-stream")))
            return false;
    }
    /* A large body waits so long for the server's go-ahead, which some do not give. (Switching this off by a
     * header "Expect:" would make the signature wrong: libcurl 7.88 signs it and does not send it.) */
    curl.setopt(c, CURLOPT_EXPECT_100_TIMEOUT_MS, (long)GO_AHEAD_MS);
    if (!post)
        curl.setopt(c, CURLOPT_CUSTOMREQUEST, r->method);
    return true;
}

/* false: out of memory. */
static bool set_options(CURL *c, ls_http *r, char error[CURL_ERROR_SIZE], struct curl_slist **headers)
{
    curl.setopt(c, CURLOPT_URL, r->url);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl.setopt(c, CURLOPT_PROTOCOLS_STR, "http,https,file");
    curl.setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
    curl.setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS | CURLPROTO_FILE));
    curl.setopt(c, CURLOPT_REDIR_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl.setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl.setopt(c, CURLOPT_MAXREDIRS, (long)REDIRECTIONS);
    curl.setopt(c, CURLOPT_FAILONERROR, r->errors_too ? 0L : 1L);
    curl.setopt(c, CURLOPT_NOSIGNAL, 1L); /* we may be on any thread */
    curl.setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl.setopt(c, CURLOPT_LOW_SPEED_LIMIT, (long)STALL_RATE);
    curl.setopt(c, CURLOPT_LOW_SPEED_TIME, (long)STALL_SECONDS);
    curl.setopt(c, CURLOPT_USERAGENT, "lockstep/" LS_VERSION);
    if (r->from)
        curl.setopt(c, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)r->from);
    curl.setopt(c, CURLOPT_ERRORBUFFER, error);
    curl.setopt(c, CURLOPT_WRITEFUNCTION, on_bytes);
    curl.setopt(c, CURLOPT_WRITEDATA, r);
    curl.setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl.setopt(c, CURLOPT_HEADERDATA, r);
    if (r->bearer) {
        curl.setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BEARER);
        curl.setopt(c, CURLOPT_XOAUTH2_BEARER, r->bearer);
    }
    if ((r->method && !set_body(c, r, headers)) || (r->keys && !sign(c, r, headers)))
        return false;
    curl.setopt(c, CURLOPT_HTTPHEADER, *headers);
    return true;
}

ls_status ls_http_request(ls_http *r)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_curl);
    r->answer = 0;
    r->refused = false;
    r->etag[0] = 0;
    if (refusal[0])
        return ls_fail(LS_E_IO,
                       "%s: this needs libcurl, which cannot be opened here (%s); install it, or copy the "
                       "files yourself",
                       r->url, refusal);
    CURL *c = curl.init();
    if (!c)
        return ls_fail(LS_E_MEMORY, "libcurl cannot start");
    char error[CURL_ERROR_SIZE] = "";
    struct curl_slist *headers = NULL;
    const bool ready = set_options(c, r, error, &headers);
    const CURLcode result = ready ? curl.perform(c) : CURLE_OUT_OF_MEMORY;
    curl.getinfo(c, CURLINFO_RESPONSE_CODE, &r->answer);
    curl.cleanup(c);
    curl.free_all(headers);
    if (result == CURLE_OK || r->refused)
        return LS_OK;
    if (result == CURLE_OUT_OF_MEMORY)
        return ls_fail(LS_E_MEMORY, "%s: out of memory", r->url);
    if (result == CURLE_RANGE_ERROR || result == CURLE_BAD_DOWNLOAD_RESUME || r->answer == 416)
        return ls_fail(LS_E_UNSUPPORTED, "%s: cannot be continued at byte %lld", r->url, (long long)r->from);
    return ls_fail(LS_E_IO, "%s: %s", r->url, *error ? error : curl.strerror(result));
}
#else
ls_status ls_http_request(ls_http *r)
{
    r->answer = 0;
    r->refused = false;
    r->etag[0] = 0;
    return ls_fail(
        LS_E_IO,
        "%s: this build has no libcurl: install it with its headers (Debian: libcurl4-openssl-dev) "
        "and build again, or copy the files yourself",
        r->url);
}
#endif

void ls_http_escape(ls_str *out, const char *text, const char *stays)
{
    static const char PLAIN[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.~";
    for (const char *p = text; *p; p++)
        if (strchr(PLAIN, *p) || strchr(stays, *p))
            ls_str_add_n(out, p, 1);
        else
            ls_str_printf(out, "%%%02X", (unsigned char)*p);
}

typedef struct body {
    char *data;
    size_t n, most;
    bool no_memory;
} body;

static bool keep(void *context, const void *data, size_t n)
{
    body *b = context;
    if (n > b->most - b->n)
        return false;
    char *grown = ls_sys_realloc(b->data, b->n + n + 1);
    if (!grown) {
        b->no_memory = true;
        return false;
    }
    b->data = grown;
    memcpy(b->data + b->n, data, n);
    b->n += n;
    b->data[b->n] = 0;
    return true;
}

ls_status ls_http_text(char **out, size_t *size, ls_http *r, size_t most)
{
    body b = { .most = most };
    r->take = keep;
    r->context = &b;
    ls_status s = ls_http_request(r);
    if (s == LS_OK && (b.no_memory || (!b.data && !(b.data = ls_sys_calloc(1, 1)))))
        s = ls_fail(LS_E_MEMORY, "%s: out of memory", r->url);
    else if (s == LS_OK && r->refused)
        s = ls_fail(LS_E_FORMAT, "%s: more than %zu bytes came", r->url, most);
    if (s != LS_OK) {
        free(b.data);
        return s;
    }
    *out = b.data;
    *size = b.n;
    return LS_OK;
}
