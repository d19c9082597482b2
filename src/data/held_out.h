/* held_out.h - selects which of n documents, pairs, pictures or rows are kept for evaluation if there are no
 * files for it. */
#pragma once
#include "lockstep/data.h"

/* Marks round(fraction * n) of them, at least one and not all, spread over the set. The choice does not
 * depend on the seed, so that runs can be compared. False: n < 2. */
bool ls_mark_evaluation(char *marks, int64_t n, double fraction);

/* A sample that may be held out. */
typedef struct ls_candidate {
    uint64_t key; /* a hash of the sample: of its file name, or of the values of its row */
    int64_t sample;
    int32_t class;
} ls_candidate;

/* The samples of a split, *n of them, ascending, malloc'ed. Of each class with c samples round(fraction * c)
 * are for evaluation, at least one and never all: those with the least keys. So a sample stays where it is
 * when others are added or taken away, but for a few at the limit. Samples with the same key are in the same
 * split. Sorts `all`. LS_E_USAGE: no class has two samples; `what` begins the message. */
ls_status ls_held_out(int64_t **out, int64_t *n, ls_split split, double fraction, ls_candidate *all,
                      int64_t total, const char *what);
