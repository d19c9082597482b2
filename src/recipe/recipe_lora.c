/* recipe_lora.c - train.lora: the options of the adapters, and what they leave to train. */
#include <stdio.h>
#include <string.h>
#include "lockstep/nn.h"
#include "recipe_use.h"

bool ls_recipe_lora(ls_lora_opts *out, const ls_recipe *r)
{
    const int64_t rank = r->train.lora.rank;
    *out = (ls_lora_opts){ .rank = rank,
                           .alpha = r->train.lora.alpha > 0 ? r->train.lora.alpha : 2 * (double)rank,
                           .dropout = r->train.lora.dropout,
                           .rslora = r->train.lora.rslora,
                           .targets = r->train.lora.targets };
    return rank > 0;
}

const char *ls_recipe_freeze(const ls_recipe *r)
{
    ls_arena *a = &r->state->arena;
    const char *words = LS_LORA_FREEZE;
    char word[256];
    if (!r->train.lora.rank)
        return r->train.freeze;
    for (const char *save = r->train.lora.save; *(save += strspn(save, " ")); save += strcspn(save, " "))
        if (sscanf(save, "%255s", word) == 1)
            words = ls_arena_printf(a, "%s !%s", words, word);
    return *r->train.freeze ? ls_arena_printf(a, "%s %s", words, r->train.freeze) : words;
}

bool ls_recipe_leaves_base(const ls_recipe *r)
{
    return r->train.lora.rank && strcmp(r->model.init, "random") != 0;
}
