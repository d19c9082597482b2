/* companions.h - the files that the folder of a text model has besides its weights: those of the tokenizer,
 * the chat template, settings of generation. With them predict, transformers and llama.cpp need no other
 * folder. */
#pragma once
#include "ckpt/checkpoint.h"
#include "lockstep/recipe.h"

enum { LS_MOST_COMPANIONS = 16 };
typedef struct ls_companions {
    ls_beside at[LS_MOST_COMPANIONS];
    int n;
} ls_companions;

/* A file of this name is one, or describes an adapter. */
bool ls_companion_is(const char *name);
/* Those that a folder has. LS_E_MEMORY; release it then, too. */
ls_status ls_companions_in(ls_companions *c, const char *dir);
/* Those of the recipe's tokenizer, and the generation settings of model.init. A recipe without a tokenizer
 * has none; a tokenizer that is no longer there is LS_E_USAGE. */
ls_status ls_companions_of(ls_companions *c, const ls_recipe *r);
/* Adds a text; takes it over. text NULL: there was no memory for it. */
ls_status ls_companions_add_text(ls_companions *c, const char *name, char *text);
void ls_companions_release(ls_companions *c);
