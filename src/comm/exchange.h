/* exchange.h - the exchange of small data among the members of an axis, with a check that all of them make
 * the same call. */
#pragma once
#include "axis_own.h"

/* The kind of a rank's call. Ranks compare their calls before they touch each other's data. */
typedef enum ls_call_kind {
    LS_CALL_BARRIER,
    LS_CALL_ALL_GATHER,
    LS_CALL_ALL_REDUCE,
    LS_CALL_BROADCAST,
    LS_CALL_WINDOW
} ls_call_kind;
enum { LS_CALL_REFUSED = -1 };
typedef struct ls_rank_call {
    uint16_t kind, dtype, how; /* dtype, how: of an all_reduce */
    uint16_t root;             /* of a broadcast */
    int64_t count; /* elements of an all_reduce, bytes of the others; LS_CALL_REFUSED: this rank cannot make
                      the call */
} ls_rank_call;

/* Collects every member's `bytes` bytes (at most LS_STAGING_BYTES) in `all`, by position. It is also a
 * barrier. If `call` is not NULL, the members first compare their calls: if they differ, nothing moves, and
 * every member gets the same LS_E_ARG, which says what differs. `call` is NULL for further pieces of a call
 * that has been compared. Collective over the axis. */
ls_status ls_axis_exchange(ls_axis *a, const void *mine, size_t bytes, void *all, const ls_rank_call *call,
                           const char *what);
