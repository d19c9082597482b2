/* array_text.h - a column of texts in a table, as an array of token ids. */
#pragma once
#include "data/array_file.h"

/* Reads the column as i32 [rows, as->length] into f->heap: the ids of each text with the tokenizer's special
 * tokens, cut to the length, or filled up with as->pad. Counts the texts that were cut. Two columns are pairs
 * of texts: [rows, 2, as->length], the ids of both and their token types; the longer text is cut first. With
 * as->words: the classes of the words of that column, each at the word's first token, LS_IGNORE_LABEL
 * elsewhere. LS_E_USAGE: a tokenizer that does not fit; LS_E_FORMAT: a line of the table. */
ls_status ls_array_texts(ls_array_file *f, const char *path, const char *table, size_t n, int n_columns,
                         const char *const *columns, const ls_array_tokens *as);
