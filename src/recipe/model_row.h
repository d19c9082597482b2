/* model_row.h - the table of models: one row for each word of model.type. To add a model, write its builder
 * in src/models, a file like model_vit.c with its row, and a line in model_row.c. */
#pragma once
#include "base/arena.h"
#include "base/json.h"
#include "lockstep/models.h"
#include "lockstep/recipe.h"
#include "lockstep/weights.h"
#include "models/generation.h"

/* The kind of samples that a data set has and a model takes. */
typedef enum ls_samples {
    LS_SAMPLES_IMAGES,
    LS_SAMPLES_TEXT,
    LS_SAMPLES_PAIRS,
    LS_SAMPLES_FIELDS
} ls_samples;

/* A key of Hugging Face's config.json. A row with neither `ours` nor `only` names a key without effect here.
 */
typedef struct ls_config_key {
    const char *theirs; /* "rope_parameters.rope_theta": a key of the object rope_parameters */
    /* Key of the recipe that takes the value. When several rows name the same key, the first one that the
     * file has counts. */
    const char *ours;
    /* Value of `ours` when the file lacks the key. NULL: the recipe's default, which is that of transformers.
     * With `times`, another key of the recipe that an earlier row has, it is multiplied by its value. */
    const char *absent;
    /* Allowed JSON values, with spaces between them. Any other value, or element of an array, is refused. */
    const char *only;
    const char *times;
} ls_config_key;

extern const char *const LS_CONFIG_FREE[]; /* keys without effect in every model; ended by NULL */

/* The same model in Hugging Face's transformers. */
typedef struct ls_huggingface {
    const char *architecture; /* name of its class */
    /* The name of the class for this recipe, where its outputs decide. NULL: the one above. */
    const char *(*architecture_of)(const ls_recipe *r);
    const char *most_tokens;   /* key of config.json: how long a text the model was made for */
    const ls_config_key *keys; /* of config.json; ended by a row without name */
    const char *prefix;        /* of names of tensors, which some files leave out; NULL: there is none */
    /* Checks keys that must agree with each other, and adds those that follow from others. NULL: there are
     * none. */
    ls_status (*check)(json_t *config, const char *path);
    /* Keys that config.json lacks, and their values, if it says that the output head is the embedding's table
     * and the weights have another head. Ended as above; NULL: none. */
    const ls_config_key *untied;
    /* Writes config.json, except architectures, torch_dtype and vocab_size. */
    void (*write)(ls_json *j, const ls_recipe *r);
} ls_huggingface;

/* A tensor that files of weights have and the model does not. Loading leaves it out. */
typedef struct ls_second_name {
    const char *name; /* a * in it stands for anything */
    /* Parameter that has the same values, which is checked. NULL: no layer uses the tensor. */
    const char *same_as;
    bool if_tied;                     /* only with model.tied: true */
    bool (*when)(const ls_recipe *r); /* only then; NULL: always */
} ls_second_name;

typedef struct ls_model_row {
    const char *name; /* the word of model.type */
    const char *keys; /* last names of the recipe keys that the model has: "layers heads" */
    /* Rows of the keys that no other family of models has (key_row.h). Models of one family, which follow
     * each other in LS_MODELS, name the same array. NULL: there are none. */
    const struct ls_key *own;
    int n_own;
    ls_samples samples;
    const void *preset; /* what distinguishes the models of a family; NULL: nothing */
    /* Builds the model for `batch` samples. */
    ls_status (*build)(ls_graph *g, const ls_recipe *r, const void *preset, int64_t batch);
    /* Checks keys that must agree with each other. NULL: there are none. */
    ls_status (*check)(const ls_recipe *r);
    /* How the model generates text, with its configuration in `a`. NULL: it does not. A model of pairs of
     * texts reads a source, another one continues a prompt. */
    ls_status (*generation)(ls_generation *out, const ls_recipe *r, const void *preset, ls_arena *a);
    /* NULL: transformers does not have the model, and a checkpoint's config.json has the recipe's keys. */
    const ls_huggingface *huggingface;
    bool transposed;                    /* the weights of its linear layers are [in, out] */
    const ls_second_name *second_names; /* ended by a row without name; NULL: none */
} ls_model_row;

extern const ls_model_row *const LS_MODELS[]; /* ended by NULL */

const char *ls_model_word(int row);                      /* NULL after the last */
const ls_model_row *ls_model_row_find(const char *name); /* NULL: none */
const ls_model_row *ls_recipe_model(const ls_recipe *r);
/* Builds the recipe's model: an ls_build_fn whose configuration is the ls_recipe. */
ls_status ls_recipe_build(ls_graph *g, const void *recipe, int64_t batch);

/* What the recipe's model takes: that of its row, or with model.inputs fields. */
ls_samples ls_recipe_samples(const ls_recipe *r);

typedef bool (*ls_model_test)(const ls_model_row *m);
enum { LS_MODEL_LIST = 256 };
/* Writes the names of the models that pass the test, "llama, qwen2", for messages. Returns `out`. */
const char *ls_model_list(char out[LS_MODEL_LIST], ls_model_test passes);
bool ls_model_has_key(const ls_model_row *m, const char *last_name);
bool ls_model_makes_text(const ls_model_row *m);
bool ls_model_reads_sources(const ls_model_row *m); /* and writes a text for each */
bool ls_model_is_huggingfaces(const ls_model_row *m);

/* The text of a checkpoint's config.json; malloc'ed. For a model of transformers it is the config of
 * transformers, with the data's end token if it is not NULL. For another model it has the recipe's sections
 * `model` and `data`, and loads as a recipe. */
char *ls_recipe_config_json(const ls_recipe *r, const int32_t *end_token);

/* ---- model_common.c: for the rows of the models */
/* Members of an image model's configuration: how pixels are normalised. */
#define LS_RECIPE_PIXELS(r)                                   \
    .mean = (r)->data.mean.at[0], .std = (r)->data.std.at[0], \
    .means = (r)->data.mean.n > 1 ? (r)->data.mean.at : NULL, \
    .stds = (r)->data.std.n > 1 ? (r)->data.std.at : NULL
/* A member of a classifier's configuration: its loss. */
#define LS_RECIPE_LOSS(r)                                    \
    .loss = { .label_smoothing = (r)->train.label_smoothing, \
              .mixed = ls_recipe_mixes(r),                   \
              .class_weights = ls_recipe_weighs_classes(r),  \
              .n_outputs = (r)->model.outputs.n,             \
              .outputs = (r)->model.outputs.at,              \
              .n_losses = (r)->loss.n,                       \
              .losses = (r)->loss.at }
/* What its last layer computes: a number for each class, or for each output. */
#define LS_RECIPE_CLASSES(r) ((r)->model.outputs.n ? (r)->model.outputs.n : (r)->model.classes)
/* model_common.c and recipe_balance.c: whether a loss has class_weights; the field of classes that
 * data.sampler balanced is of, and the number of its classes (NULL and 0: there is none, or there are
 * several); the same of a loss of cross_entropy; and the checks of both keys. What a module has is known, and
 * checked, once it is built. */
bool ls_recipe_weighs_classes(const ls_recipe *r);
const char *ls_recipe_classes_field(const ls_recipe *r, int64_t *classes);
const char *ls_recipe_loss_field(const ls_recipe *r, const ls_task_loss *l);
int64_t ls_recipe_loss_classes(const ls_recipe *r, const ls_task_loss *l); /* 0: not known */
ls_status ls_recipe_check_balance(const ls_recipe *r);
/* The numbers of class_weights of loss i [classes]; false: it is `balanced`. */
bool ls_recipe_class_weights(const ls_recipe *r, int i, double *weights);
/* Ends of the names of fields of weights, which begin with that of the classes: one for each target, all. */
#define LS_CLASS_WEIGHT ".class_weight"
#define LS_CLASS_WEIGHTS ".class_weights"
/* Of data.sampler weights:FIELD: FIELD; else NULL. */
const char *ls_recipe_draw_field(const ls_recipe *r);
/* Whether data.augment mixes the samples of a micro-batch. */
bool ls_recipe_mixes(const ls_recipe *r);
/* Writes a number with a decimal point: transformers refuses an integer where it wants a float. */
void ls_config_real(ls_json *j, const char *key, double x);
int64_t ls_recipe_head_dim(const ls_recipe *r); /* width of a head */
/* LS_E_USAGE unless model.heads divides model.hidden_size or model.head_dim is set. `has_head_dim`: the model
 * has that key, so the message names it. */
ls_status ls_recipe_check_heads(const ls_recipe *r, bool has_head_dim);
/* The losses as the model takes them: with data.missing mask the data set says of each target which of its
 * numbers are there. `own` has the names of these masks, and lives as long as the result is used. */
typedef struct ls_recipe_losses_own {
    char masks[LS_RECIPE_LIST][80], class_weights[LS_RECIPE_LIST][80];
} ls_recipe_losses_own;
ls_loss_list ls_recipe_losses(const ls_recipe *r, ls_recipe_losses_own *own);
/* LS_E_USAGE unless each loss is of an output, with fields and a shape that fit it. */
ls_status ls_recipe_check_losses(const ls_recipe *r);
/* The same of a model of images, whose outputs are numbers of each picture. It may have classes instead. */
ls_status ls_recipe_check_numbers(const ls_recipe *r);

/* Rows of ls_config_key: read the key, with a value for when it is absent; read it; refuse other values than
 * these; refuse true; ignore the key. */
#define LS_CONFIG_READ_OR(key, its_ours, its_absent)                \
    {                                                               \
        .theirs = (key), .ours = (its_ours), .absent = (its_absent) \
    }
#define LS_CONFIG_READ(key, its_ours)       \
    {                                       \
        .theirs = (key), .ours = (its_ours) \
    }
#define LS_CONFIG_ONLY(key, values)       \
    {                                     \
        .theirs = (key), .only = (values) \
    }
#define LS_CONFIG_OFF(key) LS_CONFIG_ONLY(key, "false")
#define LS_CONFIG_NO_EFFECT(key) \
    {                            \
        .theirs = (key)          \
    }
#define LS_CONFIG_END  \
    {                  \
        .theirs = NULL \
    }
