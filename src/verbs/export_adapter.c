/* export_adapter.c - see export_adapter.h. */
#include "export_adapter.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/sys.h"
#include "ckpt/adapter.h"
#include "ckpt/checkpoint.h"
#include "ckpt/export_folder.h"
#include "export_select.h"
#include "recipe/recipe_use.h"
#include "setup/base.h"
#include "setup/companions.h"
#include "setup/export_model.h"
#include "setup/folder.h"
#include "setup/setup.h"

/* Of a folder of PEFT's own. */
static ls_status merge_folder(ls_checkpoint *c, const char *named)
{
    ls_adapter x;
    ls_arena a;
    ls_weights *base = NULL;
    char *path = NULL;
    ls_arena_init(&a);
    ls_status s = ls_arena_outcome(&a, ls_adapter_read(&x, &a, c->dir));
    if (s == LS_OK)
        s = ls_recipe_find_base(&path, c->dir, named);
    if (s == LS_OK)
        s = ls_weights_open(&base, path);
    if (s == LS_OK)
        s = ls_weights_join(c->weights, &base);
    if (s == LS_OK)
        s = ls_weights_merge(c->weights, &x);
    ls_weights_close(&base);
    free(path);
    ls_arena_release(&a);
    return s;
}

static ls_status merge_checkpoint(ls_checkpoint *c, const char *named)
{
    ls_recipe *r = NULL;
    char *set = *named ? ls_sys_text("checkpoint.base=%s", named) : NULL;
    const char *const sets[] = { set };
    LS_TRY(ls_sys_have(*named && !set ? NULL : c));
    ls_status s = ls_setup_recorded(&r, c->dir, set ? 1 : 0, sets);
    if (s == LS_OK && !r->train.lora.rank)
        s = ls_fail(LS_E_USAGE, "--merge: %s has no adapters (train.lora): leave --merge out", c->dir);
    if (s == LS_OK)
        s = ls_base_merge(c, r);
    ls_recipe_destroy(&r);
    free(set);
    return s;
}

/* A file would be taken for a model. */
static ls_status check_target(const ls_export_opts *o, const char *from)
{
    if (o->format == LS_EXPORT_FOLDER || o->format == LS_EXPORT_GGUF)
        return LS_OK;
    return ls_fail(LS_E_USAGE,
                   "--to %s: %s has adapters without their base: --merge writes the whole model, "
                   "--to FOLDER/ a folder for PEFT, and --to FILE.gguf an adapter for llama.cpp",
                   o->to, from);
}

/* An adapter for llama.cpp, beside the GGUF file of its base. */
static ls_status write_gguf(ls_checkpoint *c, const ls_export_opts *o, const ls_weights_export_opts *opts)
{
    ls_adapter x;
    ls_arena a;
    ls_arena_init(&a);
    ls_status s = ls_arena_outcome(&a, ls_adapter_read(&x, &a, c->dir));
    if (s == LS_OK && o->mix != LS_GGUF_UNCHANGED && o->mix != LS_GGUF_MIX_F32)
        s = ls_fail(LS_E_USAGE,
                    "--type: an adapter is small and stays f32; with --merge it is the model's type");
    if (s == LS_OK)
        s = ls_gguf_export_adapter(c->weights, &x, c->dir, o->base, o->to, opts);
    ls_arena_release(&a);
    return s;
}

static ls_status write_folder(ls_checkpoint *c, const ls_export_opts *o, const ls_weights_export_opts *opts)
{
    char *path = ls_path_join(c->dir, LS_ADAPTER_CONFIG), *text = NULL;
    size_t size = 0;
    ls_companions beside = { 0 };
    ls_status s = ls_file_read(&text, &size, path);
    free(path);
    if (s == LS_OK)
        s = ls_companions_in(&beside, c->dir);
    if (s == LS_OK) {
        s = ls_companions_add_text(&beside, LS_ADAPTER_CONFIG, text);
        text = NULL;
    }
    if (s == LS_OK)
        s = ls_adapter_name_for_peft(c->weights);
    if (s == LS_OK)
        s = ls_weights_export_folder(c->weights, o->to, LS_ADAPTER_WEIGHTS, beside.at, beside.n,
                                     ls_companion_is, opts);
    ls_companions_release(&beside);
    free(text);
    return s;
}

/* config.json and the tokenizer are beside the adapters or, if PEFT wrote them, beside their base. */
static ls_status write_merged(ls_checkpoint *c, const ls_export_opts *o, const ls_weights_export_opts *opts)
{
    const char *named = o->base ? o->base : "";
    char *described = NULL;
    LS_TRY(c->trainer ? merge_checkpoint(c, named) : merge_folder(c, named));
    LS_TRY(ls_folder_config(&described, c->dir, named));
    ls_status s = ls_export_select(c->weights, c->dir, o);
    if (s == LS_OK)
        s = ls_export_model(c->weights, described, o->to,
                            &(ls_export_how){ .format = o->format, .mix = o->mix, .opts = opts });
    free(described);
    return s;
}

ls_status ls_export_adapter(const ls_export_opts *o, const char *from, const ls_weights_export_opts *opts,
                            int64_t *n)
{
    ls_checkpoint c = { 0 };
    if (o->optimizer)
        return ls_fail(LS_E_USAGE,
                       "--optimizer: adapters are exported without the optimizer's state; the checkpoint "
                       "%s has it",
                       from);
    if (!o->merge)
        LS_TRY(check_target(o, from));
    if (!ls_checkpoint_is(from) && !ls_adapter_is(from))
        return ls_fail(LS_E_USAGE, "--merge: %s is neither a run, a checkpoint nor a folder of PEFT", from);
    ls_status s = LS_OK;
    if (ls_checkpoint_is(from))
        s = ls_checkpoint_open(&c, from, LS_VERIFY_FULL, NULL);
    else if ((s = ls_sys_have(c.dir = ls_sys_strdup(from))) == LS_OK)
        s = ls_weights_open(&c.weights, from);
    if (s == LS_OK && o->ema)
        s = ls_checkpoint_use_ema(&c);
    if (s == LS_OK)
        s = (o->merge ? write_merged : o->format == LS_EXPORT_GGUF ? write_gguf : write_folder)(&c, o, opts);
    *n = s == LS_OK ? ls_weights_count(c.weights) : 0;
    ls_checkpoint_release(&c);
    return s;
}
