/* dcp_ways.h - which entries of a DCP index are wanted, and their names: those of the model, or those of its
 * optimizer. planner_data gives for each entry its path ("way") through the dicts and lists that were saved.
 * Private to src/ckpt. */
#pragma once
#include "base/arena.h"
#include "base/str.h"
#include "ckpt/dcp.h"
#include "ckpt/pickle.h"

typedef struct ls_dcp_way {
    const ls_pickle *key, *path;
    /* where its path continues after the prefix: after `at` steps, and `skip` bytes of the next word */
    size_t at, skip;
    int64_t order; /* position in planner_data, which has the order of the state dict */
    bool inside;   /* its path begins with the prefix */
} ls_dcp_way;

typedef struct ls_dcp_ways {
    ls_dcp_way *list; /* sorted by key; each path has at least one step */
    size_t n;
    ls_str prefix;  /* "", or ends with a dot */
    bool optimizer; /* the optimizer's state is wanted instead of the model */
    /* What is wanted lies under this word, `depth` steps after the prefix. NULL: all of a model, nothing of
     * an optimizer. */
    const char *under;
    size_t depth;
    const ls_dcp_ask *ask;
} ls_dcp_ways;

/* planned NULL: the directory has no planner_data. False: it is not a dict of names and paths. */
bool ls_dcp_ways_read(ls_dcp_ways *w, ls_arena *scratch, const ls_pickle *planned, const ls_dcp_ask *ask);
void ls_dcp_ways_release(ls_dcp_ways *w);
/* The name of an entry if it is wanted, and its position among the wanted ones if planner_data tells. False:
 * it is not wanted. If an entry has the number of a parameter that does not exist, the name is "". */
bool ls_dcp_ways_name(ls_str *name, int64_t *order, const ls_dcp_ways *w, const ls_pickle *key);
/* What the names begin with, for messages: "\"app\", \"ema\"". */
void ls_dcp_ways_begin(ls_str *out, const ls_dcp_ways *w);
