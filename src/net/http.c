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
#include "base/clock.h"
#include "base/sha.h"
#include "base/stop.h"
#include "base/sys.h"
#include "net/url.h"

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

/* One exchange with one server: a request that is redirected has several. */
typedef struct exchange {
    ls_http *r;
    const char *url;
    CURL *c;
    int64_t first;    /* where the server says that its bytes begin */
    bool elsewhere;   /* not where they were wanted */
    curl_off_t moved; /* bytes, both ways, */
    double moved_at;  /* and when the last ones did since the request to stop; 0: there is none */
    char why[CURL_ERROR_SIZE];
    struct curl_slist *headers;
} exchange;

static long answer_of(const exchange *x)
{
    long code = 0;
    curl.getinfo(x->c, CURLINFO_RESPONSE_CODE, &code);
    return code;
}

static bool is_redirection(long answer) { return answer / 100 == 3; }

static size_t on_bytes(char *data, size_t size, size_t count, void *context)
{
    exchange *x = context;
    ls_http *r = x->r;
    const long answer = answer_of(x); /* 0 for a file */
    if (is_redirection(answer) && !r->errors_too)
        return size * count; /* a page for people */
    if (r->from && answer && (answer != 206 || x->first != r->from)) {
        x->elsewhere = true;
        return 0;
    }
    if (r->take(r->context, data, size * count))
        return size * count;
    r->refused = true;
    return 0;
}

/* If the header has this name, copies its value. */
static bool keep_header(char *to, size_t room, const char *line, size_t n, const char *name)
{
    const size_t length = strlen(name);
    if (n <= length || strncasecmp(line, name, length))
        return false;
    size_t from = length, end = n;
    while (from < end && line[from] == ' ')
        from++;
    while (end > from && (line[end - 1] == '\r' || line[end - 1] == '\n' || line[end - 1] == ' '))
        end--;
    snprintf(to, room, "%.*s", (int)(end - from), line + from);
    return true;
}

static size_t on_header(char *line, size_t size, size_t count, void *context)
{
    exchange *x = context;
    char range[64];
    const size_t n = size * count;
    keep_header(x->r->etag, sizeof x->r->etag, line, n, "etag:");
    keep_header(x->r->region, sizeof x->r->region, line, n, "x-amz-bucket-region:");
    if (keep_header(range, sizeof range, line, n, "content-range:") && !strncasecmp(range, "bytes ", 6))
        x->first = strtoll(range + 6, NULL, 10);
    return n;
}

/* libcurl calls it at least once a second, also when nothing comes. Not 0 ends the request. */
static int on_progress(void *context, curl_off_t all_down, curl_off_t down, curl_off_t all_up, curl_off_t up)
{
    (void)all_down;
    (void)all_up;
    exchange *x = context;
    if (!ls_stop_asked())
        return 0;
    if (x->moved_at == 0 || x->moved != down + up) {
        x->moved = down + up;
        x->moved_at = ls_now();
    }
    return ls_now() - x->moved_at >= x->r->patience;
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
static bool sign(exchange *x)
{
    const ls_http_keys *k = x->r->keys;
    ls_sha sha;
    char hex[LS_SHA256_HEX];
    ls_sha256_init(&sha);
    ls_sha_add(&sha, x->r->body, x->r->body_size);
    ls_sha_hex(&sha, hex);
    return set_text(x->c, CURLOPT_AWS_SIGV4, ls_sys_text("aws:amz:%s:s3", k->region)) &&
           set_text(x->c, CURLOPT_USERPWD, ls_sys_text("%s:%s", k->key, k->secret)) &&
           add_header(&x->headers, ls_sys_text("x-amz-content-sha256: %s", hex)) &&
           (!k->session || add_header(&x->headers, ls_sys_text("x-amz-security-token: %s", k->session)));
}

static bool set_body(exchange *x)
{
    const ls_http *r = x->r;
    CURL *c = x->c;
    const bool post = !strcmp(r->method, "POST");
    if (post || !strcmp(r->method, "PUT")) {
        curl.setopt(c, CURLOPT_POST, 1L);
        curl.setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->body_size);
        curl.setopt(c, CURLOPT_POSTFIELDS, r->body_size ? r->body : "");
        if (!add_header(&x->headers, ls_sys_strdup("Content-Type: application/octet-stream")))
            return false;
    }
    /* A large body waits so long for the server's go-ahead, which some do not give. (Switching this off by a
     * header "Expect:" would make the signature wrong: libcurl 7.88 signs it and does not send it.) */
    curl.setopt(c, CURLOPT_EXPECT_100_TIMEOUT_MS, (long)GO_AHEAD_MS);
    if (!post)
        curl.setopt(c, CURLOPT_CUSTOMREQUEST, r->method);
    return true;
}

/* libcurl follows no redirection by itself: it would send headers of ours, such as the token of temporary
 * keys, to whatever server an answer names. */
static void set_behaviour(exchange *x)
{
    CURL *c = x->c;
    const bool first = x->url == x->r->url; /* no server leads us to a file of this machine */
#if LIBCURL_VERSION_NUM >= 0x075500
    curl.setopt(c, CURLOPT_PROTOCOLS_STR, first ? "http,https,file" : "http,https");
#else
    curl.setopt(c, CURLOPT_PROTOCOLS,
                (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS | (first ? CURLPROTO_FILE : 0)));
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
    curl.setopt(c, CURLOPT_QUICK_EXIT, 1L); /* a request that ends does not wait for its look-up of a name */
#endif
    curl.setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl.setopt(c, CURLOPT_FAILONERROR, x->r->errors_too ? 0L : 1L);
    curl.setopt(c, CURLOPT_NOSIGNAL, 1L); /* we may be on any thread */
    curl.setopt(c, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_SECONDS);
    curl.setopt(c, CURLOPT_LOW_SPEED_LIMIT, (long)STALL_RATE);
    curl.setopt(c, CURLOPT_LOW_SPEED_TIME, (long)STALL_SECONDS);
    curl.setopt(c, CURLOPT_USERAGENT, "lockstep/" LS_VERSION);
    curl.setopt(c, CURLOPT_ERRORBUFFER, x->why);
    curl.setopt(c, CURLOPT_WRITEFUNCTION, on_bytes);
    curl.setopt(c, CURLOPT_WRITEDATA, x);
    curl.setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl.setopt(c, CURLOPT_HEADERDATA, x);
    curl.setopt(c, CURLOPT_NOPROGRESS, 0L);
    curl.setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl.setopt(c, CURLOPT_XFERINFODATA, x);
}

/* false: out of memory. */
static bool set_options(exchange *x)
{
    const ls_http *r = x->r;
    if (curl.setopt(x->c, CURLOPT_URL, x->url) != CURLE_OK)
        return false;
    set_behaviour(x);
    if (r->count &&
        !set_text(x->c, CURLOPT_RANGE,
                  ls_sys_text("%lld-%lld", (long long)r->from, (long long)(r->from + r->count - 1))))
        return false;
    if (r->from && !r->count && !set_text(x->c, CURLOPT_RANGE, ls_sys_text("%lld-", (long long)r->from)))
        return false;
    if (r->bearer && ls_url_same_origin(r->url, x->url) &&
        !add_header(&x->headers, ls_sys_text("Authorization: Bearer %s", r->bearer)))
        return false;
    if ((r->method && !set_body(x)) || (r->keys && !sign(x)))
        return false;
    return curl.setopt(x->c, CURLOPT_HTTPHEADER, x->headers) == CURLE_OK;
}

/* What became of it. *next: malloc'ed, where the server sends us; NULL: nowhere. */
static ls_status judge(exchange *x, CURLcode result, char **next)
{
    ls_http *r = x->r;
    char shown[LS_URL_SHOWN];
    const char *target = NULL;
    ls_url_shown(shown, x->url);
    if (r->refused)
        return LS_OK;
    if (result == CURLE_ABORTED_BY_CALLBACK)
        return ls_fail(LS_E_STOPPED, "stopped while waiting for %s", shown);
    if (result == CURLE_OUT_OF_MEMORY)
        return ls_fail(LS_E_MEMORY, "%s: out of memory", shown);
    if (x->elsewhere || result == CURLE_RANGE_ERROR || result == CURLE_BAD_DOWNLOAD_RESUME ||
        r->answer == 416)
        return ls_fail(LS_E_UNSUPPORTED, "%s: cannot be continued at byte %lld", shown, (long long)r->from);
    if (result != CURLE_OK)
        return ls_fail(LS_E_IO, "%s: %s", shown, *x->why ? x->why : curl.strerror(result));
    if (!is_redirection(r->answer))
        return LS_OK;
    curl.getinfo(x->c, CURLINFO_REDIRECT_URL, &target);
    if (target)
        ls_url_shown(r->moved, target);
    if (r->errors_too)
        return LS_OK;
    if (!target)
        return ls_fail(LS_E_IO, "%s: the server answers %ld and names no other address", shown, r->answer);
    if (r->keys || r->method)
        return ls_fail(LS_E_IO, "%s: the server redirects to %s, which the request is not for", shown,
                       r->moved);
    if (!ls_url_may_lead(x->url, target))
        return ls_fail(LS_E_IO, "%s: the server redirects to %s, which is not followed: it is not https",
                       shown, r->moved);
    *next = ls_sys_strdup(target);
    return *next ? LS_OK : ls_fail(LS_E_MEMORY, "%s: out of memory", shown);
}

static ls_status http_ask(ls_http *r, const char *url, char **next)
{
    exchange x = { .r = r, .url = url, .c = curl.init() };
    if (!x.c)
        return ls_fail(LS_E_MEMORY, "libcurl cannot start");
    r->answer = 0;
    r->refused = false;
    r->etag[0] = r->region[0] = r->moved[0] = 0;
    const CURLcode result = set_options(&x) ? curl.perform(x.c) : CURLE_OUT_OF_MEMORY;
    r->answer = answer_of(&x);
    const ls_status s = judge(&x, result, next);
    curl.cleanup(x.c);
    curl.free_all(x.headers);
    return s;
}

ls_status ls_http_request(ls_http *r)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    char shown[LS_URL_SHOWN], *url = NULL;
    pthread_once(&once, start_curl);
    r->answer = 0;
    if (refusal[0])
        return ls_fail(LS_E_IO,
                       "%s: this needs libcurl, which cannot be opened here (%s); install it, or copy the "
                       "files yourself",
                       ls_url_shown(shown, r->url), refusal);
    ls_status s = LS_OK;
    for (int hops = 0; s == LS_OK; hops++) {
        char *next = NULL;
        if (hops > REDIRECTIONS)
            s = ls_fail(LS_E_IO, "%s: more than %d redirections", ls_url_shown(shown, r->url), REDIRECTIONS);
        if (s == LS_OK && r->patience == 0)
            s = ls_stop_check("waiting for %s", ls_url_shown(shown, r->url));
        if (s == LS_OK)
            s = http_ask(r, url ? url : r->url, &next);
        free(url);
        url = next;
        if (!next)
            break;
    }
    return s;
}
#else
ls_status ls_http_request(ls_http *r)
{
    char shown[LS_URL_SHOWN];
    r->answer = 0;
    r->refused = false;
    r->etag[0] = r->region[0] = r->moved[0] = 0;
    return ls_fail(
        LS_E_IO,
        "%s: this build has no libcurl: install it with its headers (Debian: libcurl4-openssl-dev) "
        "and build again, or copy the files yourself",
        ls_url_shown(shown, r->url));
}
#endif

typedef struct body {
    ls_str text;
    size_t most;
} body;

static bool http_keep(void *context, const void *data, size_t n)
{
    body *b = context;
    if (n > b->most - b->text.len)
        return false;
    ls_str_add_n(&b->text, data, n);
    return !b->text.no_memory;
}

ls_status ls_http_text(char **out, size_t *size, ls_http *r, size_t most)
{
    char shown[LS_URL_SHOWN];
    body b = { .most = most };
    r->take = http_keep;
    r->context = &b;
    *out = NULL;
    ls_status s = ls_http_request(r);
    if (s == LS_OK && r->refused && !b.text.no_memory)
        s = ls_fail(LS_E_FORMAT, "%s: more than %zu bytes came", ls_url_shown(shown, r->url), most);
    if (s == LS_OK) {
        *size = b.text.len;
        *out = ls_str_take(&b.text);
        s = *out ? LS_OK : LS_E_MEMORY;
    }
    ls_str_release(&b.text);
    return s;
}
