/* server.h - a small HTTP server for tests of what downloads files. It can break off, refuse to continue,
 * send wrong bytes, or ask for a token. It serves one connection at a time. */
#pragma once
#include <stddef.h>

typedef enum ls_manner {
    LS_SERVE_WHOLE,
    LS_SERVE_CUT,         /* half of what was asked for, then the connection ends */
    LS_SERVE_NO_RANGES,   /* always from the beginning */
    LS_SERVE_WRONG_BYTES, /* the last one differs */
    LS_SERVE_TOO_MANY,
    LS_SERVE_ABSENT,      /* 404 */
    LS_SERVE_BAD_RANGE,   /* 416 when asked to continue */
    LS_SERVE_WRONG_RANGE, /* 206 that begins a byte earlier than asked for */
    LS_SERVE_REDIRECT,    /* 302 to the same path behind /moved */
    LS_SERVE_ELSEWHERE,   /* the same by another name of this machine, which is another origin */
    LS_SERVE_IN_CIRCLES,  /* 302 to the same path */
    LS_SERVE_A_FILE,      /* 302 to a file of this machine */
    LS_SERVE_TOKEN,       /* 401 without "Bearer secret" */
    LS_SERVE_MUTE,        /* no answer */
} ls_manner;

typedef struct ls_served {
    const char *path; /* as a request has it: "/data/f0.gz" */
    const void *data;
    size_t n;
} ls_served;

/* Starts it; "http://127.0.0.1:PORT". Fails the test if that is not possible. */
const char *ls_server_start(void);
void ls_server_stop(void);
/* An address of this machine at which nobody listens, ending in no slash. */
const char *ls_server_nobody(void);
void ls_server_serve(const ls_served *files, int n); /* the array stays the caller's */
void ls_server_behave(ls_manner manner);             /* from now on; counts begin at 0 */
int ls_server_requests(void);                        /* seen since then */
int ls_server_continued(void);                       /* of these, with a Range */
int ls_server_tokens(void);                          /* of these, with an Authorization or a session token */
