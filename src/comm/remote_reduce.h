/* remote_reduce.h - every position gets the sum of its slice, or of everything, over all positions. */
#pragma once
#include "reduce.h"
#include "remote_slices.h"

typedef struct ls_parts {
    ls_slices split;
    enum ls_reduce_by by;
    ls_dtype from, via, to;
    const char **operand; /* by position; on other machines NULL */
    const char **in;      /* room for as many */
    char *out;            /* [length of my slice], or [total] of a whole one, of type to */
    int threads;
} ls_parts;
/* When it returns, all members of this machine have begun, and their operands are ready. */
ls_status ls_remote_reduce(ls_remote_group *r, ls_route *t, const ls_parts *x, const char *what);
/* The sum of all of the vector for every position: `out` may be the operand. */
ls_status ls_remote_reduce_whole(ls_remote_group *r, ls_route *t, const ls_parts *x, const char *what);

/* Bytes of the buffers for `machines`. */
size_t ls_reduce_sent_bytes(void);
size_t ls_reduce_received_bytes(int machines);
