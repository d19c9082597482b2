/* gguf_tokenizer.h - the tokenizer and the chat template of a folder as keys of a GGUF file. */
#pragma once
#include "ckpt/gguf.h"

/* vocabulary: the rows of the model's table. ends: the tokens that end a text, by the model's settings.
 * LS_E_UNSUPPORTED: llama.cpp has no such tokenizer, or this version does not know how it calls it. */
ls_status ls_gguf_tokenizer(ls_gguf_keys *k, const char *dir, int64_t vocabulary, const int32_t *ends,
                            int n_ends);
