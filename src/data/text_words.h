/* text_words.h - the words of a text, and the first token of each. */
#pragma once
#include "lockstep/tokenizer.h"

/* The next word of a text from *at on; *n: its bytes. NULL: there is none. */
const char *ls_next_word(const char *text, size_t *at, size_t *n);
/* The first of the tokens from *k on that has a byte of the word of n bytes before byte `end`; -1: none. *k
 * becomes the first one that begins at `end` or later. */
int64_t ls_word_token(const ls_text_ranges *at, int64_t *k, size_t end, size_t n);
