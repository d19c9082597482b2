/* collective.h - collectives, described once and then started and waited for without allocating. */
#pragma once
#include "lockstep/types.h"
#include "window.h"

typedef enum ls_collective_kind {
    /* my slice [count] of type `from` -> result [n * count] of type `to`, slice of position p at p * count */
    LS_ALL_GATHER,
    /* operand [n * count] of type `from` -> result [count] of type `to`: the sum over members of my slice */
    LS_REDUCE_SCATTER,
    /* operand [count] of type `from` -> result [count] of type `to`; in place allowed when the types agree */
    LS_ALL_REDUCE,
    LS_ALL_REDUCE_MAX,  /* f32 or f64, NaN wins */
    LS_ALL_REDUCE_WIDE, /* operand 128-bit integers as pairs of i64, low first: exact sum. count in i64 */
} ls_collective_kind;
const char *ls_collective_name(ls_collective_kind k); /* "all_gather" ... */

typedef struct ls_collective_desc {
    ls_collective_kind kind;
    ls_axis *axis;
    int64_t count; /* elements, as above */
    ls_dtype from, to;
    ls_dtype via; /* type of a sum (f32, f64, bf16, f16): operands and every partial sum are rounded to it */
    const ls_window
        *window;   /* that contains the operand, over an axis that contains `axis` (usually the world) */
    size_t offset; /* of the operand in every part of it */
    void *result;  /* anywhere in this rank's memory. all_gather: NULL with map_to */
    bool settled; /* every member finished writing the operand before an earlier fence: no wait before reading
                   */
    /* all_gather into memory that the members share: each member writes its slice, converted, and the result
     * is that memory. NULL: none. */
    char *map_to;
    /* with map_to: my slice [count] of type `from`, in memory of this rank; `window` and `offset` are not
     * used */
    const char *map_from;
    int threads;
    const char
        *label; /* for messages: "all_gather of unit encoder.layers.encoder_layer_3"; stays the caller's */
} ls_collective_desc;

typedef struct ls_collective ls_collective;
/* Allocates what the collective will ever need. LS_E_ARG for types or an operand that do not fit,
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
