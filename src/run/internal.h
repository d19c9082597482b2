/* internal.h - a session's insides, shared by session.c (memory and names) and execute.c (running). */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include "plan/internal.h"
#include "session.h"

#if defined(__SANITIZE_ADDRESS__)
#define LS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LS_ASAN 1
#endif
#endif
#if defined(LS_DEV) || defined(LS_ASAN)
#define LS_WATCH_ARENA 1 /* memory of dead values is made unusable while a step runs */
#endif

typedef struct ls_call { /* one kernel call, everything resolved */
    void (*run)(const ls_kernel_args *args);
    ls_kernel_args args;
} ls_call;

/* A name's memory: its own range of a region, or a part of another name's (an output that is a view of a parameter). */
typedef struct ls_named {
    const char *name;
    ls_tensor tensor;     /* data is set when all memory is laid out */
    ls_memory memory;
    int owner;            /* names index, -1: own memory */
    size_t offset, bytes; /* in the region, or in the owner */
} ls_named;

typedef struct ls_program {
    ls_plan *plan;
    ls_call *calls;
    ls_tensor *operands;  /* of all calls, in order */
    double *times, began; /* of the latest profiled run: 2 * n_steps starts and durations; ls_now() at its beginning */
    char **where;         /* address per allocation */
    int *born, *born_at, *dead, *dead_at; /* arena allocations by first and last step: indices from at[i] to at[i + 1] */
} ls_program;

struct ls_session {
    ls_arena arena;       /* the records; tensors live in `memory` */
    int n_programs;
    ls_program *programs;
    ls_named *names; int n_names;
    int *table; uint32_t table_mask; /* open addressing over names: index + 1 */
    char *memory, *region[3];        /* by ls_memory */
    size_t bytes, region_bytes[3];
    bool profile;
    pthread_t toucher;    /* session.c: takes page faults ahead */
    bool touching;
    _Atomic bool closing, touched; /* touched: the thread is through */
};

/* execute.c: arena memory outside any lifetime, and memory that goes back to the system. */
void ls_watch_dead(char *at, size_t bytes);
void ls_watch_end(char *at, size_t bytes);
