/* recorded.c - what a checkpoint stores besides tensors: the recipe of its run. Predictors of checkpoints. */
#include <stdlib.h>
#include <string.h>

#include "base.h"
#include "base/argument.h"
#include "base/file.h"
#include "base/json.h"
#include "base/sys.h"
#include "ckpt/checkpoint.h"
#include "recipe/recipe_use.h"
#include "record/run_choice.h"
#include "record/rundir.h"
#include "setup.h"
#include "step/predictor.h"

/* Reads and parses a file. The caller frees both results. */
static ls_status read_json(char **text, json_t **j, const char *path)
{
    size_t size = 0;
    LS_TRY(ls_file_read(text, &size, path));
    return ls_json_parse(j, *text, size, path);
}

ls_status ls_setup_recorded(ls_recipe **out, const char *dir, int n_sets, const char *const *sets)
{
    char *config = ls_path_join(dir, "config.json"), *trainer = ls_path_join(dir, "trainer.json"),
         *text = NULL, *own = NULL;
    json_t *state = NULL, *model = NULL;
    const char *recipe, *from = trainer;
    ls_status s;
    LS_TRY_TO(s, read_json(&text, &state, trainer), end);
    recipe = json_string_value(json_object_get(state, "recipe"));
    if (!recipe) {
        LS_TRY_TO(s, read_json(&own, &model, config), end);
        from = config;
        recipe = json_object_get(model, "model") ? own : NULL;
    }
    s = recipe ? ls_recipe_load_record(out, recipe, strlen(recipe), from, n_sets, sets)
               : ls_fail(LS_E_FORMAT, "%s contains no recipe: your own program wrote it", trainer);
end:
    json_decref(state);
    json_decref(model);
    free(text);
    free(own);
    free(config);
    free(trainer);
    return s;
}

/* The folder of the checkpoint: `path`, or one of a run's. *out is malloc'ed. */
static ls_status recorded_find(char **out, const char *path, bool best)
{
    if (!ls_dir_exists(path))
        return ls_fail(LS_E_IO, "%s: no such folder; give a checkpoint, or a run", path);
    if (ls_run_is(path))
        return ls_run_choose(out, path, best);
    if (best)
        return ls_fail(LS_E_ARG, ".best chooses among the checkpoints of a run, and %s is not a run", path);
    *out = ls_path_join(path, "");
    LS_TRY(ls_sys_have(*out));
    return ls_checkpoint_is(*out)
               ? LS_OK
               : ls_fail(LS_E_IO, "%s: neither a checkpoint (no manifest.json) nor a run (no recipe.yaml)",
                         path);
}

/* The builder is that of the recipe. */
static ls_status open_recorded(ls_predictor **out, ls_checkpoint *c, const ls_predictor_opts *o)
{
    ls_recipe *r = NULL;
    ls_setup setup;
    ls_status s = ls_setup_recorded(&r, c->dir, 0, NULL);
    if (s != LS_OK)
        return ls_fail_in(LS_E_USAGE, "ls_predictor_open: say .build, the builder of the model");
    s = ls_setup_inference(&setup, r, 1, 0, 0);
    if (s == LS_OK)
        s = ls_base_join(c, r, NULL, NULL);
    if (s == LS_OK && r->eval.ema && !o->ema)
        s = ls_checkpoint_use_ema(c);
    if (s == LS_OK)
        s = ls_recipe_blame(r, ls_predictor_make(out, ls_recipe_build, r, &setup.trainer, o, c->weights));
    ls_recipe_destroy(&r);
    return s;
}

ls_status ls_predictor_open_with(ls_predictor **out, const char *path, const ls_predictor_opts *o)
{
    LS_ARG(out);
    LS_ARG(path);
    o = o ? o : &(const ls_predictor_opts){ LS_PREDICTOR_DEFAULTS };
    const ls_trainer_opts *like = o->trainer ? o->trainer : &(const ls_trainer_opts){ LS_TRAINER_DEFAULTS };
    ls_checkpoint c = { 0 };
    char *dir = NULL;
    *out = NULL;
    ls_status s = recorded_find(&dir, path, o->best);
    if (s == LS_OK)
        s = ls_checkpoint_open(&c, dir, LS_VERIFY_FULL, NULL);
    if (s == LS_OK) {
        s = o->ema ? ls_checkpoint_use_ema(&c) : LS_OK;
        s = s != LS_OK ? s
            : o->build ? ls_predictor_make(out, o->build, o->config, like, o, c.weights)
                       : open_recorded(out, &c, o);
        ls_checkpoint_release(&c);
    }
    free(dir);
    return s;
}
