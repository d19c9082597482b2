/* internal.h - the parts of a session, shared by the files of this folder. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include "device/queue.h"
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
#define LS_WATCH_ARENA 1 /* arena memory outside of lifetimes is made unusable while a program runs */
#endif

typedef struct ls_call {     /* a kernel call or a half of a collective, with all addresses */
    const ls_kernel *kernel; /* NULL: half of a collective */
    ls_kernel_args args;
    ls_session *session;
    ls_part part;
    ls_collective *collective; /* NULL: a kernel, or a gather that is a mapping, where nothing moves */
    const char *doing;         /* for messages of other ranks; NULL with one rank */
} ls_call;

/* The memory of a named value: a range of a region, or a part of another named value's memory (an output that
 * is a view of a parameter). */
typedef struct ls_named {
    const char *name;
    ls_identity is;
    ls_tensor tensor; /* its data is set when all memory is laid out */
    ls_memory memory;
    int owner;            /* index in `names` of the value that contains this one; -1: none */
    bool shared;          /* in the window */
    int axis;             /* NODE: the axis whose ranks share it */
    size_t offset, bytes; /* offset in the region, or in the owner */
    int region;           /* with `at`, its place; set when all memory is laid out */
    size_t at;
} ls_named;

/* The regions of places: each ls_memory, the spares, the names that ranks share, and NODE memory of axis 0,
 * 1, .. */
enum { LS_REGION_SPARE = LS_MEM_COUNT, LS_REGION_SHARED, LS_REGION_NODE };

typedef struct ls_spare {
    ls_type type;
    size_t offset;
} ls_spare;

typedef struct ls_program {
    ls_session *session;
    ls_plan *plan;
    ls_call *calls;
    ls_tensor *operands; /* of all calls, in order */
    /* Of the latest profiled run: starts and durations of the steps (2 * n_steps), and ls_now() at its
     * beginning. */
    double *times, began;
    char **where;                /* [allocations]: their addresses */
    ls_collective **collectives; /* [plan->collectives] */
    /* Arena allocations by their first step: born[born_at[i]] to born[born_at[i + 1] - 1] begin with step i;
     * by their last step in the same way. */
    int *born, *born_at, *dead, *dead_at;
} ls_program;

typedef struct ls_bound {
    ls_tensor *operand;
    size_t offset; /* bytes from the start of the input */
} ls_bound;

struct ls_binding {
    char *own; /* the session's own memory for the input */
    size_t bytes;
    bool copies;
    int n;
    ls_bound *list; /* of all programs */
};

struct ls_session {
    ls_arena arena;          /* of the session's records; tensors are in `memory` */
    const ls_queue_ops *ops; /* of the plans' device */
    ls_queue *queue;
    int64_t waits;
    int n_programs;
    ls_program *programs;
    int n_spares;
    ls_spare *spares;
    ls_named *names;
    int n_names;
    int *table;
    uint32_t table_mask; /* mask of a hash table with open addressing: index in `names` + 1 */
    /* region: where each ls_memory begins; SYMMETRIC is in the window, after the shared names */
    char *memory, *region[LS_REGION_SHARED];
    size_t bytes, region_bytes[LS_REGION_SHARED];
    struct ls_ranks *ranks; /* NULL: one rank */
    bool profile;
    int bad_step;       /* of the latest run: the first with a number that is not finite; -1: none */
    pthread_t prefault; /* a thread that takes page faults ahead (session.c) */
    bool prefaulting;
    _Atomic bool closing, touched; /* touched: the thread has finished */
};

/* session.c: the index in `names` of the value with this identity and name; -1: none. Where a region begins.
 */
int ls_session_lookup(const ls_session *s, ls_identity is, const char *name);
char *ls_session_region(const ls_session *s, int region);

char *ls_place_address(const ls_place *p); /* places.c */

/* The part of a session that concerns its group (ranks.c). */
typedef struct ls_ranks {
    ls_group *group;
    ls_parallel parallel;
    ls_axis *world;      /* for the fence between programs */
    ls_window *window;   /* holds shared names, then the symmetric arena */
    size_t shared_bytes; /* bytes of the shared names */
    int n_axes;
    /* Groups that the plans name, in order of appearance. */
    struct {
        char name[64];
        ls_axis *axis;
        ls_window *node;
        size_t node_bytes;
    } * axes;
    char doing[128];
    size_t prefix; /* length of the part of `doing` that ls_session_label set */
} ls_ranks;
ls_status ls_ranks_create(ls_session *s, int n_plans, ls_plan *const *plans, ls_group *group,
                          const ls_parallel *parallel);
ls_status ls_ranks_map(ls_session *s); /* makes the windows, when sizes are known */
/* Makes the collectives of a program, when addresses are known. */
ls_status ls_ranks_prepare(ls_session *s, ls_program *g);
void ls_ranks_destroy(ls_session *s);
int ls_ranks_axis(const ls_ranks *r, const char *name);
void ls_ranks_doing(ls_ranks *r, const char *what);

/* execute.c: marks arena memory as dead, and memory that is returned to the system as usable. */
void ls_watch_dead(char *at, size_t bytes);
void ls_watch_end(char *at, size_t bytes);
