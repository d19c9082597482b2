/* commands.h - what each verb of the command does, without its command line: src/cli parses into these
 * structs, the files of this folder implement. Results go to ui->out, messages through ls_log; nothing here
 * exits. Status: LS_E_USAGE means exit 2, LS_E_STOPPED 75, any other error 1. A failure with an empty message
 * has been told already, by another process. */
#pragma once
#include "lockstep/generate.h"
#include "base/ui.h"
#include "recipe/recipe_arg.h"

typedef struct ls_train_opts {
    ls_recipe_arg recipe;
    /* --resume: NULL or "auto": an existing run continues; "never": that is an error; else a checkpoint */
    const char *resume;
    bool allow_change; /* a run may continue with another recipe */
    bool dry_run;
    bool profile;
    /* steps, from 1, inclusive; both 0: steps 11 to 20, or all when fewer */
    int64_t profile_first, profile_last;
    char *const *argv; /* of this process: ranks are started with the same words */
} ls_train_opts;

typedef struct ls_eval_opts {
    ls_recipe_arg target; /* a run, a checkpoint or a recipe */
    bool json;
    char *const *argv; /* of this process: ranks are started with the same words */
} ls_eval_opts;

typedef struct ls_predict_opts {
    ls_recipe_arg target;
    int n_inputs;
    const char *const *inputs; /* image files; none: samples of a split */
    bool train_split;          /* --split train; default the evaluation split */
    int64_t first, count;      /* samples of the split; default 0, 10 */
    bool resize;               /* --resize: scale image files to the model's size */
    const char *out;           /* --out FILE.svg|FILE.png, NULL: none */
    bool show;                 /* --show: the pictures as text, too */
    /* --prompt: the text that a language model continues; NULL: none. The above is for models of images */
    const char *prompt;
    int64_t tokens; /* --tokens: at most so many more */
    ls_sampling sampling;
    bool json;
} ls_predict_opts;

/* plan, explain: --isa and --threads arrive as sets; the ISA need not exist here. ranks_per_host 0: all of
 * them on one. */
typedef struct ls_plan_command_opts {
    ls_recipe_arg recipe;
    int64_t ranks_per_host;
    int n_compare;
    /* "KEY=VALUE,VALUE,...": the cross product of these, side by side */
    const char *const *compare;
    bool json;
} ls_plan_command_opts;
typedef struct ls_explain_opts {
    ls_recipe_arg recipe;
    int64_t rank, ranks_per_host;
    const char *param; /* the life of one parameter instead of the step */
    bool full;         /* also blocks that are like the one before */
    bool json;
} ls_explain_opts;
typedef struct ls_export_opts {
    /* a run, checkpoint or weight file; a file, or with a slash at the end a directory */
    const char *from, *to;
    bool convert; /* floats to dtype */
    ls_dtype dtype;
    bool optimizer; /* with the optimizer's state: of a checkpoint, into a directory */
    bool force;     /* what is there already is replaced */
} ls_export_opts;
/* a weight file, checkpoint, run, or a recipe (its module tree, and which rank holds what) */
typedef struct ls_inspect_opts {
    ls_recipe_arg target;
    bool verify, json;
} ls_inspect_opts;

ls_status ls_train_command(const ls_train_opts *o, const ls_ui *ui);
ls_status ls_eval_command(const ls_eval_opts *o, const ls_ui *ui);
ls_status ls_predict_command(const ls_predict_opts *o, const ls_ui *ui);
ls_status ls_plan_command(const ls_plan_command_opts *o, const ls_ui *ui);
ls_status ls_explain_command(const ls_explain_opts *o, const ls_ui *ui);
ls_status ls_inspect_command(const ls_inspect_opts *o, const ls_ui *ui);
ls_status ls_export_command(const ls_export_opts *o, const ls_ui *ui);
