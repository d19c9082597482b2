/* http.h - one HTTP request through libcurl, which is opened by the first request of the process. The only
 * place that includes libcurl. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "base/str.h"

/* Keys that sign a request as Amazon's services want it (Signature Version 4, service s3). */
typedef struct ls_http_keys {
    const char *region, *key, *secret;
    const char *session; /* token of temporary keys; NULL: none */
} ls_http_keys;

typedef struct ls_http {
    const char *url;    /* http, https or file */
    const char *method; /* NULL: GET */
    const char
        *bearer; /* token for the header Authorization; libcurl keeps it from other hosts; NULL: none */
    const ls_http_keys *keys; /* NULL: not signed */
    int64_t from;             /* the first byte that is wanted */
    const void *body;         /* what a POST or PUT sends, `body_size` bytes */
    size_t body_size;
    /* gets the body as it comes; false ends the request */
    bool (*take)(void *context, const void *data, size_t n);
    void *context;
    bool errors_too; /* `take` also gets the body of an error, and an answer of the server is LS_OK */
    /* set by the request */
    long answer;    /* the server's status code; 0: none came */
    bool refused;   /* `take` has ended it */
    char etag[128]; /* the header ETag as it came, with its quotes; "": none */
} ls_http;

/* Local. LS_E_IO with the URL and the reason when there is no connection, when it broke, or when the server
 * answered with an error; LS_E_UNSUPPORTED when the server cannot begin at `from`; LS_OK with r->refused when
 * `take` ended it. */
ls_status ls_http_request(ls_http *r);

/* Appends text as a URL has it: other bytes than letters, digits, -_.~ and those in `stays` ("/" in a path,
 * "" in the value of a query) become %XX. */
void ls_http_escape(ls_str *out, const char *text, const char *stays);

/* A whole body as text, at most `most` bytes; malloc'ed, NUL behind the last byte. r->take is set by it.
 * Errors as above. */
ls_status ls_http_text(char **out, size_t *size, ls_http *r, size_t most);
