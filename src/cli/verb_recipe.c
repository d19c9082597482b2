/* verb_recipe.c - `recipe` and `runs`. */
#include <stdlib.h>
#include <string.h>
#include "cli.h"
#include "record/rundir.h"

static ls_status print_owned(FILE *out, char *text)
{
    if (!text)
        return LS_E_MEMORY;
    fputs(text, out);
    free(text);
    return LS_OK;
}

static ls_status print_source(FILE *out, const char *name)
{
    const char *text, *bundled;
    for (int i = 0; (bundled = ls_recipe_bundled(i, NULL, &text)); i++)
        if (!strcmp(bundled, name)) {
            fputs(text, out);
            return LS_OK;
        }
    return ls_fail(LS_E_USAGE, "--source: no bundled recipe %s (`lockstep recipe` lists them)", name);
}

ls_status ls_verb_recipe(const ls_args *a, const ls_ui *ui)
{
    const char *summary, *name;
    if (ls_args_has(a, "--reference"))
        return print_owned(ui->out, ls_recipe_reference(true));
    if (!a->n_words) {
        if (a->n_sets || ls_args_has(a, "--source"))
            return ls_fail(LS_E_USAGE, "lockstep recipe: a recipe is missing");
        for (int i = 0; (name = ls_recipe_bundled(i, &summary, NULL)); i++)
            fprintf(ui->out, "%-24s %s\n", name, summary);
        return LS_OK;
    }
    if (ls_args_has(a, "--source"))
        return print_source(ui->out, a->words[0]);
    ls_recipe *r;
    LS_TRY(ls_recipe_load(&r, a->words[0], a->n_sets, a->sets));
    char *yaml = ls_recipe_yaml(r, true);
    ls_recipe_destroy(&r);
    return print_owned(ui->out, yaml);
}
