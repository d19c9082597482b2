/* s3.c - see s3.h. */
#include "net/s3.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/str.h"
#include "base/sys.h"
#include "net/download.h"
#include "net/http.h"
#include "net/s3_answer.h"
#include "net/s3_keys.h"
#include "net/url.h"

struct ls_s3 {
    ls_s3_keys keys;
    ls_http_keys signature;
    char *bucket, *prefix; /* prefix: "" or ending in a slash */
    double patience;       /* ls_s3_set_patience */
};

/* Of a list: PAGES_MOST pages, and a thousand objects for each. A server whose list has no end is not asked
 * for ever, and its pages do not fill the memory. */
enum { TRIES = 5, ANSWER_MOST = 64 << 20, PAGES_MOST = 1000, OBJECTS_MOST = 1000 * PAGES_MOST };

bool ls_s3_is(const char *place) { return !strncmp(place, "s3://", 5); }

ls_status ls_s3_open(ls_s3 **out, const char *place)
{
    *out = NULL;
    const char *bucket = ls_s3_is(place) ? place + 5 : place;
    const size_t n = strcspn(bucket, "/");
    char shown[LS_URL_SHOWN]; /* some tools take s3://KEY:SECRET@BUCKET */
    if (!n || strspn(bucket, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") < n)
        return ls_fail(LS_E_USAGE, "%s: no name of a bucket; s3://BUCKET/PREFIX is needed",
                       ls_url_shown(shown, place));
    ls_s3 *s = ls_sys_calloc(1, sizeof *s);
    if (!s)
        return ls_fail(LS_E_MEMORY, "%s: out of memory", place);
    ls_str prefix = { 0 };
    ls_str_add(&prefix, bucket[n] ? bucket + n + 1 : "");
    while (prefix.len && prefix.data[prefix.len - 1] == '/')
        prefix.data[--prefix.len] = 0;
    if (prefix.len)
        ls_str_add(&prefix, "/");
    s->bucket = ls_sys_strndup(bucket, n);
    s->prefix = ls_sys_strdup(ls_str_text(&prefix));
    ls_str_release(&prefix);
    ls_status status = s->bucket && s->prefix ? ls_s3_keys_find(&s->keys, place)
                                              : ls_fail(LS_E_MEMORY, "%s: out of memory", place);
    s->signature = (ls_http_keys){
        .region = s->keys.region, .key = s->keys.key, .secret = s->keys.secret, .session = s->keys.session
    };
    if (status == LS_OK)
        *out = s;
    else
        ls_s3_close(&s);
    return status;
}

void ls_s3_close(ls_s3 **s)
{
    if (!*s)
        return;
    ls_s3_keys_release(&(*s)->keys);
    free((*s)->bucket);
    free((*s)->prefix);
    free(*s);
    *s = NULL;
}

void ls_s3_set_patience(ls_s3 *s, double seconds) { s->patience = seconds; }

/* ---- requests */

/* ENDPOINT/BUCKET/PREFIX/KEY; the caller adds a query, whose words are in order, as the signature wants them.
 */
static void add_url(ls_str *out, const ls_s3 *s, const char *key)
{
    ls_str_printf(out, "%s/%s", s->keys.endpoint, s->bucket);
    if (!key)
        return;
    ls_str_add(out, "/");
    ls_url_escape(out, s->prefix, "/");
    ls_url_escape(out, key, "/");
}

static bool worth_repeating(ls_status s, long answer)
{
    return s == LS_E_IO ? answer == 0 : s == LS_OK && ((answer >= 500 && answer != 507) || answer == 429);
}

/* Waits before the next attempt; false: not that long, because of a request to stop. */
static bool pause_before(int attempt)
{
    enum { SLICE_MS = 50 };
    for (long ms = 200L << attempt; ms > 0 && !ls_stop_asked(); ms -= SLICE_MS) /* 0.2, 0.4, 0.8, 1.6 s */
        nanosleep(&(struct timespec){ .tv_nsec = SLICE_MS * 1000000L }, NULL);
    return !ls_stop_asked();
}

/* One request, repeated while that may help; its answer's text. The caller names `what` it wants: "write",
 * "list". */
static ls_status s3_ask(ls_s3 *s, ls_http *r, const char *what, const char *key, char **text, size_t *size)
{
    ls_status status = LS_OK;
    r->keys = &s->signature;
    r->errors_too = true;
    r->patience = s->patience;
    for (int attempt = 0; attempt < TRIES; attempt++) {
        status = ls_http_text(text, size, r, ANSWER_MOST);
        if (!worth_repeating(status, r->answer) || attempt == TRIES - 1)
            break;
        ls_log_debug("s3://%s/%s%s: %s; once more", s->bucket, s->prefix, key ? key : "",
                     status == LS_OK ? "the server is busy" : ls_error_message());
        free(*text);
        *text = NULL;
        if (!pause_before(attempt))
            return ls_fail(LS_E_STOPPED, "stopped while waiting for the server to %s s3://%s/%s%s", what,
                           s->bucket, s->prefix, key ? key : "");
    }
    if (status != LS_OK || r->answer / 100 == 2)
        return status;
    status = ls_s3_refusal(s->bucket, s->prefix, key, what, r, *text);
    free(*text);
    *text = NULL;
    return status;
}

/* An answer of 2xx that does not look like one of S3: what it says in XML, an error perhaps, else what is
 * missing. */
static ls_status not_done(const ls_s3 *s, const ls_http *r, const char *key, const char *what,
                          const char *missing, const char *text)
{
    char *code = strstr(text, "<Error") ? ls_s3_element(text, "Code") : NULL;
    const ls_status status = code ? ls_s3_refusal(s->bucket, s->prefix, key, what, r, text)
                                  : ls_fail(
                                        LS_E_FORMAT,
                                        "cannot %s s3://%s/%s%s: the answer has no %s; is this an S3 server?",
                                        what, s->bucket, s->prefix, key ? key : "", missing);
    free(code);
    return status;
}

static ls_status simple(ls_s3 *s, const char *method, const char *what, const char *key, const char *query,
                        const void *body, size_t n, char etag[128])
{
    ls_str url = { 0 };
    char *text = NULL;
    size_t size;
    add_url(&url, s, key);
    ls_str_add(&url, query);
    ls_http r = { .url = ls_str_text(&url), .method = method, .body = body, .body_size = n };
    ls_status status = s3_ask(s, &r, what, key, &text, &size);
    if (status == LS_OK && !strcmp(method, "PUT") && !*r.etag)
        status = not_done(s, &r, key, what, "ETag", text);
    if (status == LS_OK && etag)
        snprintf(etag, 128, "%s", r.etag);
    free(text);
    ls_str_release(&url);
    return status;
}

ls_status ls_s3_put(ls_s3 *s, const char *key, const void *data, size_t n)
{
    return simple(s, "PUT", "write", key, "", data, n, NULL);
}

ls_status ls_s3_remove(ls_s3 *s, const char *key)
{
    return simple(s, "DELETE", "remove", key, "", NULL, 0, NULL);
}

ls_status ls_s3_get(char **out, size_t *size, ls_s3 *s, const char *key)
{
    ls_str url = { 0 };
    add_url(&url, s, key);
    ls_http r = { .url = ls_str_text(&url) };
    const ls_status status = s3_ask(s, &r, "read", key, out, size);
    ls_str_release(&url);
    return status;
}

ls_status ls_s3_get_part(char **out, ls_s3 *s, const char *key, uint64_t from, size_t n)
{
    ls_str url = { 0 };
    size_t size = 0;
    add_url(&url, s, key);
    ls_http r = { .url = ls_str_text(&url), .from = (int64_t)from, .count = (int64_t)n };
    ls_status status = s3_ask(s, &r, "read", key, out, &size);
    if (status == LS_OK && size != n) {
        free(*out);
        *out = NULL;
        status = ls_fail(LS_E_FORMAT, "cannot read s3://%s/%s%s: %zu bytes came instead of %zu from %llu on",
                         s->bucket, s->prefix, key, size, n, (unsigned long long)from);
    }
    ls_str_release(&url);
    return status;
}

ls_status ls_s3_get_file(ls_s3 *s, const ls_s3_object *o, const char *path)
{
    ls_str url = { 0 };
    add_url(&url, s, o->key);
    const char *const urls[] = { ls_str_text(&url), ls_str_text(&url), ls_str_text(&url),
                                 NULL }; /* three tries */
    ls_download d = { .path = path, .name = o->key, .urls = urls, .bytes = o->bytes, .keys = &s->signature };
    const ls_status status = ls_download_file(&d);
    ls_str_release(&url);
    return status;
}

/* ---- lists */

static ls_status list_page(ls_s3 *s, const char *below, ls_s3_list *out, char **token)
{
    ls_str url = { 0 };
    char *text = NULL;
    size_t size;
    add_url(&url, s, NULL);
    ls_str_add(&url, "?");
    if (*token) {
        ls_str_add(&url, "continuation-token=");
        ls_url_escape(&url, *token, "");
        ls_str_add(&url, "&");
    }
    ls_str_add(&url, "list-type=2&prefix=");
    ls_url_escape(&url, s->prefix, "");
    ls_url_escape(&url, below, "");
    char shown[LS_URL_SHOWN], *next = NULL;
    ls_http r = { .url = ls_str_text(&url) };
    ls_status status = s3_ask(s, &r, "list", below, &text, &size);
    if (status == LS_OK)
        status = ls_s3_read_list(out, &next, text, s->prefix, ls_url_shown(shown, ls_str_text(&url)));
    if (status == LS_OK && *token && next && !strcmp(*token, next))
        status = ls_fail(LS_E_FORMAT,
                         "cannot list s3://%s/%s%s: the server gives the same continuation token twice",
                         s->bucket, s->prefix, below);
    free(text);
    free(*token);
    *token = next;
    ls_str_release(&url);
    return status;
}

ls_status ls_s3_list_all(ls_s3_list *out, ls_s3 *s, const char *below)
{
    char *token = NULL;
    const double began = ls_now();
    *out = (ls_s3_list){ 0 };
    ls_status status = list_page(s, below, out, &token);
    for (int page = 1; status == LS_OK && token; page++)
        if (page == PAGES_MOST)
            status = ls_fail(LS_E_FORMAT, "cannot list s3://%s/%s%s: the list does not end after %d pages",
                             s->bucket, s->prefix, below, PAGES_MOST);
        else if (out->n > OBJECTS_MOST)
            status = ls_fail(LS_E_FORMAT, "cannot list s3://%s/%s%s: the list does not end after %d objects",
                             s->bucket, s->prefix, below, OBJECTS_MOST);
        else if (ls_stop_asked() && ls_now() - began > s->patience)
            status = ls_stop_check("listing s3://%s/%s%s", s->bucket, s->prefix, below);
        else
            status = list_page(s, below, out, &token);
    free(token);
    if (status != LS_OK)
        ls_s3_list_release(out);
    return status;
}

void ls_s3_list_release(ls_s3_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->at[i].key);
    free(l->at);
    *l = (ls_s3_list){ 0 };
}

/* ---- objects in parts */

static ls_status abort_upload(ls_s3 *s, const char *key, const char *id)
{
    ls_str query = { 0 };
    ls_str_add(&query, "?uploadId=");
    ls_url_escape(&query, id, "");
    const ls_status status = simple(s, "DELETE", "take back", key, ls_str_text(&query), NULL, 0, NULL);
    ls_str_release(&query);
    return status;
}

static ls_status begin_upload(ls_s3 *s, const char *key, char **id)
{
    ls_str url = { 0 };
    char *text = NULL;
    size_t size;
    add_url(&url, s, key);
    ls_str_add(&url, "?uploads=");
    ls_http r = { .url = ls_str_text(&url), .method = "POST" };
    ls_status status = s3_ask(s, &r, "write", key, &text, &size);
    if (status == LS_OK && !(*id = ls_s3_element(text, "UploadId")))
        status = not_done(s, &r, key, "write", "UploadId", text);
    free(text);
    ls_str_release(&url);
    return status;
}

/* The parts in order; *list is what the request that ends the upload says of them. */
static ls_status put_parts(ls_s3 *s, const char *key, const char *id, const ls_mapping *file, ls_str *list)
{
    ls_status status = LS_OK;
    ls_str_add(list, "<CompleteMultipartUpload>");
    for (size_t at = 0, number = 1; status == LS_OK && at < file->size; at += LS_S3_PART, number++) {
        const size_t left = file->size - at, n = left < LS_S3_PART ? left : LS_S3_PART;
        ls_str query = { 0 };
        char etag[128] = "";
        ls_str_printf(&query, "?partNumber=%zu&uploadId=", number);
        ls_url_escape(&query, id, "");
        status = simple(s, "PUT", "write", key, ls_str_text(&query), file->data + at, n, etag);
        ls_str_printf(list, "<Part><PartNumber>%zu</PartNumber><ETag>%s</ETag></Part>", number, etag);
        ls_str_release(&query);
    }
    ls_str_add(list, "</CompleteMultipartUpload>");
    return status;
}

static ls_status end_upload(ls_s3 *s, const char *key, const char *id, const ls_str *list)
{
    ls_str url = { 0 };
    char *text = NULL;
    size_t size;
    add_url(&url, s, key);
    ls_str_add(&url, "?uploadId=");
    ls_url_escape(&url, id, "");
    ls_http r = {
        .url = ls_str_text(&url), .method = "POST", .body = ls_str_text(list), .body_size = list->len
    };
    ls_status status = s3_ask(s, &r, "write", key, &text, &size);
    if (status == LS_OK && !strstr(text, "<CompleteMultipartUploadResult")) /* 200, and yet an error */
        status = not_done(s, &r, key, "write", "CompleteMultipartUploadResult", text);
    free(text);
    ls_str_release(&url);
    return status;
}

static ls_status put_in_parts(ls_s3 *s, const char *key, const ls_mapping *file)
{
    char *id = NULL;
    ls_str list = { 0 };
    LS_TRY(begin_upload(s, key, &id));
    ls_status status = put_parts(s, key, id, file, &list);
    if (status == LS_OK)
        status = end_upload(s, key, id, &list);
    if (status != LS_OK && status != LS_E_STOPPED) { /* after it the server does not answer: ls_s3_clean */
        char message[2048];                          /* of the failure: taking the upload back may fail too */
        snprintf(message, sizeof message, "%s", ls_error_message());
        abort_upload(s, key, id);
        status = ls_fail(status, "%s", message);
    }
    ls_str_release(&list);
    free(id);
    return status;
}

ls_status ls_s3_put_file(ls_s3 *s, const char *key, const char *path)
{
    ls_mapping file;
    LS_TRY(ls_file_map(&file, path));
    const ls_status status = file.size > LS_S3_PART ? put_in_parts(s, key, &file)
                                                    : ls_s3_put(s, key, file.data, file.size);
    ls_file_unmap(&file);
    return status;
}

ls_status ls_s3_clean(ls_s3 *s, const char *below)
{
    ls_str url = { 0 };
    char *text = NULL;
    size_t size;
    add_url(&url, s, NULL);
    ls_str_add(&url, "?prefix=");
    ls_url_escape(&url, s->prefix, "");
    ls_url_escape(&url, below, "");
    ls_str_add(&url, "&uploads=");
    ls_http r = { .url = ls_str_text(&url) };
    ls_status status = s3_ask(s, &r, "list", below, &text, &size);
    if (status == LS_OK && !strstr(text, "<ListMultipartUploadsResult"))
        status = not_done(s, &r, below, "list", "ListMultipartUploadsResult", text);
    const size_t prefix = strlen(s->prefix);
    ls_s3_part upload, rest = { text, status == LS_OK ? text + size : text };
    while (status == LS_OK && ls_s3_next(&upload, &rest, "Upload")) {
        char *key = ls_s3_element_of(upload, "Key"), *id = ls_s3_element_of(upload, "UploadId");
        if (key && id && !strncmp(key, s->prefix, prefix)) {
            ls_log_info("taking back the half upload of s3://%s/%s", s->bucket, key);
            status = abort_upload(s, key + prefix, id);
        }
        free(key);
        free(id);
    }
    free(text);
    ls_str_release(&url);
    return status;
}
