/* search.h - chooses the tokens of a text from logits: the most likely token, a random one, or the best of
 * several beams, as generate of transformers does. A search is for one prompt. It knows no model. */
#pragma once
#include "lockstep/generate.h"

typedef struct ls_search ls_search;

typedef struct ls_search_opts {
    const ls_generate_opts *how; /* must outlive the search; `tokens`, `prompt` and `on_token` are not used */
    int64_t beams, vocabulary;
    int64_t most;          /* the most tokens to make */
    const int32_t *before; /* [n_before]: the tokens before the text; they count for no_repeat */
    int64_t n_before;
    /* for random numbers: position of the first token to make, and number of the prompt */
    int64_t position, prompt;
    int threads; /* that share the beams; they change nothing */
} ls_search_opts;

ls_status ls_search_create(ls_search **out, const ls_search_opts *o);
void ls_search_destroy(ls_search **s); /* nulls *s; null is fine */

/* Chooses the next token of every beam. The logits of beam k begin at logits[k * apart]; apart 0: all beams
 * are still equal. The new beam k continues the old beam from[k] with token next[k]. *over: the search has
 * ended. LS_E_NUMERIC if the logits are not finite. */
ls_status ls_search_advance(ls_search *s, const float *logits, int64_t apart, int32_t *next, int32_t *from,
                            bool *over);

/* The text so far, or the chosen one when the search has ended. It has no end token. */
const int32_t *ls_search_text(const ls_search *s, int64_t *n);
bool ls_search_ended(const ls_search *s); /* whether an end token has ended the text */
