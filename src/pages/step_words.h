/* step_words.h - the numbers of a step in words, for its page: cards, tables, and what `lockstep explain`
 * prints. Private to step_page.c. */
#pragma once
#include "memory_bands.h"
#include "page.h"
#include "step_page.h"

/* What is compared side by side. */
typedef struct ls_step_numbers {
    const char *name;      /* in the arena of ls_step_numbers_of */
    const char *kind;      /* of the times: "measured", "estimated"; NULL: not known */
    double seconds, waits; /* of a step; of its collectives what nothing overlaps */
    double received;       /* bytes */
    int64_t collectives;
    size_t total;                     /* bytes of memory of this rank, as packed */
    double at_peak[LS_BANDS];         /* bytes, at the moment with the most */
    const char *band_names[LS_BANDS]; /* constant */
} ls_step_numbers;

ls_status ls_step_numbers_of(ls_step_numbers *out, ls_arena *a, const ls_step_view *v,
                             const ls_memory_bands *m);

/* "rank 0 of 4 · dp=4, fsdp in 11 units · 1 × 32 samples of this rank · avx2, 2 threads" */
void ls_step_subtitle(ls_str *out, const ls_step_view *v);
void ls_step_cards(ls_str *out, const ls_step_numbers *n);
/* The figure: a name, a note for readers without scripts, a table of its lanes and one of its memory. */
ls_status ls_step_figure(ls_str *out, ls_arena *a, const ls_step_view *v, const ls_step_numbers *n,
                         const ls_memory_bands *m);
/* Where the time goes, by operation; collectives by unit; what `explain` prints. */
ls_status ls_step_tables(ls_str *out, ls_arena *a, const ls_step_view *v, const ls_step_numbers *n);
void ls_step_compare(ls_str *out, int n, const ls_step_numbers *all);
