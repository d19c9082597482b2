/* recipe_lora.c - train.lora: the options of the adapters, and what they leave to train. */
#include <stdio.h>
#include <string.h>
#include "lockstep/nn.h"
#include "recipe_use.h"

/* Appends the words of train.lora.save, each with a ! in front. */
static const char *without_saved(const char *words, const ls_recipe *r)
{
    char word[256];
    for (const char *save = r->train.lora.save; *(save += strspn(save, " ")); save += strcspn(save, " "))
        if (sscanf(save, "%255s", word) == 1)
            words = ls_arena_printf(&r->state->arena, "%s !%s", words, word);
    return words;
}

bool ls_recipe_lora(ls_lora_opts *out, const ls_recipe *r)
{
    const int64_t rank = r->train.lora.rank;
    *out = (ls_lora_opts){ .rank = rank,
                           .alpha = r->train.lora.alpha > 0 ? r->train.lora.alpha : 2 * (double)rank,
                           .dropout = r->train.lora.dropout,
                           .rslora = r->train.lora.rslora,
                           .targets = without_saved(r->train.lora.targets, r) };
    return rank > 0;
}

const char *ls_recipe_freeze(const ls_recipe *r)
{
    if (!r->train.lora.rank)
        return r->train.freeze;
    const char *words = without_saved(LS_LORA_FREEZE, r);
    return *r->train.freeze ? ls_arena_printf(&r->state->arena, "%s %s", words, r->train.freeze) : words;
}

bool ls_recipe_leaves_base(const ls_recipe *r)
{
    return (r->train.lora.rank || r->checkpoint.frozen == LS_FROZEN_REFERENCE) &&
           strcmp(r->model.init, "random") != 0;
}
