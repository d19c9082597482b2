/* recipe.h - the description of a run. One table (src/recipe/recipe_fields.c) lists every key with its type,
 * default, range and help. The YAML reader, --set, --help, the resolved recipe, recipe.yaml in the run
 * directory and docs/recipe.md use it.
 *
 * A loaded recipe is complete and checked: every field has a value in range, and loading refused keys of
 * another model, data set, optimizer or schedule and values that this version does not support. Any number of
 * threads may read a recipe while none changes it. All functions are local. Strings are never NULL and live
 * as long as the recipe. */
#pragma once
#ifndef LS_WARN_IN_HEADERS
/* for programs that are compiled with -Wextra or -pedantic: the macros use GNU's C */
#pragma GCC system_header
#endif
#include "data.h"
#include "models.h"
#include "optim.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LS_RECIPE_LIST 16 /* longest list in a recipe */

typedef enum ls_device_choice {
    LS_RUN_CPU,
    LS_RUN_CUDA,
    LS_RUN_REF,
    LS_RUN_AUTO, /* what LOCKSTEP_DEVICE names, else cuda where there is a GPU, else cpu */
    LS_RUN_EMULATED
} ls_device_choice;
typedef enum ls_kernels_choice {
    LS_KERNELS_OWN = 0,
    LS_KERNELS_ONEDNN = 1, /* only in the recipes of older runs: it was removed, and own kernels compute */
    LS_KERNELS_TF32 = 2,   /* programs are compiled with these numbers, so they stay */
    LS_KERNELS_CUBLASLT = 3
} ls_kernels_choice;
typedef enum ls_feed_forward { LS_FEED_FORWARD_RELU, LS_FEED_FORWARD_GATED_GELU } ls_feed_forward;
/* How rotary positions are scaled for longer texts: ls_rope_scaling of graph.h. */
typedef enum ls_rope_kind { LS_ROPE_DEFAULT, LS_ROPE_LINEAR, LS_ROPE_LLAMA3 } ls_rope_kind;
/* auto: if tied */
typedef enum ls_scale_output {
    LS_SCALE_OUTPUT_AUTO,
    LS_SCALE_OUTPUT_TRUE,
    LS_SCALE_OUTPUT_FALSE
} ls_scale_output;
typedef enum ls_loss_mean_choice { LS_LOSS_MEAN_GLOBAL, LS_LOSS_MEAN_MICRO_BATCH } ls_loss_mean_choice;
/* how frozen weights of linear layers rest: in precision.param, or in 4 bits a number */
typedef enum ls_base_choice { LS_BASE_PARAM, LS_BASE_NF4 } ls_base_choice;
typedef enum ls_metric_mode { LS_MODE_MIN, LS_MODE_MAX } ls_metric_mode;
/* what opening a checkpoint checks */
typedef enum ls_files_choice { LS_FILES_WHOLE, LS_FILES_PER_RANK } ls_files_choice;
/* frozen weights: in each checkpoint, or only where model.init says */
typedef enum ls_frozen_choice { LS_FROZEN_COPY, LS_FROZEN_REFERENCE } ls_frozen_choice;
typedef enum ls_verify_choice { LS_VERIFY_CHOICE_FULL, LS_VERIFY_CHOICE_SIZES } ls_verify_choice;

typedef struct ls_int_list {
    int n;
    int64_t at[LS_RECIPE_LIST];
} ls_int_list;

/* one number, or one for each channel of an image */
typedef struct ls_real_list {
    int n;
    double at[LS_RECIPE_LIST];
} ls_real_list;

/* of images: what happens at a damaged one */
typedef enum ls_on_error { LS_ON_ERROR_STOP, LS_ON_ERROR_SKIP } ls_on_error;

/* mlp of fields: scaling of inputs and targets, fitted over the training split */
typedef enum ls_scale_choice { LS_SCALE_STANDARD, LS_SCALE_NONE } ls_scale_choice;
/* of arrays: what NaN in a target is */
typedef enum ls_missing_choice { LS_MISSING_ERROR, LS_MISSING_MASK } ls_missing_choice;

/* {x: [8], t: []} */
typedef struct ls_port_list {
    int n;
    ls_port at[LS_RECIPE_LIST];
} ls_port_list;
/* {x: train_x.npy} */
typedef struct ls_file_list {
    int n;
    struct {
        const char *field, *file;
    } at[LS_RECIPE_LIST];
} ls_file_list;
/* {type: mse, of: y}, or a list of these */
typedef struct ls_loss_list {
    int n;
    ls_task_loss at[LS_RECIPE_LIST];
    /* of at[i]: NULL, "balanced", or a number for each class, separated by spaces */
    const char *class_weights[LS_RECIPE_LIST];
} ls_loss_list;

/* muon: the rate of a matrix, as torch.optim.Muon has it */
typedef enum ls_adjust_lr { LS_ADJUST_ORIGINAL, LS_ADJUST_MATCH_RMS } ls_adjust_lr;
/* parameters with settings of their own */
typedef struct ls_group_list {
    int64_t n;
    ls_optimizer_group at[LS_RECIPE_LIST];
} ls_group_list;

/* another name for a tensor; `*` in both is the same text */
typedef struct ls_rename {
    const char *from, *to;
} ls_rename;
typedef struct ls_rename_list {
    int64_t n;
    ls_rename at[LS_RECIPE_LIST];
} ls_rename_list;

typedef struct ls_recipe {
    struct {
        const char *name, *storage;
        int64_t seed;
        double time_limit; /* seconds, 0: none */
    } run;
    struct {
        int64_t min, max;
    } workers;       /* equal for a plain number */
    int64_t threads; /* per rank; 0: its cores */
    /* cores that each rank is bound to, 0: its share; the most ranks of a host, 0: no limit */
    int64_t cores_per_worker, workers_per_host;
    int64_t device_memory; /* bytes; 0: no cap */
    ls_device_choice device;
    ls_kernels_choice kernels;
    const char *isa; /* "auto" or a level's name */
    struct {
        /* a word of model.type: src/recipe/model_row.c has what each one is */
        const char *type;
        int64_t image_size, in_channels, classes;
        int64_t patch_size;                           /* vit */
        int64_t layers, heads, hidden_size, mlp_size; /* vit and all of text */
        /* models of text (kv_heads 0: heads); head_dim 0: hidden_size / heads */
        int64_t vocab_size, kv_heads, head_dim;
        double dropout, attention_dropout; /* vit t5 gpt2; vit and all but t5 */
        double stochastic_depth;           /* convnext */
        int64_t channels, levels;          /* unet */
        ls_unet_up up;
        double norm_eps, rope_theta, init_deviation;
        ls_rope_kind rope_scaling;
        double rope_factor, rope_low, rope_high;
        int64_t rope_original;
        int64_t window, global_every; /* mistral and gemma3_text; the next too but for window */
        double local_theta, query_scalar;
        /* mixtral qwen2_moe qwen3_moe olmoe */
        int64_t experts, experts_per_token, expert_size, experts_every, shared_expert_size;
        bool normalize_experts;
        double balance, clip_qkv;
        /* t5; decoder_layers 0: layers */
        int64_t decoder_layers, position_buckets, position_distance, start_token;
        ls_feed_forward feed_forward;
        ls_scale_output scale_output;
        double init_factor;
        int64_t positions, token_types, pad_token; /* bert; gpt2 the first */
        double classifier_dropout;                 /* bert; below 0: dropout */
        bool tied;
        /* mlp: widths of the hidden layers, may be empty; its input is image_size^2 * in_channels */
        ls_int_list hidden;
        ls_mlp_activation act; /* mlp */
        /* mlp of fields: types of a sample, f32 (a target of cross_entropy is i32); none: an mlp of images */
        ls_port_list inputs, outputs;
        ls_scale_choice scale;
        bool refit;                /* scaling that `init` brings is fitted again */
        const char *path, *config; /* module: the shared object; JSON */
        const char *init;          /* "random" or a path */
        bool init_strict;          /* names of `init` and the model must be the same */
        ls_base_choice base;
        const char *reset;     /* names, separated by spaces, that `init` does not give values; "" none */
        ls_rename_list rename; /* of the tensors of `init` */
    } model;
    ls_loss_list loss; /* of a model of fields */
    struct {
        const char *type, *path; /* type as ls_dataset_open takes it, "text", "pairs" or "arrays" */
        const char *train_images, *train_labels, *eval_images, *eval_labels; /* type idx */
        bool download, fallback; /* may fetch a missing set; may use the built-in one */
        const char *mirror;
        /* types text and pairs, as ls_text_open and ls_pairs_open take them */
        const char *train_text, *eval_text, *tokenizer, *field, *end_token;
        /* train_text, eval_text: one path or pattern, or several with line feeds between them */
        ls_real_list weights;      /* of the entries of train_text; n 1: none */
        const char *chat_template; /* type chat, as ls_chat_open takes it */
        ls_train_on train_on;
        const char *source, *target, *prefix;
        int64_t source_length, target_length, train_samples, eval_samples;
        double eval_fraction, train_percentage; /* train_percentage: of text alone */
        ls_documents documents;
        int64_t seq_length;
        ls_pack_choice pack;
        ls_too_long too_long;
        /* type images: 0: model.image_size; size * 256 / 224; as many as `threads` */
        int64_t size, resize, threads;
        int64_t ignore; /* of masks: the value of pixels that do not count; -1: none */
        ls_on_error on_error;
        ls_real_list mean, std; /* of images: one number, or one for each channel */
        bool shuffle;
        const char *sampler; /* "uniform", "balanced" or "weights:FIELD" */
        struct {             /* of training images: docs/augmentation.md */
            ls_crop crop;
            int64_t padding;
            double crop_scale[2], crop_ratio[2];
            double flip;
            struct {
                int64_t ops, magnitude, bins;
            } randaugment;
            struct {
                double brightness, contrast, saturation, hue;
            } jitter;
            double erase, erase_scale[2], erase_ratio[2];
            double mixup, cutmix;
        } augment;
        ls_file_list train, eval; /* type arrays */
        ls_file_list class_names; /* of labels that are texts: "a,b,c" in place of a file */
        ls_missing_choice missing;
        const char *config; /* type module: JSON */
    } data;
    struct {
        int64_t epochs, steps, steps_per_epoch; /* of them 0: no limit */
        int64_t global_batch, micro_batch;      /* micro_batch 0: not resolved yet */
        bool drop_last;
        ls_accumulation accumulate;
        ls_loss_mean_choice loss_mean;
        const char *freeze;     /* names, separated by spaces; "" none */
        double label_smoothing; /* of cross-entropy of labels; 0: none */
        double clip_norm;       /* 0: none */
        ls_nonfinite nonfinite;
        int64_t max_skips;
        struct {
            int64_t patience; /* epochs; 0: no early stopping */
            double min_delta;
        } early_stopping; /* by checkpoint.best */
        struct {
            int64_t rank;        /* 0: no adapters */
            double alpha;        /* 0: twice the rank */
            const char *targets; /* names of layers, separated by spaces, or all-linear */
            double dropout;
            bool rslora;
            const char *save; /* names of modules that are trained whole; "" none */
        } lora;
    } train;
    struct {
        ls_optimizer_kind type;
        double lr, betas[2], eps, weight_decay, momentum, dampening;
        bool nesterov;
        double ema_decay; /* 0: none */
        double muon_momentum;
        ls_adjust_lr adjust_lr;                           /* muon */
        double clip_threshold, decay_rate, min_scale;     /* adafactor */
        bool scale_parameter, relative_step, warmup_init; /* adafactor */
        ls_group_list groups;
    } optimizer;
    struct {
        ls_schedule_kind type;
        int64_t warmup_steps;
        /* step: optimizer steps between cuts, or epochs when that is not 0 */
        int64_t step_size, step_epochs;
        double gamma; /* step, plateau: factor of a cut */
        /* of those that end: length in steps counted from the first one; 0: the run's */
        int64_t total_steps;
        double min_lr;                                  /* rate at the end; plateau: the least */
        double power;                                   /* polynomial */
        int64_t decay_steps;                            /* wsd; 0: a tenth of the steps after the warm-up */
        double pct_start, div_factor, final_div_factor; /* one_cycle */
        int64_t period, period_factor;                  /* restarts */
        int64_t patience;                               /* plateau: evaluations without improvement */
        double threshold; /* plateau: what counts as better, of the best value */
    } schedule;
    struct {
        ls_mesh mesh; /* sizes as written: 0 is auto */
        ls_data_parallel data;
        const char *units;             /* class:NAME | pattern:GLOB | size:N | none */
        int64_t reshard_after_forward; /* -1: true; 0: false; N > 1 */
        ls_gather_choice gather;
        struct {
            int64_t forward, backward, memory;
        } prefetch;
        ls_synchronize_choice synchronize;
        const char *tensor; /* auto | colwise:MODULE ... rowwise:MODULE ... */
        int64_t bucket;     /* bytes */
        bool sync_batch_norm;
        bool sequence;
        int64_t slices; /* 0: none */
        ls_pipeline_schedule schedule;
        const char *stages;
        int64_t chunks; /* stages of a rank, with the schedule interleaved */
        ls_offload_choice offload;
        const char *recompute; /* none | words units, class:NAME, pattern:GLOB, save:OP */
    } parallel;
    struct {
        ls_dtype param, reduce, output;
        bool cast_forward_inputs;
        const char *modules; /* as ls_trainer_opts has it; "" none */
        ls_scaler scaler;
    } precision;
    struct {
        int64_t every_epochs, every_steps; /* every_steps 0: only at ends of epochs */
        int64_t batch;                     /* samples of a rank at once; 0: train.micro_batch */
        bool ema;                          /* of the averaged weights */
        const char *metrics;               /* f1, auc, perplexity, separated by spaces; "" none */
        struct {
            int64_t tokens, beams, no_repeat, samples; /* tokens 0: nothing is generated; samples 0: all */
            double length_penalty;
        } generate;
    } eval;
    struct {
        int64_t every_epochs, every_steps, keep, keep_best;
        const char *export_to;   /* below the run's folder; "": nowhere */
        const char *export_best; /* the same, with {date}, {epoch}, {step}, {value}, at each improvement */
        struct {
            const char *metric;
            ls_metric_mode mode;
        } best;
        bool async;
        ls_files_choice files;
        int64_t max_file; /* bytes */
        ls_frozen_choice frozen;
        const char *base; /* where weights are that checkpoints leave out; "": where they say */
        ls_verify_choice verify;
    } checkpoint;
    struct {
        int64_t max_failures;
        double stall_seconds;
        bool grow;
        int64_t digest_every; /* steps; 0: never */
    } failure;
    struct {
        int64_t every;
        bool tensorboard;
    } log;
    struct ls_recipe_state *state; /* private: arena, origins */
} ls_recipe;

/* Reads a recipe from a file, or a bundled one by its name: a name without '/' and .yaml that is not an
 * existing file. Then applies `sets` ("train.epochs=3"), checks all values, and checks that the weights of
 * model.init can be opened (ls_weights_open), but not those in a folder with a config.json. Errors:
 * LS_E_USAGE with file:line and key (exit status 2); LS_E_IO when a file cannot be read; those of
 * ls_weights_open. */
LS_API ls_status ls_recipe_load(ls_recipe **out, const char *path_or_name, int n_sets,
                                const char *const *sets);
/* The same from memory. Messages call the text `name`, and `include` looks in the folder of `name`. */
LS_API ls_status ls_recipe_load_text(ls_recipe **out, const char *text, size_t size, const char *name,
                                     int n_sets, const char *const *sets);
/* Load the recipe of an existing run: DIR/recipe.yaml, or the text in a checkpoint. The weights of model.init
 * need not exist any more. An environment variable that is not set stays ${NAME}. Values without effect,
 * which older versions accepted, are allowed, except in `sets`. */
LS_API ls_status ls_recipe_load_run(ls_recipe **out, const char *dir, int n_sets, const char *const *sets);
LS_API ls_status ls_recipe_load_record(ls_recipe **out, const char *text, size_t size, const char *name,
                                       int n_sets, const char *const *sets);
LS_API void ls_recipe_destroy(ls_recipe **r); /* nulls *r; null is fine */

/* Sets one key of a loaded recipe and checks all values again. `origin` is the origin that the resolved
 * recipe shows for it ("resolved", "--resume"). On an error the recipe does not change. */
LS_API ls_status ls_recipe_set(ls_recipe *r, const char *key, const char *yaml_value, const char *origin);
/* Gives these keys (ended by NULL) their defaults back and checks all values again. On an error, which an
 * unknown key is, the recipe does not change. */
LS_API ls_status ls_recipe_reset(ls_recipe *r, const char *const *keys);

/* The resolved recipe as YAML that loads to the same recipe; malloc'ed, NULL: out of memory. A text that an
 * environment variable gave is ${NAME} there, because it may be a secret; a path at which something is, a
 * number or a known word is its value. With `origins`, every line ends in a comment with the origin of its
 * value. */
LS_API char *ls_recipe_yaml(const ls_recipe *r, bool origins);
/* One value as YAML ("[0.9, 0.999]"), malloc'ed; NULL for an unknown key or out of memory. A key may be in a
 * map of a module's keys: "model.config.hidden". */
LS_API char *ls_recipe_value(const ls_recipe *r, const char *key);
/* Origin of a value: "default", "FILE:LINE", "FILE:LINE (environment NAME)", "--set", or that of
 * ls_recipe_set. NULL for an unknown key. A key in a map of a module's keys has an origin of its own. */
LS_API const char *ls_recipe_origin(const ls_recipe *r, const char *key);
/* The differences of two recipes, "train.global_batch: 128 here, 64 there", joined by "; "; malloc'ed. "":
 * there is none. NULL: out of memory. Keys that may change between two starts of one run (epochs, log,
 * threads, ...) do not count.
 */
LS_API char *ls_recipe_difference(const ls_recipe *here, const ls_recipe *there);

/* Bundled recipes: name of the i-th, its one-line description and its text; NULL past the end. */
LS_API const char *ls_recipe_bundled(int i, const char **summary, const char **text);
/* Reference of every key, as Markdown (docs/recipe.md) or as plain text for --help; malloc'ed. */
LS_API char *ls_recipe_reference(bool markdown);

#ifdef __cplusplus
}
#endif
