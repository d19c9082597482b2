/* export_select.c - a part of the weights: one module's, or what was trained. */
#include "export_select.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/sys.h"
#include "ckpt/checkpoint.h"
#include "ckpt/select.h"
#include "passes/passes.h"
#include "recipe/recipe_use.h"

typedef struct selection {
    const char *module, *freeze; /* NULL: any; none */
    bool strip;
    int64_t kept;
} selection;

/* Running statistics are not parameters: nobody trains them, and they change. */
static bool is_statistic(const char *name)
{
    static const char *const ENDS[] = { "running_mean", "running_var", "num_batches_tracked" };
    const char *last = strrchr(name, '.');
    bool is = false;
    for (size_t i = 0; i < sizeof ENDS / sizeof ENDS[0]; i++)
        is |= !strcmp(last ? last + 1 : name, ENDS[i]);
    return is;
}

static const char *name_of(void *context, const char *name)
{
    selection *s = context;
    const size_t n = s->module ? strlen(s->module) : 0;
    if (s->module && (strncmp(name, s->module, n) || (name[n] != '.' && name[n])))
        return NULL;
    if (s->freeze && ls_words_freeze(s->freeze, name) && !is_statistic(name))
        return NULL;
    s->kept++;
    return s->strip && name[n] ? name + n + 1 : name;
}

/* train.freeze of the recipe that the checkpoint was trained by. */
static ls_status read_freeze(char **freeze, const char *from)
{
    char *path = ls_path_join(from, "trainer.json"), *text = NULL;
    size_t size = 0;
    json_t *j = NULL;
    ls_recipe *r = NULL;
    const char *yaml = NULL;
    ls_status s = ls_sys_have(path);
    if (s == LS_OK && ls_checkpoint_is(from))
        s = ls_file_read(&text, &size, path);
    if (s == LS_OK && text)
        s = ls_json_parse(&j, text, size, path);
    if (s == LS_OK && !(yaml = json_string_value(json_object_get(j, "recipe"))))
        s = ls_fail(LS_E_USAGE, "--ignore-frozen: %s has no recipe that says what was frozen (train.freeze)",
                    from);
    if (s == LS_OK)
        s = ls_recipe_load_record(&r, yaml, strlen(yaml), "the recipe in trainer.json", 0, NULL);
    if (s == LS_OK)
        s = ls_sys_have(*freeze = ls_sys_strdup(ls_recipe_freeze(r)));
    ls_recipe_destroy(&r);
    json_decref(j);
    free(text);
    free(path);
    return s;
}

ls_status ls_export_select(ls_weights *w, const char *from, const ls_export_opts *o)
{
    char *freeze = NULL;
    if (!o->module && !o->ignore_frozen)
        return LS_OK;
    if (o->ignore_frozen)
        LS_TRY(read_freeze(&freeze, from));
    selection s = { .module = o->module, .freeze = freeze, .strip = o->strip_prefix };
    ls_status status = ls_weights_select(w, name_of, &s);
    free(freeze);
    if (status == LS_OK && !s.kept)
        status = ls_fail(LS_E_USAGE, "%s%s: %s has no such tensor (lockstep inspect lists them)",
                         o->module ? "--module " : "--ignore-frozen", o->module ? o->module : "", from);
    return status;
}
