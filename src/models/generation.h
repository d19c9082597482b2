/* generation.h - how a model generates text: its sizes, and the builders of a generator's programs. A
 * generator knows no model: the row of a model in a recipe makes this (recipe/model_row.h), or a function
 * below. */
#pragma once
#include "lockstep/models.h"

typedef struct ls_generation {
    const void *config;              /* of the builders; it must live until the programs are built, */
    const struct ls_lora_opts *lora; /* and so must this: adapters; NULL: none */
    bool nf4;                        /* the weights of linear layers have 4 bits */
    int64_t vocabulary;
    int64_t places; /* tokens that the caches hold */
    /* Of a model that reads a source and writes a target: the most tokens of a source, the token behind
     * shorter ones, and the first token of a target. source 0: the model continues a prompt. */
    int64_t source, pad_token, start_token;
    /* With a source: builds the program `encode`, which reads `prompts` sources, as ls_t5_build_encoder. */
    ls_status (*encode)(ls_graph *g, const struct ls_generation *m, int64_t prompts);
    /* Builds a program that takes `tokens` tokens of each prompt, as ls_decoder_build_cached; with a source
     * tokens is 1, and the program as that of ls_t5_build_cached. */
    ls_status (*decode)(ls_graph *g, const struct ls_generation *m, int64_t prompts, int64_t beams,
                        int64_t tokens);
} ls_generation;

/* Of these models. `c` becomes the config. */
ls_generation ls_decoder_generation(const ls_decoder_config *c);
ls_generation ls_gpt2_generation(const ls_gpt2_config *c);
ls_generation ls_t5_generation(const ls_t5_config *c);
