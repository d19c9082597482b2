/* commands.h - one function for each verb of the command. src/cli parses the command line into these structs.
 * Results go to ui->out, messages through ls_log; nothing here exits. LS_E_USAGE becomes exit status 2,
 * LS_E_STOPPED 75, any other error 1. When the message is empty, another process has printed it. */
#pragma once
#include "lockstep/generate.h"
#include "base/ui.h"
#include "launch/hosts.h"
#include "loop/profiler.h"
#include "loop/resume.h"
#include "recipe/recipe_arg.h"
#include "setup/compiled_recipe.h"
#include "setup/export_model.h"

typedef struct ls_find_lr_opts {
    int64_t steps; /* --find-lr; 0: train */
    bool json;
    const char *html; /* NULL: no page */
} ls_find_lr_opts;

typedef struct ls_train_opts {
    ls_recipe_arg recipe;
    ls_resume_ask resume; /* --resume, --prefix, --resume-at. "never": an existing run is an error. */
    bool allow_change;    /* a run may continue with another recipe */
    bool dry_run;         /* writes nothing; so does a search for a learning rate */
    int64_t until;        /* --until: stop after this step; 0: at the end */
    ls_find_lr_opts find_lr;
    bool profile;
    /* First and last step, counted from 1. Both 0: steps 11 to 20, or all steps if the run has fewer. */
    int64_t profile_first, profile_last;
    ls_profile_schedule profile_schedule; /* in place of these; active 0: none */
    ls_hosts_opts hosts;
    char *const *argv; /* of this process: ranks are started with the same words */
} ls_train_opts;

/* launch: a user's program on several ranks. */
typedef struct ls_launch_command_opts {
    /* least_workers < workers: as many as there are cores, or room on the hosts, in this range. 0: as many as
     * the hosts have room for */
    int64_t workers, least_workers;
    ls_hosts_opts hosts;
    int64_t cores;        /* of each rank; 0: its share */
    int64_t max_failures; /* -1: no limit */
    double stall_seconds; /* 0: the default of the library */
    char *const *program; /* its name and its arguments, ended by NULL */
} ls_launch_command_opts;

/* sweep: one recipe under several settings; `recipe.sets` has the lists of values. */
typedef struct ls_sweep_opts {
    ls_recipe_arg recipe;
    int64_t random;   /* --random: so many draws; 0: every combination */
    int64_t seed;     /* of the draws */
    int64_t parallel; /* runs beside each other */
    int64_t task;     /* --task: only this run, counted from 0; -1: all */
    bool slurm;       /* print the script of an array job, train nothing */
    bool json;
    char *const *argv; /* of this process, for the script */
} ls_sweep_opts;

typedef struct ls_verify_opts {
    ls_recipe_arg run; /* its folder; `sets` only say where it is trained again, as workers=2 */
    int64_t from,
        to; /* steps; from -1: the first checkpoint that is left, to 0: the last one that was saved */
    const char *storage; /* where it is trained again; NULL: TMPDIR or /tmp */
    ls_hosts_opts hosts;
    bool json;
} ls_verify_opts;

typedef struct ls_eval_opts {
    ls_recipe_arg model; /* a run, a checkpoint or a recipe */
    bool json;
    bool generate;        /* --generate: also makes the texts, and compares them with the targets */
    ls_generate_opts how; /* as of predict */
    int64_t beams;
    ls_hosts_opts hosts;
    char *const *argv; /* of this process: ranks are started with the same words */
} ls_eval_opts;

typedef struct ls_predict_opts {
    ls_recipe_arg model;
    int n_inputs;
    const char *const *inputs; /* image files; none: samples of a split */
    bool train_split;          /* --split train; default the evaluation split */
    int64_t first, count;      /* samples of the split; default 0, 10 */
    int64_t random;            /* --random: so many samples, drawn with how.sampling.seed; 0: in order */
    bool resize;               /* --resize: scale image files to the model's size */
    /* --out: a picture (.svg, .png); every prediction of the split (.npy, .csv, .jsonl), a T5's texts
     * (.jsonl). NULL: none */
    const char *out;
    const char *output; /* --output: names of the model's outputs, with commas between them; NULL: default */
    bool show;          /* --show: the pictures as text, too */
    bool wrong;         /* --wrong: the worst mistakes of the split, of images as a page */
    /* --prompt: the text that a language model continues, or that a T5 reads. NULL: none. */
    const char *prompt;
    ls_generate_opts how; /* of texts: tokens, least, no_repeat, sampling, length_penalty, early_stopping */
    int64_t beams;        /* --beams */
    bool json;
    char *const *argv; /* of this process: ranks are started with the same words */
} ls_predict_opts;

/* chat: a conversation, a line of stdin each turn. */
typedef struct ls_chat_opts {
    ls_recipe_arg model;  /* a run, a checkpoint or a Hugging Face folder */
    const char *system;   /* --system: the system message; NULL: none */
    const char *template; /* --template: as data.template; NULL: that of the recipe */
    int64_t tokens;       /* of an answer, at most */
    ls_sampling sampling;
} ls_chat_opts;

/* data: what a model will see of a split. */
typedef struct ls_data_opts {
    ls_recipe_arg recipe;
    bool eval_split;
    int64_t epoch, samples;
    const char *out; /* --out: a page; NULL: tables */
} ls_data_opts;

/* plan, explain. --isa and --threads arrive in `sets`; this machine need not have that ISA. With
 * ranks_per_host 0 all ranks are on one host. */
typedef struct ls_plan_command_opts {
    ls_recipe_arg recipe;
    ls_elsewhere where;
    const char *machine; /* --machine: a file, or the name of a bundled machine. NULL: hosts like this one */
    int n_compare;
    /* "KEY=VALUE,VALUE,...": compares the cross product of all these */
    const char *const *compare;
    bool search;    /* --search: rank layouts and micro-batches by time */
    int64_t memory; /* --memory: bytes of a rank that --search may use; 0: any number */
    bool measure;   /* kernels that this machine has not measured yet */
    bool json;
    bool simulate;    /* --simulate: plays the step on all ranks */
    const char *html; /* --html, with --compare or --simulate: a page. NULL: none */
} ls_plan_command_opts;
typedef struct ls_explain_opts {
    ls_recipe_arg recipe;
    int64_t rank, ranks_per_host;
    const char *param; /* explain this parameter in place of the step */
    bool full;         /* print every block, also when it equals the one before */
    bool measure;      /* kernels that this machine has not measured yet */
    bool json;
    const char *html;    /* write the step as a page, in place of text. NULL: no */
    const char *profile; /* --profile: a trace, whose times the page shows. NULL: estimates */
} ls_explain_opts;
typedef struct ls_export_opts {
    ls_export_format format; /* --format, or what the name of `to` says */
    /* from: a run, checkpoint or weight file */
    const char *from, *to;
    ls_gguf_mix mix; /* --type: of a GGUF file */
    bool best;       /* of a run the best checkpoint */
    bool convert;    /* convert floats to dtype */
    ls_dtype dtype;
    bool optimizer; /* export the optimizer's state, too: from a checkpoint to a directory */
    int ranks;      /* --ranks: to a directory, as so many ranks would have written it. 0: one */
    bool ema;       /* the moving averages of the weights, of a checkpoint */
    bool force;     /* replace an existing file */
    /* --prefix: of the names in the DCP directory that is read or, from elsewhere, written. NULL: none */
    const char *prefix;
    const char *module; /* only what is below it; NULL: everything */
    bool strip_prefix;  /* without the module's name */
    bool merge;         /* adapters into their base */
    const char *base;   /* where that is; NULL: where the checkpoint says */
    bool ignore_frozen; /* without what train.freeze froze */
} ls_export_opts;
/* a weight file, checkpoint, run, or a recipe (its module tree, and each rank's local shards) */
typedef struct ls_inspect_opts {
    ls_recipe_arg model;
    const char *prefix; /* --prefix: of names in a DCP directory. NULL: none */
    bool verify, digest, json;
    const char *html; /* write a page, in place of text. NULL: no */
} ls_inspect_opts;

/* a repository of a hub */
typedef struct ls_get_opts {
    const char *name;     /* OWNER/NAME, or datasets/OWNER/NAME */
    const char *revision; /* a branch, a tag or a commit; NULL: main */
    int n_files;
    const char *const *files; /* patterns of paths in the repository; none: what a model or data set needs */
    const char *to;           /* a folder; NULL: the hub's cache */
    const char *mirror;       /* the server; NULL: HF_ENDPOINT, else huggingface.co */
    bool list;                /* load nothing, print the files */
    bool json;
} ls_get_opts;

ls_status ls_train_command(const ls_train_opts *o, const ls_ui *ui);
ls_status ls_sweep_command(const ls_sweep_opts *o, const ls_ui *ui);
ls_status ls_launch_command(const ls_launch_command_opts *o, const ls_ui *ui);
ls_status ls_verify_command(const ls_verify_opts *o, const ls_ui *ui);
ls_status ls_eval_command(const ls_eval_opts *o, const ls_ui *ui);
ls_status ls_chat_command(const ls_chat_opts *o, const ls_ui *ui);
ls_status ls_predict_command(const ls_predict_opts *o, const ls_ui *ui);
ls_status ls_data_command(const ls_data_opts *o, const ls_ui *ui);
ls_status ls_plan_command(const ls_plan_command_opts *o, const ls_ui *ui);
ls_status ls_explain_command(const ls_explain_opts *o, const ls_ui *ui);
ls_status ls_inspect_command(const ls_inspect_opts *o, const ls_ui *ui);
ls_status ls_export_command(const ls_export_opts *o, const ls_ui *ui);
/* Writes the project of `lockstep new` into a new folder. LS_E_USAGE: it exists already. */
ls_status ls_new_command(const char *dir, const ls_ui *ui);
ls_status ls_get_command(const ls_get_opts *o, const ls_ui *ui);
