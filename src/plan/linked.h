/* linked.h - a collective over a link (device/link.h): what travels, and where it lies. Everything happens
 * between the collective's start and its wait, in the memory of operand and result, which is this rank's
 * until then, and in scratch memory:
 *
 *   all_gather      this rank's slice is converted into its place; gather.
 *   reduce_scatter  exchange: slice p of my operand goes to member p; the slices that came are added.
 *   all_reduce      exchange of pieces, each member adds one, gather. A small operand: all of it is gathered,
 *                   and each member adds for itself. */
#pragma once
#include "plan.h"

enum { LS_LINKED_WHOLE = 64 << 10 }; /* bytes of all operands of an all_reduce that are gathered */

typedef struct ls_linked {
    ls_dtype travels; /* what is sent */
    bool whole;       /* an all_reduce that gathers operands */
    int64_t each;     /* elements of a member's piece */
    size_t piece;     /* its bytes as it travels */
    size_t made;      /* all_reduce: its bytes in the result's type */
    /* Whether scratch memory stands for the operand (it is converted, or not of whole pieces); whether it
     * receives; whether the sums of all pieces are gathered there, instead of in the result. */
    bool sends, receives, makes;
    size_t at_sent, at_received, at_made; /* offsets there, if so */
    size_t bytes;                         /* of scratch memory */
} ls_linked;
ls_linked ls_linked_of(const ls_plan_collective *c);
