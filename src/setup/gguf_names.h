/* gguf_names.h - what llama.cpp calls the models that become GGUF files, and their tensors. */
#pragma once
#include "lockstep/recipe.h"

/* What happens to a tensor: rows of heads take turns in models that rotate neighbours; GPT-2's matrices are
 * turned; Gemma's norms get 1 more. */
typedef enum ls_gguf_way {
    LS_GGUF_PLAIN,
    LS_GGUF_QUERIES,
    LS_GGUF_KEYS,
    LS_GGUF_TURNED,
    LS_GGUF_NORM
} ls_gguf_way;
typedef struct ls_gguf_name {
    const char *theirs, *ours; /* of transformers and of llama.cpp, without .weight and .bias */
    ls_gguf_way way;
} ls_gguf_name;

typedef struct ls_gguf_arch {
    const char *type, *arch; /* model.type, and llama.cpp's name of the architecture */
    bool turns;              /* it rotates neighbours: rows of q and k take turns (LS_GGUF_TAKE_TURNS) */
    bool gpt2;  /* names may begin with "transformer."; layer norms, and a table of positions in place of
                   rotations */
    bool gemma; /* layers with a window, in llama.cpp's own pattern */
    const char *layers; /* what the names of a layer begin with, before its number */
    const ls_gguf_name *top, *layer;
} ls_gguf_arch;

/* LS_E_UNSUPPORTED: llama.cpp does not have the model, or has it with other settings. dir: for messages. */
ls_status ls_gguf_arch_find(const ls_gguf_arch **out, const ls_recipe *r, const char *dir);
/* "self_attn.q_proj.weight" of a table: its row, and ".weight"; NULL: it has none. */
const ls_gguf_name *ls_gguf_name_find(const ls_gguf_name *rows, const char *name, const char **ending);
