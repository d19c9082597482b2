/* search.h - how a text is chosen token by token from what may follow: the likeliest token, one at random, or
 * the best of several beams, as transformers' generate does. A search is of one prompt and knows no model. */
#pragma once
#include "lockstep/generate.h"

typedef struct ls_search ls_search;

typedef struct ls_search_opts {
    const ls_generate_opts *how; /* must outlive the search; `tokens`, `prompt` and `on_token` do not count */
    int64_t beams, vocabulary;
    int64_t most;          /* tokens to make */
    const int32_t *before; /* [n_before]: what the text goes on from; it counts for no_repeat */
    int64_t n_before;
    int64_t position; /* of the first token to make, and number of the prompt: for random numbers */
    int64_t prompt;
} ls_search_opts;

ls_status ls_search_create(ls_search **out, const ls_search_opts *o);
void ls_search_destroy(ls_search **s); /* nulls *s; null is fine */

/* Takes the next token of every beam. logits[k * apart ..]: what may follow beam k; apart 0: all beams are
 * still one. Beam k goes on with token next[k] from beam from[k]. With *over there is nothing to go on with.
 * LS_E_NUMERIC: the logits are no numbers. */
ls_status ls_search_advance(ls_search *s, const float *logits, int64_t apart, int32_t *next, int32_t *from,
                            bool *over);

/* The text so far or, when the search is over, the chosen one: without its end token. */
const int32_t *ls_search_text(const ls_search *s, int64_t *n);
bool ls_search_ended(const ls_search *s); /* in an end token */
