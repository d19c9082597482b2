/* cli.h - the command line. Parsing, help, suggestions, completion and the manual page all use one table of
 * verbs and their options (verbs.c). */
#pragma once
#include "base/log.h"
#include "base/str.h"
#include "verbs/commands.h"

typedef struct ls_option {
    const char *name;  /* "--set" */
    char letter;       /* 'q' for -q; 0: none */
    const char *value; /* name of the value in --help; NULL: none; "[X]": only as --name=X */
    const char *help;
} ls_option;

#define LS_MAX_ARGS 256
typedef struct ls_given {
    const ls_option *option;
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
    const char *sets[LS_MAX_ARGS]; /* "key=value" of --set, --workers, --threads and --isa, in order */
    int n_made;
    char *made[LS_MAX_ARGS]; /* the texts of `sets` and `words` that are malloc'ed */
} ls_args;

typedef struct ls_verb {
    const char *name;
    /* "RECIPE", "[STORAGE]"; "[--] ...": its first word is a program, and all behind it is that one's */
    const char *words;
    int min_words, max_words;
    bool recipe;              /* takes --set and --workers */
    const char *summary;      /* one line */
    const char *about;        /* a paragraph for --help and the manual page */
    const char *examples;     /* lines "command  # what it does" */
    const ls_option *options; /* its own; ended by name NULL */
    ls_status (*run)(const ls_args *a, const ls_ui *ui);
} ls_verb;

/* verbs.c */
extern const ls_verb LS_VERBS[];               /* ended by name NULL */
ls_hosts_opts ls_args_hosts(const ls_args *a); /* of --hosts and the like */
const ls_verb *ls_verb_find(const char *name);
ls_status ls_verb_unknown(const char *name); /* LS_E_USAGE naming the nearest */

/* args.c. Errors are LS_E_USAGE with the nearest known name. */
/* options of every verb; options of verbs that take a recipe; each ended by name NULL */
extern const ls_option LS_COMMON_OPTIONS[], LS_RECIPE_OPTIONS[];
ls_status ls_args_parse(ls_args *out, const ls_verb *verb, int n, char **words);
void ls_args_release(ls_args *a);
bool ls_args_has(const ls_args *a, const char *option);
/* If an option is given more than once, its last value. NULL: it is not given. */
const char *ls_args_value(const ls_args *a, const char *option);
int ls_args_count(const ls_args *a, const char *option);
/* Leaves *out as it is if the option is not given. */
ls_status ls_args_int(const ls_args *a, const char *option, int64_t least, int64_t *out);
/* Leaves *out as it is if the option is not given. */
ls_status ls_args_number(const ls_args *a, const char *option, double least, double most, double *out);
ls_recipe_arg ls_args_recipe(const ls_args *a); /* the first word, with all `sets` */

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
ls_status ls_verb_launch(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_eval(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_predict(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_data(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_plan(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_explain(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_export(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_inspect(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_recipe(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_runs(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_watch(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_new(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_get(const ls_args *a, const ls_ui *ui);
ls_status ls_verb_doctor(const ls_args *a, const ls_ui *ui);
