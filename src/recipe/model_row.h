/* model_row.h - what the system knows of a model beside its builder: one row for each word of model.type.
 * To add a model: its builder in src/models, a file like model_vit.c with its row, a line in model_row.c. */
#pragma once
#include "base/json.h"
#include "lockstep/models.h"
#include "lockstep/recipe.h"

/* What a data set holds and a model takes. */
typedef enum ls_samples { LS_SAMPLES_IMAGES, LS_SAMPLES_TEXT, LS_SAMPLES_PAIRS } ls_samples;

/* A key of Hugging Face's config.json. One that has neither `ours` nor `only` changes nothing. */
typedef struct ls_config_key {
    const char *theirs; /* "rope_parameters.rope_theta": a key of the object rope_parameters */
    /* key of the recipe that takes its value. Several rows may name it: the first in the file counts */
    const char *ours;
    /* the value for `ours` when the key is absent; NULL: the recipe's default, which is transformers' */
    const char *absent;
    /* JSON values with spaces between them: any other, also as an array's element, is refused */
    const char *only;
} ls_config_key;

extern const char *const LS_CONFIG_FREE[]; /* keys of any model that change nothing; ended by NULL */

/* A model that Hugging Face's transformers has, too. */
typedef struct ls_huggingface {
    const char *architecture;  /* its class there */
    const ls_config_key *keys; /* of its config.json; ended by a row without name */
    ls_status (*check)(const json_t *config, const char *path); /* of keys that must agree; NULL: none */
    void (*write)(ls_json *j, const ls_recipe *r); /* all keys but architectures, torch_dtype, vocab_size */
} ls_huggingface;

/* A tensor in files of weights that is no parameter of its own: it is left out when weights are loaded. */
typedef struct ls_second_name {
    const char *name;
    const char *same_as; /* the parameter that it repeats, and must equal; NULL: no layer uses it */
    bool if_tied;        /* only where the recipe says model.tied */
} ls_second_name;

typedef struct ls_model_row {
    const char *name; /* the word of model.type */
    const char *keys; /* of recipes that belong to it, by their last names: "layers heads" */
    ls_samples samples;
    bool batch_norm; /* its statistics count every sample, so a batch must have no padding */
    /* an ls_build_fn: its config is the ls_recipe */
    ls_status (*build)(ls_graph *g, const void *recipe, int64_t batch);
    ls_status (*check)(const ls_recipe *r); /* of keys that must agree; NULL: none */
    /* for ls_generator_create; NULL: makes no text */
    void (*decoder)(ls_decoder_config *out, const ls_recipe *r);
    /* keys of `model` in a checkpoint's config.json; NULL: huggingface writes it */
    const char *const *config;
    const ls_huggingface *huggingface;  /* NULL: transformers does not have it */
    const ls_second_name *second_names; /* ended by a row without name; NULL: none */
} ls_model_row;

extern const ls_model_row *const LS_MODELS[]; /* ended by NULL */
extern const char *const LS_MODEL_WORDS[];    /* their names, ended by NULL */

const ls_model_row *ls_model_row_find(const char *name); /* NULL: none */
const ls_model_row *ls_recipe_model(const ls_recipe *r);

typedef bool (*ls_model_test)(const ls_model_row *m);
enum { LS_MODEL_LIST = 256 };
/* "llama, qwen2": the models that pass, for messages. Returns `out`. */
const char *ls_model_list(char out[LS_MODEL_LIST], ls_model_test passes);
bool ls_model_continues_text(const ls_model_row *m);
bool ls_model_is_huggingfaces(const ls_model_row *m);

/* config.json of a checkpoint: for a model that transformers has, transformers' config; else the model and
 * what its inputs must be as a recipe says them, so that it loads as one. malloc'ed. */
char *ls_recipe_config_json(const ls_recipe *r);

/* ---- for the files of the models */
/* with a point: transformers takes no integer for a float */
void ls_config_real(ls_json *j, const char *key, double x);
int64_t ls_recipe_head_dim(const ls_recipe *r);
/* they divide hidden_size, unless model.head_dim is set */
ls_status ls_recipe_check_heads(const ls_recipe *r);

/* Rows of ls_config_key: read; read, else this value; one of these values; a bool that is off; without
 * effect. */
#define LS_CONFIG_READ_OR(key, ours, absent) \
    {                                        \
        key, ours, absent, NULL              \
    }
#define LS_CONFIG_READ(key, ours) \
    {                             \
        key, ours, NULL, NULL     \
    }
#define LS_CONFIG_ONLY(key, values) \
    {                               \
        key, NULL, NULL, values     \
    }
#define LS_CONFIG_OFF(key) LS_CONFIG_ONLY(key, "false")
#define LS_CONFIG_NO_EFFECT(key) \
    {                            \
        key, NULL, NULL, NULL    \
    }
#define LS_CONFIG_END          \
    {                          \
        NULL, NULL, NULL, NULL \
    }
