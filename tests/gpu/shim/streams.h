/* streams.h - tasks of streams, and what captures keep of them. */
#pragma once
#include <pthread.h>
#include <time.h>

#include "shim.h"

struct cu_event_st {
    uint64_t recorded, happened; /* tickets: of the latest record, and of the latest that was reached */
    struct timespec when;
    int uses; /* the caller's, and those of tasks */
    bool destroyed;
    struct cu_event_st *next;
};

typedef enum kind { KERNEL, COPY, FILL, HOST, RECORD, AWAIT, GRAPH } kind;
typedef struct task {
    kind kind;
    const emulated_kernel *kernel;
    long long blocks;
    bool faults;
    uint64_t to, from;
    size_t bytes;
    int byte;
    cu_host_function run;
    void *context;
    cu_event event;
    uint64_t ticket;
    cu_graph_exec graph;
    struct task *next;
    _Alignas(16) char args[]; /* of a kernel */
} task;

struct cu_graph_st {
    task *first, **end;
    int uses;
    struct cu_graph_st *next;
};
struct cu_graph_exec_st {
    struct cu_graph_st *graph;
    int uses;
    bool destroyed;
    struct cu_graph_exec_st *next;
};

struct cu_stream_st {
    pthread_t thread;
    task *first, **end;
    bool works, ends;
    cu_graph capture; /* NULL: it does not capture */
    bool invalid;     /* what it captures */
    uint64_t drawn, number, launched;
    struct cu_stream_st *next;
};

extern cu_stream shim_streams;

/* (all under the lock) */
task *shim_new_task(kind k, size_t arg_bytes);
void shim_free_task(task *t);
/* Into the stream, or into what it captures. */
cu_result shim_put(cu_stream s, task *t);
/* Says what must not be done while the stream captures, and spoils the capture. */
cu_result shim_not_in_capture(const char *function, cu_stream s, const char *what);
void shim_drop_exec(cu_graph_exec e);

#define IS_LIVE(list, x)              \
    (__extension__({                  \
        __typeof__(list) item = list; \
        while (item && item != (x))   \
            item = item->next;        \
        item != NULL;                 \
    }))
#define UNLINK(list, x)                   \
    do {                                  \
        __typeof__(list) *link = &(list); \
        while (*link != (x))              \
            link = &(*link)->next;        \
        *link = (x)->next;                \
    } while (0)

#define ENTER_STREAM(s)                                                                                 \
    do {                                                                                                \
        ENTER();                                                                                        \
        if (!IS_LIVE(shim_streams, s))                                                                  \
            return shim_leave(WRONG((s) ? CU_INVALID_HANDLE : CU_INVALID_VALUE,                         \
                                    (s) ? "the stream was destroyed" : "the NULL stream is not used")); \
        if ((s)->invalid)                                                                               \
            return shim_leave(901);                                                                     \
    } while (0)
