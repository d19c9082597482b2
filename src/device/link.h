/* link.h - a link: a way between the memories of several ranks' devices that needs no host. Device cuda has
 * one by NCCL.
 *
 * Each member is a process with a device. A link moves bytes; what is to be added, the device's own kernel
 * adds afterwards (combine), in the balanced tree of comm/reduce.c. So results have the same bits as through
 * host memory.
 *
 * gather, exchange and combine are tasks of a queue (queue.h), and may be captured. All members put the same
 * gathers and exchanges of a link into a queue in the same order, with the same sizes; each ends when the
 * members' tasks have met. A link's tasks are put in by one thread, and into one queue. */
#pragma once
#include "device.h"
#include "queue.h"

enum { LS_LINK_ID = 128, LS_LINK_PIECES = 1024 /* most pieces of one combination */ };

/* Adds n pieces, each of `count` elements of type `from`, the next one `stride` bytes behind. Pieces are
 * rounded to `via`, and so is each partial sum; the result is stored as `to`. n may be 1: it is converted. */
typedef struct ls_link ls_link;
typedef struct ls_combination {
    enum { LS_COMBINE_SUM, LS_COMBINE_MAX, LS_COMBINE_WIDE } by; /* as LS_BY_SUM .. of comm/reduce.h */
    ls_dtype from, via,
        to; /* f32, bf16, f16; MAX: f32 three times; WIDE: i64 three times, pairs, low first */
    int n;
    size_t stride;
    const void *in;
    void *out;     /* may be the first piece if the types are equal */
    int64_t count; /* WIDE: an even number */
} ls_combination;

struct ls_link_ops {
    /* What it is, for people: "NCCL 2.27.3". LS_E_UNSUPPORTED says why there is none. Opens what it needs,
     * once. Constant. */
    ls_status (*find)(const char **name, const ls_device *d);
    /* Made by one member, for all of them. */
    ls_status (*invite)(unsigned char id[LS_LINK_ID]);
    /* Blocks until all n members have joined, on GPUs of their own; n may be 1. LS_E_DEVICE. Collective. */
    ls_status (*join)(ls_link **out, const ls_device *d, const unsigned char id[LS_LINK_ID], int n,
                      int position);
    /* After `wait` of the queue that had its tasks, and `discard` of recordings of them: else it blocks until
     * they are gone. Local if the link was severed, else collective. No other thread may use the link. */
    void (*leave)(ls_link **l);
    /* A member is lost: tasks that wait for it end soon, whatever they have moved, and later ones do nothing,
     * nor does a replay of a recording that has one. From any thread; does not block. */
    void (*sever)(ls_link *l);
    /* *why (valid until the next call): what the link says has failed by itself, or NULL. Does not block. */
    void (*ask)(ls_link *l, const char **why);

    /* ---- tasks */
    /* `all` has n pieces of `bytes`; this member's, at its position, is there. Then all are. */
    void (*gather)(ls_queue *q, ls_link *l, void *all, size_t bytes);
    /* Piece p of `from` goes to member p; piece p of `to` comes from it. They do not overlap. */
    void (*exchange)(ls_queue *q, ls_link *l, const void *from, void *to, size_t bytes);
    void (*combine)(ls_queue *q, const ls_combination *c);
};
