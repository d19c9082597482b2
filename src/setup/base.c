/* base.c - see base.h. */
#include "base.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/sys.h"
#include "ckpt/adapter.h"
#include "lockstep/nn.h"
#include "passes/passes.h"
#include "recipe/model_row.h"
#include "recipe/recipe_read.h"
#include "recipe/recipe_use.h"
#include "setup.h"

static bool is_frozen(const void *words, const char *name) { return ls_words_freeze(words, name); }

static ls_status digest_of(uint64_t *out, const ls_weights *w, const ls_recipe *r)
{
    return ls_weights_digest(out, w, is_frozen, ls_recipe_freeze(r));
}

ls_status ls_base_digest(uint64_t *out, const ls_weights *w, const ls_recipe *r)
{
    *out = 0;
    return ls_recipe_leaves_base(r) ? digest_of(out, w, r) : LS_OK;
}

void ls_base_record(ls_json *j, const ls_recipe *r, uint64_t digest)
{
    char text[17]; /* JSON has no whole numbers of 64 bits */
    if (!digest || !ls_recipe_leaves_base(r))
        return;
    snprintf(text, sizeof text, "%016" PRIx64, digest);
    ls_json_object(j, "base");
    ls_json_text(j, "name", r->model.init);
    ls_json_text(j, "digest", text);
    ls_json_close_object(j);
}

/* The name of the base for other programs: as the recipe has it, if a hub knows it by this name; a path
 * becomes absolute, and no link. */
static ls_status base_name(char **out, const ls_recipe *r)
{
    char *path = NULL;
    ls_adapter of = { .base = r->model.init };
    ls_arena a;
    ls_arena_init(&a);
    ls_status s = ls_init_find(&path, r->model.init);
    if (s == LS_OK && path && ls_adapter_is(path))
        s = ls_arena_outcome(&a, ls_adapter_read(&of, &a, path));
    if (*r->checkpoint.base)
        of.base = r->checkpoint.base;
    free(path);
    path = NULL;
    if (s == LS_OK && (ls_dir_exists(of.base) || ls_file_exists(of.base)))
        s = ls_init_find(&path, of.base);
    if (s == LS_OK)
        s = ls_sys_have(*out = path ? realpath(path, NULL) : ls_sys_strdup(of.base));
    free(path);
    ls_arena_release(&a);
    return s;
}

/* Of the trained parameters that belong to no adapter. */
static const char *saved_modules(ls_arena *a, const ls_units *u)
{
    const char *all = "", *last = "";
    for (int i = 0; i < u->n_slots; i++) {
        const char *name = u->slots[i].name, *dot = strrchr(name, '.');
        const char *module = ls_arena_printf(a, "%.*s", dot ? (int)(dot - name) : (int)strlen(name), name);
        if (u->slots[i].frozen || ls_adapter_has(name) || !strcmp(module, last))
            continue;
        last = module;
        all = ls_arena_printf(a, "%s%s%s", all, *all ? " " : "", module);
    }
    return all;
}

static ls_adapter adapter_of(const ls_recipe *r)
{
    ls_lora_opts o;
    ls_recipe_lora(&o, r);
    return (ls_adapter){ .rank = o.rank,
                         .alpha = o.alpha,
                         .dropout = o.dropout,
                         .rslora = o.rslora,
                         .transposed = ls_recipe_model(r)->transposed,
                         .targets = r->train.lora.targets,
                         .base = "" };
}

ls_status ls_base_adapter_text(char **out, const ls_recipe *r, const ls_units *u)
{
    const ls_model_row *m = ls_recipe_model(r);
    const char *task = !m->huggingface ? NULL : ls_model_reads_sources(m) ? "SEQ_2_SEQ_LM" : "CAUSAL_LM";
    ls_adapter x = adapter_of(r);
    char *base = NULL;
    ls_arena a;
    *out = NULL;
    if (!r->train.lora.rank || !ls_recipe_leaves_base(r))
        return LS_OK;
    ls_arena_init(&a);
    ls_status s = base_name(&base, r);
    x.base = base;
    if (s == LS_OK)
        s = ls_sys_have(*out = ls_adapter_text(&x, task, saved_modules(&a, u)));
    s = ls_arena_outcome(&a, s);
    ls_arena_release(&a);
    free(base);
    return s;
}

/* Where the base is. A place that an earlier start of the run was told may be gone again. */
static ls_status find_base(char **out, const ls_checkpoint *c, const ls_recipe *r)
{
    const char *named = r->checkpoint.base;
    const bool recorded = ls_recipe_setting(r->state, "checkpoint.base")->recorded;
    *out = NULL;
    if (*named)
        LS_TRY(ls_init_find(out, named));
    if (!*out && (!*named || recorded) && strcmp(r->model.init, "random") != 0)
        LS_TRY(ls_init_find(out, r->model.init));
    if (*out)
        return LS_OK;
    named = *named && !recorded ? named : ls_part_is(c->dir) ? r->model.init : "";
    return ls_recipe_find_base(out, c->dir, named);
}

static ls_status check_digest(uint64_t digest, const ls_checkpoint *c, const char *path)
{
    json_t *j = NULL;
    LS_TRY(ls_json_parse(&j, c->trainer, strlen(c->trainer), c->dir));
    const json_t *base = json_object_get(j, "base");
    const char *was = json_string_value(json_object_get(base, "digest")),
               *name = json_string_value(json_object_get(base, "name"));
    const ls_status s = !was || strtoull(was, NULL, 16) == digest
                            ? LS_OK
                            : ls_fail(LS_E_USAGE,
                                      "%s: its %s belong to other weights than those of %s: they were "
                                      "%s then, with the digest "
                                      "%s, and have %016" PRIx64
                                      " now; name the folder with those weights: --base FOLDER (in "
                                      "training --set checkpoint.base=FOLDER)",
                                      c->dir, ls_adapter_is(c->dir) ? "adapters" : "trained weights", path,
                                      name ? name : "named otherwise", was, digest);
    json_decref(j);
    return s;
}

static ls_status base_join(ls_checkpoint *c, const ls_recipe *r, bool check, uint64_t *digest)
{
    char *path;
    ls_weights *base = NULL;
    LS_TRY(find_base(&path, c, r));
    ls_status s = ls_setup_weights_at(&base, r, path);
    if (s == LS_OK && check)
        s = digest_of(digest, base, r);
    if (s == LS_OK && check)
        s = check_digest(*digest, c, path);
    if (s == LS_OK)
        s = ls_weights_join(c->weights, &base);
    ls_weights_close(&base);
    free(path);
    return s;
}

ls_status ls_base_check(const ls_checkpoint *c, const ls_recipe *r, const ls_units *u)
{
    if (!ls_recipe_leaves_base(r))
        return LS_OK;
    if (!ls_adapter_is(c->dir) && !ls_part_is(c->dir))
        return ls_fail(LS_E_USAGE,
                       "%s: it holds all weights, and with %s this run's checkpoints would leave the frozen "
                       "ones in model.init, which may have others; begin a run: --set model.init=%s and "
                       "another run.name",
                       c->dir, r->train.lora.rank ? "train.lora" : "checkpoint.frozen: reference", c->dir);
    for (int i = 0; i < u->n_slots; i++)
        if (u->slots[i].frozen && ls_weights_find(c->weights, u->slots[i].name))
            return ls_fail(LS_E_USAGE,
                           "%s: %s was trained, and is frozen now: this run's checkpoints would leave it in "
                           "model.init, which has its first values (checkpoint.frozen: copy keeps it)",
                           c->dir, u->slots[i].name);
    return LS_OK;
}

ls_status ls_base_join(ls_checkpoint *c, const ls_recipe *r, ls_group *g, uint64_t *digest)
{
    uint64_t mine = 0;
    if (digest)
        *digest = 0;
    if (!ls_adapter_is(c->dir) && !ls_part_is(c->dir))
        return LS_OK;
    const bool first = !g || ls_group_rank(g) == 0; /* it writes trainer.json, too */
    const ls_status s = base_join(c, r, first, &mine);
    if (digest)
        *digest = mine;
    return ls_checkpoint_together(g, s);
}

ls_status ls_base_merge(ls_checkpoint *c, const ls_recipe *r)
{
    const ls_adapter x = adapter_of(r);
    LS_TRY(ls_base_join(c, r, NULL, NULL));
    return x.rank ? ls_weights_merge(c->weights, &x) : LS_OK;
}
