/* remote_share.h - every position's slice goes to all positions. */
#pragma once
#include "remote_slices.h"

typedef struct ls_slice_share {
    ls_slices split;
    ls_dtype from, travels, to;
    const char *mine; /* [length of my slice] of type from */
    char *all;        /* [total] of type to */
    bool mapped;      /* `all` is one memory for the members on this machine */
    int threads;
} ls_slice_share;
size_t ls_share_bytes(void); /* of staging memory */
ls_status ls_remote_share(ls_remote_group *r, ls_route *t, const ls_slice_share *x, const char *what);
