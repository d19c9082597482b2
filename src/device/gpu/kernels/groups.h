/* groups.h - arguments of groups.cu: rows that go to one of several groups. Numbers of rows are data, so what
 * is not a row is NaN and never read. */
#pragma once
#include "types.h"

enum { GROUP_THREADS = 256 };

/* The k largest of n elements, of each row. */
typedef struct top_k_args {
    gpu_address x, values, numbers; /* numbers: i32 */
    i64 rows, n, k;
} top_k_args;

/* After a stable sort of rows by group: rows of no group are last, and have number `groups`. */
typedef struct group_places_args {
    gpu_address sorted, order, place, offsets; /* u32, i32, i32 [n]; i32 [groups + 1] */
    i64 n, groups;
} group_places_args;

/* received_groups: of the offsets of all ranks, [ranks][groups + 1], where the rows that come from each rank
 * for `own` groups begin, from group `first` on: [ranks * own + 1]. */
typedef struct received_groups_args {
    gpu_address begins, offsets; /* i32 */
    i64 ranks, groups, own, first;
} received_groups_args;

/* dispatch: row j of y is row order[j] / k of x. Words of a row; the bits of NaN, for 16-bit types twice. */
typedef struct dispatch_args {
    gpu_address x, order, y;
    i64 rows, words, k;
    u32 nan;
} dispatch_args;

/* combine: row i of y is the sum of rows place[i * k] .. place[i * k + k - 1] of x, in this order. */
typedef struct combine_args {
    gpu_address x, place, y;
    i64 rows, tokens, each, k; /* rows of x; rows of y; elements of a row */
} combine_args;
