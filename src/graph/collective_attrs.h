/* collective_attrs.h - the constants of collectives, which a session runs (src/execute) and no kernel.
 *
 * group: name of a group of ranks (lockstep/mesh.h); ranks: how many they are; unit: what is communicated,
 * for people. */
#pragma once
#include "lockstep/types.h"
#include "meaning.h"

/* clang-format off */
/* all_gather: type of the result; type in which its gradient is added; 1: it is a mapping */
typedef struct ls_gather_attrs { const char *group, *unit; int64_t ranks, to, via, map; ls_identity is; }
    ls_gather_attrs;
/* reduce_scatter, all_reduce: type of the result; type to which sums are rounded */
typedef struct ls_reduce_attrs { const char *group, *unit; int64_t ranks, to, via, how; } ls_reduce_attrs;
/* replicate: its gradient is summed over the group */
typedef struct ls_replicate_attrs { const char *group, *unit; int64_t ranks, via; } ls_replicate_attrs;
/* send, receive: the other rank's position in the group; the mailbox's offset in the sender's part of the
 * mailboxes, of which each rank has `room` bytes, and its number there; what is sent */
typedef struct ls_message_attrs { const char *group, *unit; int64_t ranks, peer, offset, number, room;
                                  ls_type type; }
    ls_message_attrs;
/* fork: type in which the gradient is added to others */
typedef struct ls_fork_attrs { int64_t to; } ls_fork_attrs;
/* clang-format on */
/* to: the operand's own type, also if a pass changes it. Of a fork: the type to which the sums of its unit's
 * gradients are rounded (passes/units.c sets it). */
enum { LS_TO_SAME = 31, LS_TO_REDUCE = 30 };
/* all_reduce. wide: adds 128-bit integers, each two i64. shared: all ranks use the sum as one value, so its
 * gradient is complete on each rank. one: the operands, all of this rank, are equal, and the result is one of
 * them. */
enum { LS_HOW_SUM, LS_HOW_MAX, LS_HOW_WIDE, LS_HOW_SHARED, LS_HOW_ONE };
