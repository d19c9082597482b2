/* place.h - what the files of the placement pass share. Private to src/passes. */
#pragma once
#include "ops/rule.h"
#include "passes.h"
#include "redistribute.h"

/* A parameter that is split along `dim`; word NULL: it is not. The word is of the list that names it. */
typedef struct ls_seed {
    const char *word;
    int dim;
} ls_seed;
/* Fills out[], per value. LS_E_USAGE for a word that names nothing, for what the ranks do not divide, and
 * where nothing is left to split. */
ls_status ls_seeds(ls_seed *out, const ls_graph *g, const ls_parallel *p, const ls_place_axis *axis);

/* The walk: `seeds` per value. outputs[k]: how output k then lies; NULL: a split one is refused. */
ls_status ls_place(ls_graph **g, const ls_parallel *p, const ls_seed *seeds, const ls_place_axis *axis,
                   ls_placement *outputs);
