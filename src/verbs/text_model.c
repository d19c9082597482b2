/* text_model.c - see text_model.h. */
#include "text_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/stop.h"
#include "base/str.h"
#include "base/sys.h"
#include "ckpt/checkpoint.h"
#include "comm/agree.h"
#include "data/tokenize.h"
#include "generate/of_recipe.h"
#include "recipe/recipe_read.h"
#include "recipe/recipe_use.h"
#include "record/rundir.h"
#include "setup/base.h"
#include "setup/folder.h"
#include "step/trainer.h"

/* Whether the name is neither a folder nor a recipe. */
static bool is_nothing(const char *name)
{
    if (ls_dir_exists(name))
        return false;
    return ls_file_exists(name) ? ls_ends_with(name, ".safetensors") : !ls_recipe_bundled_text(name);
}

static ls_status open_target(ls_text_model *m, const ls_recipe_arg *arg, bool trained, bool alone)
{
    const bool folder = !trained && ls_dir_exists(arg->name) && !ls_run_is(arg->name) &&
                        !ls_checkpoint_is(arg->name);
    if (folder || (!trained && is_nothing(arg->name))) {
        char *dir;
        LS_TRY(ls_folder_find(&dir, arg->name, false)); /* fails with the message for a missing folder */
        free(dir);
    }
    if (folder && arg->best)
        return ls_fail(LS_E_USAGE,
                       "--best chooses among the checkpoints of a run, and %s is a model's folder",
                       arg->name);
    LS_TRY(folder ? ls_folder_recipe(&m->saved.recipe, arg->name, arg->n_sets, arg->sets)
                  : ls_saved_model_open(&m->saved, arg));
    const ls_model_row *row = ls_recipe_model(m->saved.recipe);
    char list[LS_MODEL_LIST];
    if (!ls_model_makes_text(row))
        return ls_fail(LS_E_USAGE, "%s: a model of type %s does not generate text; models that do: %s",
                       arg->name, row->name, ls_model_list(list, ls_model_makes_text));
    if (alone && ls_saved_model_several(&m->saved))
        return ls_fail(LS_E_USAGE,
                       "text is generated in one process, with all its threads: leave out workers");
    return ls_setup_inference(&m->setup, m->saved.recipe, 1, 0, 0);
}

/* The name of the tokenizer. A checkpoint has its files, so the folder that the recipe names may be gone. */
static ls_status name_tokenizer(const char **out, const ls_text_model *m)
{
    const ls_recipe *r = m->saved.recipe;
    char *own = NULL;
    *out = r->data.tokenizer;
    if (!m->saved.checkpoint || !strcmp(*out, "bytes") ||
        !strcmp(ls_recipe_origin(r, "data.tokenizer"), "--set"))
        return LS_OK;
    LS_TRY(ls_tokenizer_file(&own, m->saved.checkpoint));
    *out = own ? m->saved.checkpoint : *out;
    free(own);
    return LS_OK;
}

/* The folder has tokens that end a text; NULL: only the recipe has. */
static ls_status open_tokenizer(ls_text_model *m, const char *folder)
{
    const ls_recipe *r = m->saved.recipe;
    const char *name;
    char *file = NULL;
    LS_TRY(name_tokenizer(&name, m));
    LS_TRY(ls_recipe_check_names(r, "data.tokenizer"));
    LS_TRY(ls_recipe_blame(r, ls_tokenizer_find(&file, name)));
    ls_status s = ls_tokenizer_open(&m->tokenizer, file);
    if (s == LS_OK)
        ls_saved_model_check_tokenizer(&m->saved, file);
    free(file);
    LS_TRY(s);
    char *config = NULL;
    s = folder ? ls_folder_config(&config, folder, r->checkpoint.base) : LS_OK;
    if (config)
        s = ls_folder_ends(m->ends, LS_MAX_ENDS, &m->n_ends, config);
    free(config);
    LS_TRY(s);
    if (m->n_ends)
        return LS_OK;
    m->n_ends = 1;
    return ls_recipe_blame(r, ls_tokenizer_end(&m->ends[0], m->tokenizer, r->data.end_token, name));
}

ls_status ls_text_model_open(ls_text_model *m, const ls_recipe_arg *arg, bool trained, bool alone)
{
    *m = (ls_text_model){ 0 };
    ls_status s = open_target(m, arg, trained, alone);
    if (s == LS_OK)
        s = open_tokenizer(m, m->saved.checkpoint ? NULL : arg->name);
    if (s != LS_OK)
        ls_text_model_release(m);
    return s;
}

ls_status ls_text_model_of_run(ls_text_model *m, ls_recipe *r, const ls_setup *setup, ls_trainer *t)
{
    *m = (ls_text_model){ .saved = { .recipe = r }, .setup = *setup, .trainer = t };
    ls_stop_hold(true); /* a rank that ends here alone could not save with the others */
    const ls_status s = open_tokenizer(m, NULL);
    ls_stop_hold(false);
    if (s != LS_OK)
        ls_text_model_release(m);
    return s;
}

void ls_text_model_release(ls_text_model *m)
{
    if (m->trainer)
        m->saved.recipe = NULL; /* of the run */
    ls_generator_destroy(&m->generator);
    ls_tokenizer_close(&m->tokenizer);
    ls_saved_model_release(&m->saved);
}

bool ls_text_model_is_end(const ls_text_model *m, int32_t id)
{
    for (int i = 0; i < m->n_ends; i++)
        if (m->ends[i] == id)
            return true;
    return false;
}

static ls_status add_end(const ls_text_model *m, ls_tokens *ids)
{
    int32_t *more = ls_sys_realloc(ids->ids, sizeof *more * (size_t)(ids->n + 1));
    if (!more)
        return ls_fail(LS_E_MEMORY, "out of memory for a prompt");
    ids->ids = more;
    ids->ids[ids->n++] = m->ends[0];
    ids->room = ids->n;
    return LS_OK;
}

/* As the data set makes a source: prefix and text, cut, with an end token. */
static ls_status encode_source(const ls_text_model *m, const char *text, ls_tokens *ids)
{
    const int64_t most = m->saved.recipe->data.source_length;
    ls_str source = { 0 };
    ls_str_add(&source, m->saved.recipe->data.prefix);
    ls_str_add(&source, text);
    ls_status s = ls_str_status(&source);
    if (s == LS_OK)
        s = ls_tokenizer_encode(m->tokenizer, ls_str_text(&source), source.len, true, ids);
    ls_str_release(&source);
    LS_TRY(s);
    if (!ids->n || ids->ids[ids->n - 1] != m->ends[0])
        LS_TRY(add_end(m, ids));
    if (ids->n > most) {
        ls_log_warn("the source has %lld tokens and is cut to %lld, as in training; --set "
                    "data.source_length=%lld reads all of it",
                    (long long)ids->n, (long long)most, (long long)ids->n);
        ids->n = most;
        ids->ids[most - 1] = m->ends[0];
    }
    return LS_OK;
}

/* A tokenizer may add an end token, which is removed, because the text goes on. An empty prompt becomes an
 * end token: what follows one begins a new text. */
ls_status ls_text_model_encode(const ls_text_model *m, const char *prompt, ls_tokens *ids)
{
    if (ls_model_reads_sources(m->setup.model))
        return encode_source(m, prompt, ids);
    LS_TRY(ls_tokenizer_encode(m->tokenizer, prompt, strlen(prompt), true, ids));
    while (*prompt && ids->n > 1 && ls_text_model_is_end(m, ids->ids[ids->n - 1]))
        ids->n--;
    return ids->n ? LS_OK : add_end(m, ids);
}

static ls_status take_weights(ls_text_model *m)
{
    ls_tensor_list all = { 0 };
    ls_status s = ls_trainer_whole(m->trainer, &all);
    if (s == LS_OK)
        s = ls_generator_take_weights(m->generator, &all);
    ls_trainer_forget_whole(m->trainer, &all);
    return s;
}

static ls_status generator_of_run(ls_text_model *m, const ls_generator_opts *o)
{
    ls_group *g = m->setup.trainer.group;
    ls_generator_destroy(&m->generator);
    const ls_status s = ls_generator_of_recipe(&m->generator, m->saved.recipe, NULL, o);
    LS_TRY(g ? ls_ranks_agree(g, s) : s);
    return take_weights(m);
}

ls_status ls_text_model_generator(ls_text_model *m, const ls_generator_opts *o)
{
    const ls_trainer_opts *t = &m->setup.trainer;
    ls_generator_opts all = *o;
    ls_checkpoint c;
    ls_weights *w;
    ls_status s;
    all.device = t->device;
    all.isa = t->isa;
    all.threads = t->threads;
    all.kernels = t->kernels;
    all.param = t->param;
    all.modules = t->modules;
    all.output = t->output;
    if (m->trainer) {
        ls_stop_hold(true);
        s = generator_of_run(m, &all);
        ls_stop_hold(false);
        return s;
    }
    all.group = m->group;
    if (!m->saved.checkpoint) {
        LS_TRY(ls_setup_weights(&w, m->saved.recipe));
        s = ls_generator_of_recipe(&m->generator, m->saved.recipe, w, &all);
        ls_weights_close(&w);
        return s;
    }
    const bool full = m->saved.recipe->checkpoint.verify == LS_VERIFY_CHOICE_FULL;
    LS_TRY(ls_checkpoint_open(&c, m->saved.checkpoint, full ? LS_VERIFY_FULL : LS_VERIFY_SIZES, m->group));
    s = ls_base_join(&c, m->saved.recipe, m->group, NULL);
    if (s == LS_OK && m->saved.recipe->eval.ema)
        s = ls_checkpoint_use_ema(&c);
    if (s == LS_OK)
        s = ls_generator_of_recipe(&m->generator, m->saved.recipe, c.weights, &all);
    ls_checkpoint_release(&c);
    return ls_saved_model_blame_model(&m->saved, s);
}

ls_generate_opts ls_text_model_options(const ls_text_model *m, const ls_generate_opts *how)
{
    ls_generate_opts o = *how;
    o.ends = m->ends;
    o.n_ends = m->n_ends;
    return o;
}
