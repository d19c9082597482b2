/* generate.h - text from models: a language model continues a prompt, a T5 reads a source and writes the
 * target. Each token comes from all before it, whose keys and values are kept, so a token costs one pass over
 * the weights.
 *
 *     ls_generator *g;
 *     LS_TRY(ls_generator_open(&g, "runs/my-llama/checkpoints/latest", .param = LS_BF16));
 *     LS_TRY(ls_generate(g, &(ls_generate_opts){ LS_GENERATE_DEFAULTS, .prompt = ids, .n_prompt = n,
 *                                                .on_token = print, .context = t }, &made));
 *
 * The ids are a function of weights, prompt and options: neither threads, nor how the prompt is cut, nor
 * other prompts change a bit of the logits, which are those of the evaluation of a trainer. Calls
 * are local, unless the generator has a group; a generator belongs to one thread at a time. */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include "group.h"
#include "models.h"
#include "tokenizer.h"
#include "weights.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_generator_opts {
    const char *device; /* as of ls_trainer_opts */
    const char *isa;
    int threads;
    const char *kernels;
    ls_dtype param;      /* type of weights, caches and arithmetic */
    const char *modules; /* types of some modules, as of ls_trainer_opts; NULL: none */
    /* that logits are rounded to where they are wider: precision.output of what was trained */
    ls_dtype output;
    /* tokens that the caches hold, prompt and made, or a T5's target with its start token; 0: as many as the
     * model was made for */
    int64_t places;
    int64_t source;  /* T5: tokens of a source, at most; 0: as many as the model was made for */
    int64_t prompts; /* texts that are made at once */
    int64_t beams;   /* of each prompt; 1: none */
    /* NULL: one process. Its ranks split the model's layers as axis tp does in training: each has a part of
     * the weights and of the caches, and all make the same text. Then every rank makes every call on the
     * generator, with the same arguments, and it must outlive the generator. LS_E_USAGE: the ranks do not
     * divide the heads, or another size */
    ls_group *group;
    bool best; /* ls_generator_open of a run: its best checkpoint. Of another folder: refused */
} ls_generator_opts;
#define LS_GENERATOR_DEFAULTS                                                                      \
    .device = NULL, .isa = NULL, .threads = 0, .kernels = "own", .param = LS_F32, .modules = NULL, \
    .output = LS_F32, .places = 0, .source = 0, .prompts = 1, .beams = 1, .group = NULL, .best = false
LS_API ls_generator_opts ls_generator_opts_default(void);

typedef struct ls_generator ls_generator;
/* A model with these weights, which may be closed afterwards; config->seq_length: tokens that it was made
 * for. */
LS_API ls_status ls_generator_create_with(ls_generator **out, const ls_decoder_config *config,
                                          const ls_weights *w, const ls_generator_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_generator_create(...) ls_generator_create_with(__VA_ARGS__)
#else
#define ls_generator_create(out, config, weights, ...)              \
    LS_QUIETLY(ls_status,                                           \
               ls_generator_create_with((out), (config), (weights), \
                                        &(ls_generator_opts){ LS_GENERATOR_DEFAULTS, ##__VA_ARGS__ }))
#endif
/* The same of a T5: config->source_length and target_length, tokens that it was made for. */
LS_API ls_status ls_generator_create_t5_with(ls_generator **out, const ls_t5_config *config,
                                             const ls_weights *w, const ls_generator_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_generator_create_t5(...) ls_generator_create_t5_with(__VA_ARGS__)
#else
#define ls_generator_create_t5(out, config, weights, ...)              \
    LS_QUIETLY(ls_status,                                              \
               ls_generator_create_t5_with((out), (config), (weights), \
                                           &(ls_generator_opts){ LS_GENERATOR_DEFAULTS, ##__VA_ARGS__ }))
#endif
/* One of the two from a folder: a run of a language model or T5 (its latest checkpoint, or its best one with
 * .best and after early stopping; the log says so), a checkpoint, or a
 * Hugging Face folder with config.json and safetensors. LS_E_USAGE: it is none of them; LS_E_IO: the run has
 * no checkpoint; LS_E_UNSUPPORTED: another model than llama, qwen2 and t5. */
LS_API ls_status ls_generator_open_with(ls_generator **out, const char *folder,
                                        const ls_generator_opts *o LS_OR_DEFAULTS);
#ifdef __cplusplus
#define ls_generator_open(...) ls_generator_open_with(__VA_ARGS__)
#else
#define ls_generator_open(out, folder, ...)            \
    LS_QUIETLY(ls_status,                              \
               ls_generator_open_with((out), (folder), \
                                      &(ls_generator_opts){ LS_GENERATOR_DEFAULTS, ##__VA_ARGS__ }))
#endif
LS_API void ls_generator_destroy(ls_generator **g); /* nulls *g; null is fine */

LS_API int64_t ls_generator_places(const ls_generator *g);   /* tokens that it can hold */
LS_API int64_t ls_generator_position(const ls_generator *g); /* tokens that it holds */
LS_API int64_t ls_generator_vocabulary(const ls_generator *g);
LS_API size_t ls_generator_bytes(const ls_generator *g); /* all memory */

/* Forgets all tokens from number `position` on. */
LS_API void ls_generator_rewind(ls_generator *g, int64_t position);
/* Of a T5: reads a source and forgets the target before. LS_E_USAGE when it is too long. */
LS_API ls_status ls_generator_read(ls_generator *g, const int32_t *ids, int64_t n);
/* Takes n more tokens in: of the text or, for a T5, of the target, which begins with the model's start token.
 * *logits (a copy that the generator has until the next call) [vocabulary]: what may follow the
 * last. LS_E_ARG for an id that is none; LS_E_USAGE when there is no room for them. Allocates nothing. For
 * generators with one prompt and no beams. */
LS_API ls_status ls_generator_feed(ls_generator *g, const int32_t *ids, int64_t n, const float **logits);

/* How the next token is chosen. temperature 0: the most likely one (of equals the first). Else at random, by
 * softmax(logits / temperature), of the top_k most likely (0: all) and, of these, the fewest that together
 * have probability top_p; the random number is a function of (seed, position). */
typedef struct ls_sampling {
    double temperature;
    int64_t top_k;
    double top_p;
    uint64_t seed;
} ls_sampling;
#define LS_SAMPLING_DEFAULTS .temperature = 0, .top_k = 0, .top_p = 1, .seed = 0
LS_API ls_sampling ls_sampling_default(void);
LS_API ls_status ls_sample(int32_t *id, const float *logits, int64_t vocabulary, const ls_sampling *s,
                           int64_t position);

/* When a search with beams stops, as transformers' early_stopping. FALSE: when the best beam, if it ended
 * now, were no better than the finished texts. TRUE: as soon as there are as many finished texts as beams.
 * NEVER: when no beam, however long it becomes, can be better. */
typedef enum ls_early_stopping {
    LS_EARLY_STOPPING_FALSE,
    LS_EARLY_STOPPING_TRUE,
    LS_EARLY_STOPPING_NEVER
} ls_early_stopping;

typedef struct ls_generate_opts {
    const int32_t *prompt; /* of a T5: the source, with its end token */
    int64_t n_prompt;
    /* to make, at most; fewer when prompt and text together reach the generator's places */
    int64_t tokens;
    int64_t least;     /* tokens before an end token may come */
    int64_t no_repeat; /* so many tokens in a row come once at most, as no_repeat_ngram_size; 0: no limit */
    ls_sampling sampling;  /* of a generator without beams */
    double length_penalty; /* with beams: a text's score is its log-probability / length^length_penalty */
    ls_early_stopping early_stopping;
    const int32_t *ends;                         /* tokens that end the text, */
    int n_ends;                                  /* so many; they are not given to on_token */
    bool (*on_token)(void *context, int32_t id); /* false: enough */
    void *context;
} ls_generate_opts;
#define LS_GENERATE_DEFAULTS \
    .tokens = 128, .least = 0, .no_repeat = 0, .sampling = { LS_SAMPLING_DEFAULTS }, .length_penalty = 1
LS_API ls_generate_opts ls_generate_opts_default(void);
typedef enum ls_ending { LS_ENDED_TOKENS, LS_ENDED_PLACES, LS_ENDED_TOKEN, LS_ENDED_CALLER } ls_ending;
/* seconds: without the prompt's */
typedef struct ls_generated {
    int64_t tokens;
    ls_ending ending;
    double prompt_seconds, seconds;
} ls_generated;
/* Begins with the prompt, forgetting whatever was there, and makes tokens. */
LS_API ls_status ls_generate(ls_generator *g, const ls_generate_opts *o, ls_generated *r);
/* The same for `n` prompts, as many at once as the generator has. texts[i] { 0 }: gets the text of
 * prompts[i]; free(texts[i].ids) is the caller's, also after an error. o->prompt and on_token do not count;
 * the random numbers of prompt i are those of seed + i. LS_E_STOPPED after a request to stop (ls_stop_on),
 * unless ranks split the layers. */
LS_API ls_status ls_generate_all(ls_generator *g, int64_t n, const ls_tokens *prompts,
                                 const ls_generate_opts *o, ls_tokens *texts);

#ifdef __cplusplus
}
#endif
