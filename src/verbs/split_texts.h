/* split_texts.h - the texts that a T5 makes for the samples of a split, beside their targets. */
#pragma once
#include "base/metric_list.h"
#include "comm/rounds.h"
#include "split_choice.h"
#include "text_model.h"

typedef struct ls_sample_text {
    int64_t sample; /* its number in the split */
    const char *text, *target;
    size_t text_bytes, target_bytes;
} ls_sample_text;

typedef struct ls_split_opts {
    ls_split_choice samples; /* fewer where the split ends */
    ls_generate_opts how;
    int64_t beams;
    ls_group *group; /* whose ranks share the samples; NULL: one process does all */
    /* LS_E_STOPPED before the next batch, on all ranks, if any is asked to stop; NULL: never */
    ls_rounds *rounds;
    /* Called in the order of `samples`, on the rank that generated the text. */
    ls_status (*on_text)(void *context, const ls_sample_text *t);
    /* Called on every rank when each has generated its next share: of `n` samples, rank after rank, at most
     * `each` on a rank. Collective. NULL: nothing is called. */
    ls_status (*on_round)(void *context, int64_t n, int64_t each);
    void *context;
} ls_split_opts;

/* LS_E_USAGE if the model is not a T5. Collective over the group; local without one. */
ls_status ls_split_texts(ls_text_model *m, const ls_dataset *set, const ls_split_opts *o, const ls_ui *ui);

typedef struct ls_texts_made {
    int64_t texts;
    double seconds; /* that generating took */
} ls_texts_made;
/* Compares the texts with their targets (text/rouge.h) and adds the means to `metrics`; o->on_text and
 * o->on_round do not count. The means do not depend on the number of ranks, and every rank gets them.
 * Collective over the group; local without one. */
ls_status ls_split_compare(ls_metric_list *metrics, ls_texts_made *made, ls_text_model *m,
                           const ls_dataset *set, const ls_split_opts *o, const ls_ui *ui);
