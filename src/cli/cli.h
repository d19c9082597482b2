/* cli.h - the command line. Parsing, help, suggestions, completion and the manual page all use one table of
 * verbs and their options (verbs.c). */
#pragma once
#include "base/log.h"
#include "base/str.h"
#include "option.h"
#include "verbs/commands.h"

#define LS_MAX_ARGS 256
typedef struct ls_given {
    const ls_option_row *option;
    const char *value;
} ls_given;
typedef struct ls_args {
    const struct ls_verb *verb;
    char *const *argv;    /* the whole command line */
    char *const *program; /* the words of a user's program (`launch`); NULL: none */
    int n_words;
    const char *words[LS_MAX_ARGS]; /* words that are not options, in order */
    int n_given;
    ls_given given[LS_MAX_ARGS];
    int n_sets;
    const char
        *sets[LS_MAX_ARGS]; /* "key=value" of --set and of options that are short for a key, in order */
    int n_made;
    char *made[LS_MAX_ARGS]; /* the texts of `sets` and `words` that are malloc'ed */
} ls_args;

/* Which of the processes that mpirun, srun or torchrun started do the work of a verb. The others end at once.
 */
typedef enum ls_verb_tasks { LS_TASKS_FIRST, LS_TASKS_FIRST_OF_HOST, LS_TASKS_ALL } ls_verb_tasks;

typedef struct ls_verb {
    const char *name;
    /* "RECIPE", "[STORAGE]"; "[--] ...": its first word is a program, and all behind it is that one's */
    const char *words;
    int min_words, max_words;
    bool recipe;                  /* takes --set and --workers */
    const char *summary;          /* one line */
    const char *about;            /* a paragraph for --help and the manual page */
    const char *examples;         /* lines "command  # what it does" */
    const ls_option_row *options; /* its own; ended by name NULL */
    ls_status (*run)(const ls_args *a, const ls_ui *ui);
    ls_verb_tasks tasks; /* all: as ranks, or to refuse */
} ls_verb;

/* runs: all runs of a folder; with `metrics` those of one run */
typedef struct ls_runs_opts {
    const char *storage;
    const char *metrics; /* a run: a folder, or a name in `storage`; NULL: all runs */
    bool steps;          /* of that run: steps in place of epochs */
    bool csv, json;
    const char *html; /* write a page; NULL: no */
} ls_runs_opts;

/* verbs.c */
extern const ls_verb LS_VERBS[]; /* ended by name NULL */
const ls_verb *ls_verb_find(const char *name);
ls_status ls_verb_unknown(const char *name); /* LS_E_USAGE naming the nearest */

/* args.c. Errors are LS_E_USAGE with the nearest known name. */
/* options of every verb; options of verbs that take a recipe; each ended by name NULL */
extern const ls_option_row LS_COMMON_OPTIONS[], LS_RECIPE_OPTIONS[];
ls_status ls_args_parse(ls_args *out, const ls_verb *verb, int n, char **words);
void ls_args_release(ls_args *a);
bool ls_args_has(const ls_args *a, const char *option);
/* If an option is given more than once, its last value. NULL: it is not given. */
const char *ls_args_value(const ls_args *a, const char *option);
int ls_args_count(const ls_args *a, const char *option);
ls_recipe_arg ls_args_recipe(const ls_args *a); /* the first word, with all `sets` */

/* args_take.c */
/* Checks every option that is given: its value, and which others it needs or excludes. */
ls_status ls_args_check(const ls_args *a);
/* Fills *out, the struct of the options `rows`: defaults, then what is given. */
ls_status ls_args_take(const ls_args *a, const ls_option_row *rows, void *out);

/* help.c */
void ls_help_print(FILE *out);
void ls_help_verb(FILE *out, const ls_verb *v);
/* `lockstep --verbs`: tab-separated, for the completion script and the manual page */
void ls_help_table(FILE *out);

/* terminal.c: log sink, progress line, signals. One per process. */
typedef struct ls_terminal_opts {
    ls_level level;
    bool json, no_progress;
} ls_terminal_opts;
void ls_terminal_open(ls_ui *ui, const ls_terminal_opts *o);
void ls_terminal_close(void);

/* lost_pages.c: when a mapped file is cut short, SIGBUS prints the name of the file, or tells the other
 * ranks, calls `record` with the message, and ends the process. The same for the other last words of a
 * process (comm/last_words.h). `bars`: the terminal may have a progress line. */
void ls_lost_pages_take(bool json, bool bars, void (*record)(const char *why));

/* verb_*.c */
ls_status ls_verb_train(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_sweep(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_launch(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_eval(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_chat(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_predict(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_data(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_plan(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_explain(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_export(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_inspect(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_recipe(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_verify(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_runs(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_watch(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_new(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_get(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_doctor(const ls_args *a, const ls_ui *ui);
