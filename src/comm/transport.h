/* transport.h - the interface for moving bytes between machines: a table of functions that a module
 * (lockstep-mpi.so) fills. The module is opened at run time and knows only this header of Lockstep. It does
 * no arithmetic. Calls on one transport come from one thread at a time. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LS_TRANSPORT_ABI 2
#define LS_TRANSPORT_SYMBOL "lockstep_transport" /* the module's ls_transport_ops */
#define LS_TRANSPORT_ANY (-1)                    /* receive from any rank that sends with this tag */

enum { LS_TRANSPORT_TEXT = 512 };

typedef struct ls_transport {
    int rank, size;
    int machine;                   /* the same number on the ranks of one machine: the lowest of them */
    int most_tag;                  /* the largest tag of a message */
    void *own;                     /* the module's */
    char error[LS_TRANSPORT_TEXT]; /* why the latest call failed */
} ls_transport;

typedef struct ls_message {
    uint64_t request;
} ls_message; /* a send or receive under way */

/* Functions that return bool return false when they fail, with the reason in t->error. */
typedef struct ls_transport_ops {
    int abi;
    void (*describe)(char text[LS_TRANSPORT_TEXT]); /* name and version of the library behind it */
    /* communicator NULL: that of all ranks started together; else the caller's (a pointer to it), which is
     * duplicated. Collective. */
    bool (*open)(ls_transport *t, const void *communicator);
    /* orderly false: a rank has failed, so nothing may wait for others. */
    void (*close)(ls_transport *t, bool orderly);
    bool (*all_gather)(ls_transport *t, const void *mine, size_t bytes, void *all); /* small; collective */
    /* Messages of one tag between two ranks arrive in order. `data` stays in use until test says done. */
    bool (*send)(ls_transport *t, ls_message *m, const void *data, size_t bytes, int to, int tag);
    bool (*receive)(ls_transport *t, ls_message *m, void *data, size_t bytes, int from, int tag);
    /* never blocks; makes progress on everything under way */
    bool (*test)(ls_transport *t, ls_message *m, bool *done);
    /* gives a message up; false: the transport may use its data for ever */
    bool (*cancel)(ls_transport *t, ls_message *m);
} ls_transport_ops;
