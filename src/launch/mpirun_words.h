/* mpirun_words.h - what comes out of the stderr of mpirun or srun, line by line: facts (fact.h), words of the
 * ranks, and words of its own, which are kept for the case that nobody else can say what is wrong. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include "base/str.h"

typedef struct ls_mpirun_words {
    const char *name;   /* of the command */
    ls_str line, block; /* block: between two rulers of dashes, which may be mpirun's own words */
    bool in_block;
    char said[1200]; /* of its own: the first lines */
} ls_mpirun_words;

/* A line without its end; is_fact: what stood between the two characters. */
typedef void ls_line_fn(void *context, const char *line, bool is_fact);
void ls_mpirun_words_take(ls_mpirun_words *w, const char *text, size_t n, ls_line_fn *take, void *context);
void ls_mpirun_words_end(ls_mpirun_words *w, ls_line_fn *take, void *context);
const char *ls_mpirun_words_said(const ls_mpirun_words *w);
void ls_mpirun_words_release(ls_mpirun_words *w);
