/* verb_recipe.c - `recipe` and `runs`. */
#include <stdlib.h>
#include <string.h>
#include "base/file.h"
#include "cli.h"
#include "recipe/model_row.h"
#include "recipe/recipe_use.h"
#include "recipe/shared_model.h"
#include "record/rundir.h"

static ls_status print_owned(FILE *out, char *text)
{
    if (!text)
        return LS_E_MEMORY;
    fputs(text, out);
    free(text);
    return LS_OK;
}

static bool is_model(const ls_model_row *m) { return m->name != NULL; }

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

/* Of all keys, of those of a model, or of those of a shared object. */
static ls_status print_reference(FILE *out, const char *of)
{
    const ls_model_row *m = of ? ls_model_row_find(of) : NULL;
    char list[LS_MODEL_LIST];
    if (!of)
        return print_owned(out, ls_recipe_reference(true));
    if (m)
        return print_owned(out, ls_recipe_reference_of(m));
    if (!ls_file_exists(of))
        return ls_fail(LS_E_USAGE,
                       "--reference: there is no model %s, nor a shared object of that name (the "
                       "models are %s)",
                       of, ls_model_list(list, is_model));
    ls_arena a;
    ls_shared_model shared;
    ls_arena_init(&a);
    ls_status s = ls_shared_model_keys(&shared, of, &a);
    if (s == LS_OK)
        s = print_owned(out, ls_module_reference(&shared.keys, &shared.data_keys));
    ls_arena_release(&a);
    return s;
}

ls_status ls_verb_recipe(const ls_args *a, const ls_ui *ui)
{
    const char *summary, *name;
    if (ls_args_has(a, "--reference"))
        return print_reference(ui->out, a->n_words ? a->words[0] : NULL);
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
    const char *why_not;
    LS_TRY(ls_recipe_load(&r, a->words[0], a->n_sets, a->sets));
    const ls_status s = ls_recipe_open_model_if_there(r, &why_not);
    char *yaml = s == LS_OK ? ls_recipe_yaml(r, true) : NULL;
    if (yaml && why_not)
        fprintf(ui->out, "# without the defaults of %s: %s\n", r->model.path, why_not);
    ls_recipe_destroy(&r);
    return s == LS_OK ? print_owned(ui->out, yaml) : s;
}
