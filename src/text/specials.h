/* specials.h - what data sets of conversations need to know of a tokenizer, besides lockstep/tokenizer.h. */
#pragma once
#include "lockstep/tokenizer.h"

/* The text of special token number i, in the order of the file; NULL: there are no more. */
const char *ls_tokenizer_special(const ls_tokenizer *t, int i);
bool ls_tokenizer_is_special(const ls_tokenizer *t, int32_t id);
ls_status ls_tokens_add(ls_tokens *t, int32_t id); /* LS_E_MEMORY */
