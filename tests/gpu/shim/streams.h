/* streams.h - tasks of streams, and what captures keep of them. */
#pragma once
#include <pthread.h>
#include <time.h>

#include "shim.h"

enum { BRANCHES = 8 }; /* most streams of one capture */

struct cu_event_st {
    uint64_t recorded, happened; /* tickets: of the latest record, and of the latest that was reached */
    uint64_t captured;           /* the capture that has the latest record; 0: none */
    int node;                    /* which record of that capture it is */
    int known[BRANCHES];         /* how many tasks of each branch are before it there */
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
    void (*drop)(void *context);    /* when the task goes; may be NULL */
    bool (*allowed)(void *context); /* whether a graph with it may be launched; may be NULL */
    cu_event event;
    uint64_t ticket;
    int branch, node; /* in a graph: whose task it is; which record it is or waits for */
    cu_graph_exec graph;
    struct graph_run *graph_run;
    struct task *next;
    _Alignas(16) char args[]; /* of a kernel */
} task;

/* The tasks of several streams, in the order in which they were put in. Branch 0 is the stream that began. */
struct cu_graph_st {
    task *first, **end;
    int uses;
    uint64_t number;
    cu_stream origin;
    bool invalid;
    int branches, records, tasks[BRANCHES];
    struct cu_graph_st *next;
};
/* One launch: which records were reached. */
typedef struct graph_run {
    int uses;
    bool done[];
} graph_run;
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
    cu_graph capture;               /* NULL: it does not capture */
    int branch, known[BRANCHES];    /* of the capture: which it is; the tasks that are before its next one */
    cu_stream beside[BRANCHES - 1]; /* they run the other branches of graphs; NULL: not yet needed */
    int gpu;
    uint64_t drawn, number, launched;
    struct cu_stream_st *next;
};

extern cu_stream shim_streams;

/* (all under the lock) */
task *shim_new_task(kind k, size_t arg_bytes);
void shim_free_task(task *t);
/* Into the stream, or into what it captures. */
cu_result shim_put(cu_stream s, task *t);
/* A thread that runs tasks; not in the list. NULL: out of memory. */
cu_stream shim_new_stream(void);
/* Into the stream's thread, past its capture. */
void shim_append(cu_stream s, task *t);
void shim_run_task(cu_stream s, task *t);
void shim_run_graph(cu_stream s, task *t);
/* An event that is recorded, and awaited, where a capture has to do with it. */
cu_result shim_record_captured(cu_stream s, cu_event e);
cu_result shim_await_captured(cu_stream s, cu_event e);
void shim_drop_run(graph_run *r);
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
        if ((s)->capture && (s)->capture->invalid)                                                      \
            return shim_leave(901);                                                                     \
    } while (0)
