/* split_texts.h - the texts that a T5 makes for the samples of a split, beside their targets. */
#pragma once
#include "text/rouge.h"
#include "text_model.h"

typedef struct ls_sample_text {
    int64_t sample; /* its number in the split */
    const char *text, *target;
    size_t text_bytes, target_bytes;
} ls_sample_text;

typedef struct ls_split_opts {
    int64_t first, count; /* samples; fewer where the split ends */
    ls_generate_opts how;
    int64_t beams;
    ls_status (*on_text)(void *context, const ls_sample_text *t); /* in the order of the split */
    void *context;
} ls_split_opts;

/* LS_E_USAGE if the model is no T5. Local. */
ls_status ls_split_texts(ls_text_model *m, const ls_dataset *set, const ls_split_opts *o, const ls_ui *ui);

/* Means over `samples` texts. */
typedef struct ls_split_rouge {
    ls_rouge mean;
    int64_t samples;
    double seconds;
} ls_split_rouge;
/* Of the whole evaluation split; o->on_text does not count. Local. */
ls_status ls_split_rouge_of(ls_split_rouge *out, const ls_recipe_arg *target, const ls_split_opts *o,
                            const ls_ui *ui);
