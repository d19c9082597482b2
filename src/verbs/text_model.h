/* text_model.h - what a command needs to generate text: a model, its tokenizer and a generator with its
 * weights. */
#pragma once
#include "saved_model.h"

enum { LS_MAX_ENDS = 16 };

typedef struct ls_text_model {
    ls_saved_model saved; /* without a checkpoint: a Hugging Face folder */
    ls_setup setup;
    ls_tokenizer *tokenizer;
    ls_generator *generator;
    int32_t ends[LS_MAX_ENDS]; /* tokens that end a text; an empty prompt becomes the first of them */
    int n_ends;
    ls_group *group;     /* of ranks that split the layers; NULL: one process */
    ls_trainer *trainer; /* of a run that trains: has the weights; NULL: `saved` has them */
} ls_text_model;

/* Opens model, setup and tokenizer. The model may be a Hugging Face folder unless `trained`. LS_E_USAGE if
 * its model generates no text, or if `alone` and several workers are asked for. Local. */
ls_status ls_text_model_open(ls_text_model *m, const ls_recipe_arg *arg, bool trained, bool alone);
/* The same for a run that trains, whose recipe, setup and trainer must outlive it. Local. */
ls_status ls_text_model_of_run(ls_text_model *m, ls_recipe *r, const ls_setup *setup, ls_trainer *t);
void ls_text_model_release(ls_text_model *m);

bool ls_text_model_is_end(const ls_text_model *m, int32_t id);
/* Appends the ids of a prompt, or of a T5's source with its prefix and end token. Local. */
ls_status ls_text_model_encode(const ls_text_model *m, const char *prompt, ls_tokens *ids);

/* Makes the generator; of `o` places, source, prompts and beams count. With a trainer the generator has its
 * present weights, whole on each rank, and the call is collective; with `group` the ranks split the layers,
 * and it is collective, too; else it is local. */
ls_status ls_text_model_generator(ls_text_model *m, const ls_generator_opts *o);
/* The options of a text: what `how` says, and the tokens that end it. */
ls_generate_opts ls_text_model_options(const ls_text_model *m, const ls_generate_opts *how);
