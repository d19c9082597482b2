/* saved_model.c - finds weights and the recipe that goes with them. */
#include "saved_model.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sys.h"
#include "ckpt/adapter.h"
#include "ckpt/checkpoint.h"
#include "ckpt/dcp.h"
#include "recipe/model_row.h"
#include "recipe/recipe_fields.h"
#include "recipe/recipe_use.h"
#include "record/remote.h"
#include "record/run_choice.h"
#include "record/rundir.h"
#include "comm/agree.h"
#include "launch/compare.h"
#include "loop/data_record.h"
#include "loop/module_record.h"
#include "recipe/shared_model.h"
#include "setup/base.h"
#include "setup/folder.h"
#include "step/trainer.h"

static ls_status from_run(ls_saved_model *t, const char *dir, const ls_recipe_arg *arg)
{
    LS_TRY(ls_recipe_load_run(&t->recipe, dir, arg->n_sets, arg->sets));
    t->run = ls_path_join(dir, "");
    LS_TRY(ls_sys_have(t->run));
    return ls_run_choose(&t->checkpoint, dir, arg->best);
}

/* Reads and parses a file. The caller frees both results. */
static ls_status read_json(char **text, json_t **j, const char *path)
{
    size_t size = 0;
    LS_TRY(ls_file_read(text, &size, path));
    return ls_json_parse(j, *text, size, path);
}

static ls_status from_checkpoint(ls_saved_model *t, const char *dir, const ls_recipe_arg *arg)
{
    LS_TRY(ls_setup_recorded(&t->recipe, dir, arg->n_sets, arg->sets));
    t->checkpoint = ls_path_join(dir, "");
    return ls_sys_have(t->checkpoint);
}

/* The run of a recipe that the user gives, with the module that this recipe names (recipe/shared_model.h). */
static ls_status from_run_of(ls_saved_model *t, const char *run, const ls_recipe_arg *arg, const ls_recipe *r)
{
    if (!*r->model.path || ls_recipe_setting(r->state, "model.path")->recorded) /* RUN/recipe.yaml */
        return from_run(t, run, arg);
    const char **sets = ls_sys_calloc((size_t)arg->n_sets + 1, sizeof *sets);
    char *path = ls_recipe_value(r, "model.path"), *set = path ? ls_sys_text("model.path=%s", path) : NULL;
    ls_status s = ls_sys_have(sets ? set : NULL);
    if (s == LS_OK) {
        sets[0] = set;
        memcpy(sets + 1, arg->sets, sizeof *sets * (size_t)arg->n_sets);
        s = from_run(t, run,
                     &(ls_recipe_arg){
                         .name = arg->name, .n_sets = arg->n_sets + 1, .sets = sets, .best = arg->best });
    }
    free(sets);
    free(path);
    free(set);
    return s;
}

static ls_status from_recipe(ls_saved_model *t, const ls_recipe_arg *arg)
{
    ls_recipe *r;
    LS_TRY(ls_recipe_load_to_continue(&r, arg->name, arg->n_sets, arg->sets));
    char *run = ls_storage_run(r->run.storage, r->run.name);
    bool there = ls_file_in(run, "recipe.yaml");
    ls_status s = !run    ? ls_sys_have(run)
                  : there ? from_run_of(t, run, arg, r)
                          : ls_fail(LS_E_USAGE, "%s: there is no run yet; start it with lockstep train %s",
                                    run, arg->name);
    ls_recipe_destroy(&r);
    free(run);
    return s;
}

/* How many ranks trained the weights, and where, is not a request to use as many now. */
static ls_status forget_workers(ls_recipe *r)
{
    static const char *const KEYS[] = { "workers", "workers_per_host", "cores_per_worker" };
    for (int i = 0; i < 3; i++)
        if (strcmp(ls_recipe_origin(r, KEYS[i]), "--set") != 0)
            LS_TRY(ls_recipe_reset(r, (const char *const[]){ KEYS[i], NULL }));
    return LS_OK;
}

/* A folder that is none. That of a sweep has runs. */
static ls_status no_run(const char *folder)
{
    char *first = NULL;
    struct dirent **entries = NULL;
    const int n = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char *one = first || entries[i]->d_name[0] == '.' ? NULL : ls_path_join(folder, entries[i]->d_name);
        if (one && ls_file_in(one, "recipe.yaml"))
            first = one;
        else
            free(one);
        free(entries[i]);
    }
    free(entries);
    char *near = first ? NULL : ls_recipe_near(folder);
    const ls_status s =
        first ? ls_fail(LS_E_USAGE,
                        "%s is a folder of runs: name one of them, such as %s (`lockstep runs %s` "
                        "lists them)",
                        folder, first, folder)
              : ls_fail(LS_E_USAGE,
                        "%s: neither a run (no recipe.yaml) nor a checkpoint (no manifest.json)%s%s%s",
                        folder, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    free(near);
    free(first);
    return s;
}

ls_status ls_saved_model_open(ls_saved_model *t, const ls_recipe_arg *arg)
{
    *t = (ls_saved_model){ 0 };
    ls_status s;
    if (!ls_dir_exists(arg->name))
        s = from_recipe(t, arg);
    else if (ls_file_in(arg->name, "recipe.yaml"))
        s = from_run(t, arg->name, arg);
    else if (ls_checkpoint_is(arg->name))
        s = arg->best ? ls_fail(LS_E_USAGE, "--best chooses among the checkpoints of a run, and %s is one",
                                arg->name)
                      : from_checkpoint(t, arg->name, arg);
    else if (ls_run_is(arg->name))
        s = ls_fail(LS_E_USAGE,
                    "%s: your own program made this run (config.txt, no recipe.yaml), and only it knows the "
                    "model; use runs, inspect or export",
                    arg->name);
    else
        s = no_run(arg->name);
    if (s == LS_OK)
        s = forget_workers(t->recipe);
    if (s != LS_OK)
        ls_saved_model_release(t);
    return s;
}

bool ls_saved_model_is_folder(const ls_recipe_arg *arg)
{
    return ls_dir_exists(arg->name) && !ls_file_in(arg->name, "recipe.yaml") &&
           !ls_checkpoint_is(arg->name) && (ls_file_in(arg->name, "config.json") || ls_adapter_is(arg->name));
}

static ls_status check_folder_data(const ls_recipe *r, const char *folder)
{
    const bool pairs = ls_model_reads_sources(ls_recipe_model(r));
    const char *const keys[] = { "data.eval_text", pairs ? "data.source_length" : "data.seq_length" };
    for (int i = 0; i < 2; i++)
        if (strcmp(ls_recipe_origin(r, keys[i]), "--set") != 0)
            return ls_fail(
                LS_E_USAGE,
                "%s: a folder of a model has no data to evaluate it on; name a file and the tokens "
                "of a sample: --set data.eval_text=FILE --set %s=512 (and other keys of data), or "
                "write a recipe with model.init: %s",
                folder, keys[1], folder);
    return LS_OK;
}

ls_status ls_saved_model_open_folder(ls_saved_model *t, const ls_recipe_arg *arg)
{
    *t = (ls_saved_model){ 0 };
    if (arg->best)
        return ls_fail(LS_E_USAGE,
                       "--best chooses among the checkpoints of a run, and %s is a model's folder",
                       arg->name);
    LS_TRY(ls_folder_recipe(&t->recipe, arg->name, arg->n_sets, arg->sets));
    ls_status s = check_folder_data(t->recipe, arg->name);
    if (s == LS_OK && !t->recipe->eval.batch)
        t->recipe->eval.batch = 1; /* a whole step's samples may be too many */
    if (s != LS_OK)
        ls_saved_model_release(t);
    return s;
}

bool ls_saved_model_several(const ls_saved_model *t) { return t->recipe->workers.max > 1; }

void ls_saved_model_release(ls_saved_model *t)
{
    ls_recipe_destroy(&t->recipe);
    free(t->checkpoint);
    free(t->run);
    *t = (ls_saved_model){ 0 };
}

/* trainer.json of the weights; NULL: there is none to compare with. */
static json_t *record_of(const ls_saved_model *t)
{
    json_t *j = NULL;
    char *text = NULL, *path = t->checkpoint ? ls_path_join(t->checkpoint, "trainer.json") : NULL;
    if (path && ls_file_exists(path) && read_json(&text, &j, path) != LS_OK)
        ls_log_debug("%s", ls_error_message());
    free(text);
    free(path);
    return j;
}

static char *say(const ls_saved_model *t, ls_str *difference)
{
    if (difference->len)
        ls_log_warn("%s was made with other data: %s", t->checkpoint, difference->data);
    char *text = difference->len ? ls_str_take(difference) : NULL;
    ls_str_release(difference);
    return text;
}

char *ls_saved_model_other_data(const ls_saved_model *t, const ls_dataset *set)
{
    json_t *record = record_of(t);
    ls_str difference = { 0 };
    ls_data_difference(&difference, record, set);
    ls_data_tokenizer_difference(&difference, record, set);
    json_decref(record);
    return say(t, &difference);
}

void ls_saved_model_check_module(const ls_saved_model *t)
{
    json_t *record = ls_recipe_shared_model(t->recipe) ? record_of(t) : NULL;
    ls_str difference = { 0 };
    ls_module_difference(&difference, record, t->recipe);
    if (difference.len)
        ls_log_warn("%s was made with another model: %s", t->checkpoint, difference.data);
    ls_str_release(&difference);
    json_decref(record);
}

void ls_saved_model_check_tokenizer(const ls_saved_model *t, const char *file)
{
    json_t *record = record_of(t);
    ls_str difference = { 0 };
    char *text = NULL;
    size_t n = 0;
    uint64_t digest = 0; /* of `bytes`, which is built in */
    const bool known = !strcmp(file, "bytes") || (record && ls_file_read(&text, &n, file) == LS_OK);
    if (text)
        digest = ls_hash64(text, n);
    if (known)
        ls_tokenizer_difference(&difference, record, file, digest);
    json_decref(record);
    free(text);
    free(say(t, &difference));
}

static int64_t step_of(const char *trainer_json, const char *where)
{
    json_t *j;
    if (ls_json_parse(&j, trainer_json, strlen(trainer_json), where) != LS_OK)
        return 0;
    int64_t step = json_integer_value(json_object_get(j, "step"));
    json_decref(j);
    return step;
}

static ls_status set_up(ls_setup *s, const ls_saved_model *t, ls_group *g)
{
    if (!g)
        return ls_setup_inference(s, t->recipe, 1, 0, 0);
    const int ranks = ls_group_size(g), hosts = ls_group_hosts(g);
    int threads;
    LS_TRY(ls_ranks_compare(&threads, NULL, g, t->recipe));
    LS_TRY(ls_ranks_agree(
        g, ls_setup_inference(s, t->recipe, ranks, ls_group_rank(g), hosts > 1 ? ranks / hosts : 0)));
    s->trainer.group = g;
    if (!t->recipe->threads)
        s->trainer.threads = threads;
    return LS_OK;
}

ls_status ls_saved_model_blame_model(const ls_saved_model *t, ls_status s)
{
    for (int i = 0; i < ls_key_count() && s == LS_E_SHAPE; i++)
        if (!strncmp(ls_key_at(i)->key, "model.", 6) &&
            !strcmp(ls_recipe_origin(t->recipe, ls_key_at(i)->key), "--set"))
            return ls_fail_in(LS_E_USAGE, "%s: the weights are those of another model",
                              ls_recipe_where(t->recipe, ls_key_at(i)->key));
    return s;
}

/* The weights of a checkpoint, with the base that it leaves out. */
static ls_status open_checkpoint(ls_checkpoint *c, const ls_saved_model *t, ls_group *g, int64_t *step)
{
    const ls_recipe *r = t->recipe;
    LS_TRY(ls_checkpoint_open(
        c, t->checkpoint, r->checkpoint.verify == LS_VERIFY_CHOICE_FULL ? LS_VERIFY_FULL : LS_VERIFY_SIZES,
        g));
    *step = step_of(c->trainer, t->checkpoint);
    if (!g || ls_group_rank(g) == 0)
        ls_saved_model_check_module(t);
    ls_status s = ls_base_join(c, r, g, NULL);
    if (s == LS_OK && r->eval.ema)
        s = ls_checkpoint_use_ema(c);
    if (s != LS_OK)
        ls_checkpoint_release(c);
    return s;
}

ls_status ls_saved_model_trainer(const ls_saved_model *t, ls_group *g, ls_setup *s, ls_trainer **out,
                                 int64_t *step)
{
    ls_checkpoint c = { 0 };
    *step = 0;
    LS_TRY(set_up(s, t, g));
    LS_TRY(t->checkpoint ? open_checkpoint(&c, t, g, step)
                         : ls_checkpoint_together(g, ls_setup_weights(&c.weights, t->recipe)));
    ls_status status = ls_recipe_blame(t->recipe,
                                       ls_trainer_create_with(out, ls_recipe_build, t->recipe, &s->trainer));
    if (status == LS_OK) {
        status = ls_saved_model_blame_model(t, ls_trainer_load(*out, c.weights));
        if (status != LS_OK)
            ls_trainer_destroy(out);
    }
    ls_checkpoint_release(&c);
    return status;
}

ls_status ls_saved_model_weights(ls_weights **out, const char *path, const char *prefix)
{
    if (!prefix)
        return ls_weights_open(out, path);
    return ls_dcp_is(path) && !ls_checkpoint_is(path)
               ? ls_dcp_open(out, path, &(ls_dcp_ask){ .prefix = prefix })
               : ls_fail(LS_E_USAGE, "--prefix: %s is not a PyTorch directory (it has no .metadata)", path);
}
