/* recipe_recompute.c - parallel.recompute: none, or words: units, class:NAME and pattern:GLOB name modules,
 * save:OP and save:OP/N the operations in them whose results are kept. `units` means the words of
 * parallel.units. */
#include <stdio.h>
#include <string.h>

#include "passes/passes.h"
#include "recipe_use.h"

static ls_status refuse(const ls_recipe *r, const char *why)
{
    return ls_fail(LS_E_USAGE, "%s: '%s': %s", ls_recipe_where(r, "parallel.recompute"),
                   r->parallel.recompute, why);
}

static ls_status check_units(const ls_recipe *r)
{
    if (!strcmp(r->parallel.units, "none"))
        return refuse(r, "`units` needs parallel.units, which names the FSDP modules");
    if (strstr(r->parallel.units, "size:"))
        return refuse(r, "`units` needs FSDP modules that parallel.units names by class or pattern, not by "
                         "size; or write class:NAME or pattern:GLOB here");
    return LS_OK;
}

ls_status ls_recipe_check_recompute(const ls_recipe *r)
{
    const char *rest = r->parallel.recompute;
    if (!strcmp(rest, "none"))
        return LS_OK;
    char word[512];
    bool modules = false;
    for (int used; sscanf(rest, "%511s%n", word, &used) == 1; rest += used) {
        const bool units = !strcmp(word, "units"), saves = !strncmp(word, "save:", 5);
        const bool names = !strncmp(word, "class:", 6) || !strncmp(word, "pattern:", 8);
        if (units)
            LS_TRY(check_units(r));
        else if (saves && !ls_recompute_saves(word, &(ls_recompute_save){ 0 }))
            return refuse(r, "write save:OP with an operation, such as save:linear or save:attention, or "
                             "save:OP/N, which keeps the first and then each N-th of a module; `lockstep "
                             "explain RECIPE` shows the operations");
        else if (!saves && (!names || !strchr(word, ':')[1]))
            return refuse(r, "write none, or units, class:NAME and pattern:GLOB for modules, and save:OP "
                             "for what they keep");
        modules = modules || units || names;
    }
    return modules ? LS_OK : refuse(r, "it names no module; put units, class:NAME or pattern:GLOB before it");
}

const char *ls_recipe_recompute(const ls_recipe *r)
{
    const char *rest = r->parallel.recompute, *words = "";
    if (!strcmp(rest, "none"))
        return NULL;
    char word[512];
    for (int used; words && sscanf(rest, "%511s%n", word, &used) == 1; rest += used)
        words = ls_arena_printf(&r->state->arena, "%s%s%s", words, *words ? " " : "",
                                strcmp(word, "units") ? word : r->parallel.units);
    return words;
}
