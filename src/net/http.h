/* http.h - one HTTP request through libcurl, which is opened by the first request of the process. The only
 * place that includes libcurl. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include "lockstep/status.h"

typedef struct ls_http {
    const char *url; /* http, https or file */
    const char
        *bearer;  /* token for the header Authorization; libcurl keeps it from other hosts; NULL: none */
    int64_t from; /* the first byte that is wanted */
    /* gets the body as it comes; false ends the request */
    bool (*take)(void *context, const void *data, size_t n);
    void *context;
    /* set by the request */
    long answer;  /* the server's status code; 0: none came */
    bool refused; /* `take` has ended it */
} ls_http;

/* Local. LS_E_IO with the URL and the reason when there is no connection, when it broke, or when the server
 * answered with an error; LS_E_UNSUPPORTED when the server cannot begin at `from`; LS_OK with r->refused when
 * `take` ended it. */
ls_status ls_http_get(ls_http *r);

/* A whole body as text, at most `most` bytes; malloc'ed, NUL behind the last byte. *answer as above. */
ls_status ls_http_text(char **out, size_t *size, const char *url, const char *bearer, size_t most,
                       long *answer);
