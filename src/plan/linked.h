/* linked.h - a collective over a link (device/link.h): what travels, and where it lies. Everything happens
 * between the collective's start and its wait, in the memory of operand and result, which is this rank's
 * until then, and in scratch memory:
 *
 *   all_gather      this rank's slice is converted into its place; gather.
 *   reduce_scatter  exchange: slice p of my operand goes to member p; the slices that came are added.
 *   all_reduce      exchange of pieces, each member adds one, gather. A small operand: all of it is gathered,
 *                   and each member adds for itself.
 *
 * Messages (send, receive) go through host memory all the same: tasks of a link meet, so two members that
 * both send first would wait for each other. */
#pragma once
#include "plan.h"

/* an all_reduce whose operands have at most so many bytes, in all ranks, gathers them */
enum { LS_LINKED_WHOLE = 64 << 10 };

typedef struct ls_linked {
    ls_dtype travels; /* type in which elements are sent */
    bool whole;       /* an all_reduce that gathers operands */
    int64_t each;     /* elements of a member's piece */
    size_t piece;     /* bytes of a piece in type `travels` */
    size_t made;      /* all_reduce: bytes of a piece in the result's type */
    /* The uses of scratch memory. sends: it contains the operand, converted or filled up to whole pieces.
     * receives: pieces arrive there. makes: the sums of all pieces are gathered there instead of in the
     * result. */
    bool sends, receives, makes;
    size_t at_sent, at_received, at_made; /* offsets in scratch memory, for each use */
    size_t bytes;                         /* bytes of scratch memory */
} ls_linked;
static inline bool ls_is_message(const ls_plan_collective *c)
{
    return c->kind == LS_SEND || c->kind == LS_RECEIVE;
}
/* Whether it goes over a link. */
static inline bool ls_goes_linked(const ls_plan *p, const ls_plan_collective *c)
{
    return p->device.linked && !ls_is_message(c);
}
/* Of an all_to_all that does not, on a device whose memory is its own: where its offsets lie in its staging
 * memory (staging.c). */
size_t ls_staged_begins(const ls_plan *p, const ls_plan_collective *c);
ls_linked ls_linked_of(const ls_plan_collective *c);
