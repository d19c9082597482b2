/* collective_own.h - the struct of a collective. Private to src/comm. */
#pragma once
#include "axis_own.h"
#include "collective.h"

struct ls_collective {
    ls_collective_desc d;
    ls_axis *axis;
    ls_dtype travels;     /* type in which a slice is sent */
    const char **operand; /* by position, as mapped here; NULL: on another machine */
    const char **pieces;  /* by position: scratch */
    uint32_t ready;       /* ticks that every member has when its operand is ready */
    bool in_place;
    bool stream;        /* the result is larger than the caches */
    int64_t bytes;      /* for the ledger */
    struct ls_job *job; /* for the communication thread (remote_types.h); NULL: memory is enough */
};
