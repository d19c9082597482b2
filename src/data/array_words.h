/* array_words.h - the words of texts in a table, and the first token of each. */
#pragma once
#include "base/str.h"
#include "lockstep/tokenizer.h"

/* A word of a row's text. */
typedef struct ls_array_word {
    size_t at, n;  /* its bytes in `texts` */
    int64_t token; /* its first token; -1: the text was cut before it, or it has none */
} ls_array_word;

/* The words of all texts of a column: those of row i are words[first[i]] to words[first[i + 1] - 1]. */
typedef struct ls_array_words {
    ls_str texts;
    ls_array_word *words;
    int64_t *first; /* [rows + 1] */
    int64_t rows, n;
    int room[2];
} ls_array_words;

/* Reads "x.csv:COLUMN", the column of the field's name without what follows ":". Texts are cut to `tokens`,
 * as ls_array_texts cuts them. Errors as there. */
ls_status ls_array_words_open(ls_array_words *out, const char *file, const char *field, const char *tokenizer,
                              int64_t tokens);
void ls_array_words_close(ls_array_words *w);
