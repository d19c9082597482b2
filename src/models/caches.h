/* caches.h - for models that continue a text token by token: their caches of keys and values, and the inputs
 * of the programs that use them (ls_decoder_build_cached in lockstep/models.h). */
#pragma once
#include "lockstep/graph.h"

typedef struct ls_caches {
    ls_value positions; /* of the tokens in the caches, i32 */
    /* The row whose text each row goes on from. LS_NONE: each from itself or, in a program that reads
     * prompts, the tokens belong to the first beam of each prompt. */
    ls_value from;
    int64_t prompts, beams, places; /* prompts 0: there are no caches */
} ls_caches;

/* Declares the inputs "ids.N", "positions.N" and, where they are needed, "from". *ids becomes the tokens. */
ls_caches ls_caches_begin(ls_graph *g, int64_t prompts, int64_t beams, int64_t tokens, int64_t places,
                          ls_value *ids);
/* Writes the rows of the new tokens, keys ("k") or values ("v"), to the layer's cache. Returns the whole
 * cache. */
ls_value ls_caches_write(ls_graph *g, const ls_caches *c, const char *what, int64_t layer, ls_value rows);
/* Of the rows x [prompts * tokens or so, F] no more than those that the input "row" names, the wanted ones.
 */
ls_value ls_caches_wanted(ls_graph *g, const ls_caches *c, ls_value x);
