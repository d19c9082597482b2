/* option.h - a row of a command's table of options (verbs.c): how its value is read and checked, which other
 * options it needs or excludes, and what --help, the manual and the completions say of it. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "base/str.h"

typedef enum ls_option_kind {
    LS_OPTION_FLAG,   /* bool; the option has no value */
    LS_OPTION_TEXT,   /* const char * */
    LS_OPTION_FILE,   /* const char *: a path; completion offers files */
    LS_OPTION_FOLDER, /* const char *: a path; completion offers folders */
    LS_OPTION_INT,    /* int or int64_t, from min to max */
    LS_OPTION_REAL,   /* double, from min to max */
    LS_OPTION_CHOICE, /* bool or an enum: the number of the word */
    LS_OPTION_DTYPE,  /* ls_dtype: one of the words */
    LS_OPTION_BYTES,  /* int64_t: a size such as 8GiB, at least one byte */
} ls_option_kind;

/* `needs` and `excludes` are lists of conditions, ended by NULL: "--beams": the option is given with another
 * value than its default; "--out *.npy *.csv": its value matches one of the patterns; "--resume !never": its
 * value does not match. */
typedef struct ls_option_row {
    const char *name; /* "--set" */
    ls_option_kind kind;
    /* name of the value in --help; NULL: the words. "[X]": the value may be left out, and is given as
     * --name=X
     */
    const char *value;
    size_t offset, size;  /* of the member of the command's struct; size 0: the verb's code reads the value */
    const char *fallback; /* default, which --help shows; NULL: the member stays as it is */
    double min, max;      /* INT, REAL; max INFINITY: no limit */
    bool above;           /* the range excludes min */
    const char *const *words; /* CHOICE, DTYPE: all that are allowed; FOLDER: allowed beside a path */
    /* the recipe key that it is short for, which has its range and words; "": the value is KEY=VALUE */
    const char *key;
    const char *const *needs;    /* one of these must be true */
    const char *const *excludes; /* all of these must be false; one of the two options has the condition */
    const char *why;             /* why it needs or excludes them; ends the message */
    char letter;                 /* 'q' for -q; 0: none */
    const char *otherwise;       /* the default in words, where no `fallback` says it */
    bool repeat;                 /* it may be given several times; of others the last value counts */
    bool page;                   /* FILE: its name ends in .html, or it is a device */
    const char *help;
} ls_option_row;

/* A row's place in the struct: the member of the verb's options. */
#define LS_OPTION_AT(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)

/* option.c */
/* Reads the value (NULL: none was given) into the option's member of *out; out NULL: only checks it.
 * LS_E_USAGE with the option, the value and what is allowed. */
ls_status ls_option_read(const ls_option_row *o, const char *text, void *out);
/* Whether the condition is true of an option that is given with this value. */
bool ls_option_meets(const ls_option_row *o, const char *condition, const char *text);

/* option_text.c. `rows` is the list of options that the option is in, ended by name NULL. */
const ls_option_row *ls_option_find(const ls_option_row *rows, const char *name, size_t n); /* NULL: none */
/* The others append to *out. */
void ls_option_usage(ls_str *out, const ls_option_row *o); /* "--top-p P", "--split eval|train" */
/* The text of --help: which options it needs, `help`, range or words, default, which options it excludes. */
void ls_option_help(ls_str *out, const ls_option_row *rows, const ls_option_row *o);
/* The words of the row, or of its key; nothing: it has none. `last` stands in front of the last. */
void ls_option_words(ls_str *out, const ls_option_row *o, const char *between, const char *last);
/* " from 1 to 1024"; nothing: it has none. `high`: also a limit that only guards the arithmetic */
void ls_option_range(ls_str *out, const ls_option_row *o, bool high);
/* "--prompt or --out FILE.jsonl"; `value`: "--prompt TEXT or --out FILE.jsonl" */
void ls_option_conditions(ls_str *out, const ls_option_row *rows, const char *const *list, bool value);
