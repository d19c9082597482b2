/* remote_slices.h - slices of a vector, and what the movements of slices and of sums have in common. */
#pragma once
#include "remote_flight.h"
#include "remote_ways.h"

/* [0, total) elements in equal parts, one for each position; the last ones are shorter or empty. */
typedef struct ls_slices {
    int64_t total, part;
} ls_slices;

int64_t ls_split_begin(ls_slices s, int64_t p);
/* Elements of position p's slice that pass k has. */
int64_t ls_split_in_pass(ls_slices s, int p, int64_t k, int64_t step);

/* A turn: in pass k, with machine m ^ t. Every two machines have the same turns with each other. */
typedef struct ls_turn {
    int64_t k;
    int t, n; /* n: its number */
} ls_turn;
/* The next turn; false: it was the last. Begin with { .t = 0, .n = -1 }. */
bool ls_turn_next(ls_turn *at, const ls_route *t, const ls_way *w);

ls_status ls_slices_put(ls_remote_group *r, ls_flight *f, const ls_route *t, int machine, const void *send,
                        void *receive, size_t bytes);
/* A barrier of the members on this machine. */
ls_status ls_slices_meet(ls_route *t, const char *what);
/* Block 0 of `blocks` goes to all machines: afterwards block (h - m) mod M is machine h's. Message i is sent
 * to the machine 2^i before this one, and carries all blocks that this one has so far. */
ls_status ls_slices_double(ls_remote_group *r, const ls_route *t, char *blocks, size_t bytes,
                           const char *what);
int ls_slices_block(const ls_route *t, int machine); /* its number in `blocks` */
