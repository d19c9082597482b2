/* expected.h - tokenizers for the tests of this folder, and the ids and texts that are expected of them. */
#pragma once
#include "base/json.h"
#include "lockstep/tokenizer.h"

extern json_t *golden_tokenizers;

int read_golden(void **state);

int drop_golden(void **state);

void expect_text(const char *name, const ls_tokenizer *t, const ls_tokens *ids, bool skip, const char *want);

/* The same as the ids come: whole characters only, which together are the text. */
void expect_streamed(const char *name, const ls_tokenizer *t, const ls_tokens *ids, const char *want);

void expect_small(const ls_tokenizer *t, const char *text, int n, const int32_t *want);

/* A tokenizer of one's own. */
ls_tokenizer *make_tokenizer(const char *json);
