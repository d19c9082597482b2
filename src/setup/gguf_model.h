/* gguf_model.h - a model as a GGUF file for llama.cpp: which of our models it has, under which names, with
 * which keys. A model that it has is a row of the table in gguf_model.c; a tokenizer one of gguf_tokenizer.c.
 */
#pragma once
#include "ckpt/gguf.h"
#include "lockstep/recipe.h"

/* Types of a file. Q4_K_M: most matrices Q4_K, those that matter most Q6_K, as llama.cpp mixes them. */
typedef enum ls_gguf_mix {
    LS_GGUF_UNCHANGED, /* the type that the first matrix has */
    LS_GGUF_MIX_F32,
    LS_GGUF_MIX_F16,
    LS_GGUF_MIX_BF16,
    LS_GGUF_MIX_Q8_0,
    LS_GGUF_MIX_Q4_0,
    LS_GGUF_MIX_Q4_K_M
} ls_gguf_mix;
/* Their words, as LS_GGUF_UNCHANGED and so on. */
#define LS_GGUF_MIX_WORDS "unchanged", "f32", "f16", "bf16", "q8_0", "q4_0", "q4_k_m"
struct ls_adapter; /* ckpt/adapter.h */
/* Writes the adapter `x`, whose tensors are `w` and which lies in `dir`, as one for llama.cpp. base: a folder
 * with the config.json of its base; NULL: what the adapter names. LS_E_UNSUPPORTED: it stores whole modules
 * too. */
ls_status ls_gguf_export_adapter(const ls_weights *w, const struct ls_adapter *x, const char *dir,
                                 const char *base, const char *to, const ls_weights_export_opts *o);
/* Writes `w`, the weights of the model's folder `dir`, to the file `to`. LS_E_UNSUPPORTED: llama.cpp has no
 * such model or tokenizer, or this version does not know how it calls it. */
ls_status ls_gguf_export(const ls_weights *w, const char *dir, const char *to, ls_gguf_mix mix,
                         const ls_weights_export_opts *o);
