/* internal.h - a session's insides, shared by session.c (memory and names) and execute.c (running). */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include "plan/node.h"
#include "plan/strides.h"
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

typedef struct ls_call {                     /* one kernel call, everything resolved */
    void (*run)(const ls_kernel_args *args); /* NULL: half a collective */
    ls_kernel_args args;
    ls_collective *collective; /* NULL also for a gather that is an alias: nothing moves */
    const char *doing;         /* for the other ranks' messages; NULL with one rank */
} ls_call;

/* A name's memory: its own range of a region, or a part of another name's (an output that is a view of a
 * parameter). */
typedef struct ls_named {
    const char *name;
    ls_identity is;
    ls_tensor tensor; /* data is set when all memory is laid out */
    ls_memory memory;
    int owner;            /* names index, -1: own memory */
    bool shared;          /* in the window */
    int axis;             /* NODE: whose ranks share it */
    size_t offset, bytes; /* in the region, or in the owner */
} ls_named;

typedef struct ls_program {
    ls_plan *plan;
    ls_call *calls;
    ls_tensor *operands; /* of all calls, in order */
    /* of the latest profiled run: 2 * n_steps starts and durations; ls_now() at its beginning */
    double *times, began;
    char **where;                /* address per allocation */
    ls_collective **collectives; /* as plan->collectives */
    /* arena allocations by first and last step: indices from at[i] to at[i + 1] */
    int *born, *born_at, *dead, *dead_at;
} ls_program;

typedef struct ls_bound {
    ls_tensor *operand;
    size_t offset; /* bytes, in the input */
} ls_bound;

struct ls_binding {
    char *own; /* the input's memory in the session */
    size_t bytes;
    bool copies;
    int n;
    ls_bound *list; /* of all programs */
};

struct ls_session {
    ls_arena arena; /* the records; tensors live in `memory` */
    int n_programs;
    ls_program *programs;
    ls_named *names;
    int n_names;
    int *table;
    uint32_t table_mask;                 /* open addressing over names: index + 1 */
    char *memory, *region[LS_MEM_COUNT]; /* by ls_memory; SYMMETRIC: in the window, behind the shared names */
    size_t bytes, region_bytes[LS_MEM_COUNT];
    struct ls_ranks *ranks; /* NULL: one rank */
    bool profile;
    pthread_t prefault; /* session.c: takes page faults ahead */
    bool prefaulting;
    _Atomic bool closing, touched; /* touched: the thread is through */
};

/* ranks.c: what a session has of its group. */
typedef struct ls_ranks {
    ls_group *group;
    ls_parallel parallel;
    ls_axis *world;      /* fences between programs */
    ls_window *window;   /* shared names, then the symmetric arena */
    size_t shared_bytes; /* of the names */
    int n_axes;
    /* groups that the plans name, in order of appearance */
    struct {
        char name[64];
        ls_axis *axis;
        ls_window *node;
        size_t node_bytes;
    } * axes;
    char doing[128];
    size_t prefix; /* of `doing`: what ls_session_label said */
} ls_ranks;
ls_status ls_ranks_create(ls_session *s, int n_plans, ls_plan *const *plans, ls_group *group,
                          const ls_parallel *parallel);
ls_status ls_ranks_map(ls_session *s); /* the windows, once sizes are known */
/* collectives of a program, once addresses are known */
ls_status ls_ranks_prepare(ls_session *s, ls_program *g);
void ls_ranks_destroy(ls_session *s);
int ls_ranks_axis(const ls_ranks *r, const char *name);
void ls_ranks_doing(ls_ranks *r, const char *what);

/* execute.c: arena memory outside any lifetime, and memory that goes back to the system. */
void ls_watch_dead(char *at, size_t bytes);
void ls_watch_end(char *at, size_t bytes);
