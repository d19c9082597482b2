/* http.h - one HTTP request through libcurl, which is opened by the first request of the process. The only
 * place that includes libcurl. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "base/str.h"
#include "net/url.h"

/* Keys that sign a request as Amazon's services want it (Signature Version 4, service s3). */
typedef struct ls_http_keys {
    const char *region, *key, *secret;
    const char *session; /* token of temporary keys; NULL: none */
} ls_http_keys;

typedef struct ls_http {
    const char *url;    /* http, https or file */
    const char *method; /* NULL: GET */
    /* Token for the header Authorization. After a redirection it goes only to the origin of `url`. NULL:
     * none */
    const char *bearer;
    const ls_http_keys *keys; /* NULL: not signed */
    int64_t from;             /* the first byte that is wanted */
    int64_t count;            /* how many are wanted; 0: all that follow */
    const void *body;         /* what a POST or PUT sends, `body_size` bytes */
    size_t body_size;
    /* gets the body as it comes; false ends the request */
    bool (*take)(void *context, const void *data, size_t n);
    void *context;
    bool errors_too; /* `take` also gets the body of an error, and any answer of the server is LS_OK */
    /* Seconds without a byte in either direction that are allowed after a request to stop (base/stop.h).
     * 0: that ends the request at once */
    double patience;
    /* set by the request */
    long answer;              /* the server's status code; 0: none came */
    bool refused;             /* `take` has ended it */
    char etag[128];           /* the header ETag as it came, with its quotes; "": none */
    char region[64];          /* the header x-amz-bucket-region; "": none */
    char moved[LS_URL_SHOWN]; /* where a redirection that is not followed leads; "": there is none */
} ls_http;

/* Follows redirections, up to five, of a GET that is not signed; never from https to http. A signed request
 * or one with a method is not sent to another address than `url`.
 *
 * Local. LS_E_IO with the URL (as ls_url_shown) and the reason when there is no connection, when it broke,
 * when the server answered with an error, or when it redirects a request that is not sent elsewhere;
 * LS_E_UNSUPPORTED when the server cannot begin at `from`; LS_E_STOPPED; LS_OK with r->refused when `take`
 * ended it. */
ls_status ls_http_request(ls_http *r);

/* A whole body as text, at most `most` bytes; malloc'ed, NUL behind the last byte. r->take is set by it.
 * Errors as above. */
ls_status ls_http_text(char **out, size_t *size, ls_http *r, size_t most);
