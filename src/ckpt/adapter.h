/* adapter.h - an adapter's folder, as Hugging Face's PEFT writes it: adapter_config.json, and beside it the
 * trained tensors in adapter_model.safetensors under their names behind "base_model.model.". The weights that
 * they belong to, the base, are elsewhere. ls_weights_open of such a folder gives the adapter's tensors
 * alone, under the names that they have in the model. */
#pragma once
#include "base/arena.h"
#include "lockstep/weights.h"

#define LS_ADAPTER_CONFIG "adapter_config.json"
#define LS_ADAPTER_WEIGHTS "adapter_model" /* .safetensors */
#define LS_ADAPTER_PREFIX "base_model.model."

/* What adapter_config.json says. */
typedef struct ls_adapter {
    int64_t rank;
    double alpha, dropout;
    bool rslora;         /* the factor is alpha / sqrt(rank), not alpha / rank */
    bool transposed;     /* fan_in_fan_out: the weights of the layers are [in, out], as GPT-2's */
    const char *targets; /* ends of layers' names, with spaces between them, or all-linear */
    const char *base;    /* base_model_name_or_path; "": it names none */
} ls_adapter;

/* Whether the folder holds an adapter, and no whole model. Local. */
bool ls_adapter_is(const char *dir);
/* Reads a text of adapter_config.json, whose name is `path`. Strings go to `a`. LS_E_UNSUPPORTED names an
 * option that changes what is computed and that this version does not have. Local. */
ls_status ls_adapter_parse(ls_adapter *out, ls_arena *a, const char *text, size_t size, const char *path);
ls_status ls_adapter_read(ls_adapter *out, ls_arena *a, const char *dir);
/* The text for PEFT. `task`: its name of what the model does; NULL: none. `modules`: those that are stored
 * whole, with spaces between them. malloc'ed; NULL: no memory. */
char *ls_adapter_text(const ls_adapter *x, const char *task, const char *modules);
/* The modules of the tensors that belong to no adapter, with spaces between them. It lies in `a`. */
const char *ls_adapter_modules(ls_arena *a, const ls_weights *w);

/* Whether the folder is a checkpoint with what is trained alone, without adapters (checkpoint.frozen:
 * reference). No other program takes its file for a whole model. Local. */
#define LS_TRAINED_WEIGHTS "trained" /* .safetensors */
bool ls_part_is(const char *dir);

/* Whether a tensor belongs to an adapter. */
bool ls_adapter_has(const char *name);
/* Adds the tensors of `base` that `w` does not have. *base becomes NULL: w owns it. Local. */
ls_status ls_weights_join(ls_weights *w, ls_weights **base);
/* Puts W + scale B A in the place of each W that has an adapter, and leaves the adapters out. The sums are
 * made in f32 when a tensor is read, and rounded once. LS_E_SHAPE: an adapter is of another model. Local. */
ls_status ls_weights_merge(ls_weights *w, const ls_adapter *x);
/* Gives the tensors of `w` the names that PEFT knows. Local. */
ls_status ls_adapter_name_for_peft(ls_weights *w);
/* A number that depends on the names, types, shapes and bytes of the tensors that `takes` accepts (NULL:
 * all). */
ls_status ls_weights_digest(uint64_t *out, const ls_weights *w,
                            bool (*takes)(const void *context, const char *), const void *context);
/* Of a weight file or a checkpoint: the digest that a save writes for these values (element_digest.h).
 * Local. */
ls_status ls_weights_element_digest(uint64_t *out, const char *path);
