/* dcp_ways.h - which entries of a DCP index are wanted, and under which names: those of the model, or of its
 * optimizer. planner_data says of every entry its way through the dicts and lists that were saved. Private to
 * src/ckpt. */
#pragma once
#include "base/arena.h"
#include "base/str.h"
#include "ckpt/dcp.h"
#include "ckpt/pickle.h"

typedef struct ls_dcp_way {
    const ls_pickle *key, *path;
    size_t at, skip; /* behind the prefix: at this step of the path, behind so many bytes of its word */
    int64_t order;   /* in planner_data, which is that of the state dict */
    bool inside;     /* it has the prefix */
} ls_dcp_way;

typedef struct ls_dcp_ways {
    ls_dcp_way *list; /* sorted by key; the paths are at least one step long */
    size_t n;
    ls_str prefix;     /* "", or with a dot at its end */
    bool optimizer;    /* its state is wanted, in place of the model */
    const char *under; /* what is wanted lies under this word, */
    size_t depth; /* so many steps behind the prefix. NULL: of a model everything, of an optimizer nothing */
    const ls_dcp_ask *ask;
} ls_dcp_ways;

/* planned NULL: a directory without planner_data. false: that is no dict of names and paths. */
bool ls_dcp_ways_read(ls_dcp_ways *w, ls_arena *scratch, const ls_pickle *planned, const ls_dcp_ask *ask);
void ls_dcp_ways_release(ls_dcp_ways *w);
/* The name of an entry that is wanted, and its place among them where planner_data tells; false: it is not. A
 * number of the optimizer's that has no parameter gives "". */
bool ls_dcp_ways_name(ls_str *name, int64_t *order, const ls_dcp_ways *w, const ls_pickle *key);
/* "\"app\", \"ema\"": what the names begin with, for messages */
void ls_dcp_ways_begin(ls_str *out, const ls_dcp_ways *w);
