/* collective.h - collectives, described once and then started and waited for without allocating. */
#pragma once
#include "lockstep/types.h"
#include "window.h"

typedef enum ls_collective_kind {
    /* The operand is this rank's slice: [count] of type `from`. The result is [n * count] of type `to`, with
     * the slice of position p from p * count on. */
    LS_ALL_GATHER,
    /* operand [n * count] of type `from` -> result [count] of type `to`: this rank's slice of the sum over
     * the members */
    LS_REDUCE_SCATTER,
    /* operand [count] of type `from` -> result [count] of type `to`: the sum over the members. The result may
     * be the operand's memory if the types are equal. */
    LS_ALL_REDUCE,
    LS_ALL_REDUCE_MAX,  /* the maximum of f32 or f64; NaN is the largest */
    LS_ALL_REDUCE_WIDE, /* the exact sum of 128-bit integers, each two i64, the low one first; count in i64 */
    /* One member's [count] of type `from` to another member, through a mailbox: LS_MAILBOX_BYTES(bytes) at
     * `offset` of the sender's part of the window. LS_SEND waits until the receiver has taken the mailbox's
     * last message, LS_RECEIVE until there is a message. Only these two members call. A mailbox of a rank on
     * another machine is taken when the message has left. */
    LS_SEND,
    LS_RECEIVE,
} ls_collective_kind;
const char *ls_collective_name(ls_collective_kind k); /* "all_gather" ... */

typedef struct ls_collective_desc {
    ls_collective_kind kind;
    ls_axis *axis;
    int64_t count; /* elements: see ls_collective_kind */
    ls_dtype from, to;
    ls_dtype via; /* type of a sum (f32, f64, bf16, f16): operands and every partial sum are rounded to it */
    /* The operand is at this offset of each member's part of the window. The window's axis contains `axis`;
     * it is usually the world. */
    const ls_window *window;
    size_t offset;
    /* in this rank's memory; NULL with map_to, and of a send */
    void *result;
    const void *operand; /* of a send: in this rank's memory */
    int peer;            /* of a send or a receive: the other member's position */
    int mailbox;         /* and the number of its mailbox, one for each between the same two ranks */
    /* [members]: each member's own offset, if they have different programs; NULL: `offset` for all */
    const size_t *offsets;
    /* All members finished writing their operands before an earlier fence, so they are read without waiting.
     */
    bool settled;
    /* all_gather into memory that all members share: each member writes its slice, converted. With map_to,
     * the operand is map_from ([count] of type `from`, in this rank's memory), and window and offset are not
     * used. NULL: an ordinary all_gather. */
    char *map_to;
    const char *map_from;
    int threads;
    /* for messages: "all_gather of unit encoder.layers.encoder_layer_3"; the caller keeps it alive */
    const char *label;
} ls_collective_desc;

/* Counters of sender and receiver on a cache line of their own, then the message. */
#define LS_MAILBOX_BYTES(bytes) (128 + ((bytes) + 127) / 128 * 128)

typedef struct ls_collective ls_collective;
/* Makes a collective, with all memory that it will need. LS_E_ARG for types or an operand that do not fit,
 * LS_E_MEMORY. Local. */
ls_status ls_collective_create(ls_collective **out, const ls_collective_desc *d);
void ls_collective_destroy(ls_collective **c); /* local */
/* All members start the collectives of an axis in the same order, and wait for them in the same order. Each
 * start is followed by its wait before its next start. Collective over the axis. */
ls_status ls_collective_start(ls_collective *c);
ls_status ls_collective_wait(ls_collective *c);
/* Bytes that this rank receives: (n-1) slices for all_gather and reduce_scatter, twice that for all_reduce.
 * `travels` is the type that is sent: the smaller of from and to for gathers, via for sums. plan and explain
 * print this number and the ledger counts it. */
double ls_collective_bytes(ls_collective_kind k, int n, int64_t count, ls_dtype travels);
