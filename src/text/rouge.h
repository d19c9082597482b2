/* rouge.h - how much a text has in common with another (Lin 2004), as Google's rouge_score computes it
 * without a stemmer: words are runs of a-z and 0-9 of the text in lower case. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lockstep/status.h"

/* F-measures of common words, common pairs of words, and the longest common subsequence of words. */
typedef struct ls_rouge {
    double rouge1, rouge2, rougeL;
} ls_rouge;

ls_status ls_rouge_of(ls_rouge *out, const char *target, size_t n_target, const char *text, size_t n_text);

/* Whether a metric of this name, with or without "eval_", is one of generated texts: rouge1, rouge2, rougeL.
 */
bool ls_metric_of_texts(const char *name);
