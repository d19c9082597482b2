/* init_weights.c - loads weights; if they do not fit, compares their names and shapes with the model's. */
#include <stdlib.h>
#include <string.h>
#include "base/arena.h"
#include "base/nf4.h"
#include "base/str.h"
#include "base/sys.h"
#include "init_weights.h"
#include "lockstep/nn.h"
#include "passes/passes.h"
#include "setup/base.h"
#include "step/trainer.h"

enum { MOST_MODULES = 4 }; /* of another shape: more are another model */

typedef struct comparison {
    const ls_weights *w;
    const ls_named_tensor *model; /* its parameters, then its buffers */
    int n;
    const char *prefix; /* of the file's names: "module." */
    ls_arena *arena;
} comparison;

static bool is_of_model(const comparison *c, const char *name)
{
    for (int i = 0; i < c->n; i++)
        if (!strcmp(c->model[i].name, name))
            return true;
    return false;
}

/* The prefix that makes names of the model of most names of the file; "": none does. */
static const char *find_prefix(const comparison *c)
{
    const int64_t n = ls_weights_count(c->w);
    const char *first = n ? ls_weights_at(c->w, 0)->name : "";
    for (const char *dot = strchr(first, '.'); dot; dot = strchr(dot + 1, '.')) {
        const size_t size = (size_t)(dot - first) + 1;
        int64_t fit = 0;
        for (int64_t i = 0; i < n; i++) {
            const char *name = ls_weights_at(c->w, i)->name;
            fit += !strncmp(name, first, size) && is_of_model(c, name + size);
        }
        if (2 * fit > n)
            return ls_arena_printf(c->arena, "%.*s", (int)size, first);
    }
    return "";
}

static bool same_dims(const ls_type *a, const ls_type *b)
{
    return a->ndim == b->ndim && !memcmp(a->dims, b->dims, sizeof *a->dims * (size_t)a->ndim);
}

/* The modules of the model of which the file has no tensor of the same name and shape, with spaces between
 * them; "": none, or so many that it is another model. */
static const char *find_modules(const comparison *c)
{
    const char *last = "", *all = "";
    int modules = 0, fit = 0;
    for (int i = 0; i < c->n; i++) {
        const char *name = c->model[i].name, *dot = strrchr(name, '.');
        const ls_weight *t = ls_weights_find(c->w, ls_arena_printf(c->arena, "%s%s", c->prefix, name));
        if (t && same_dims(&t->type, &c->model[i].tensor.type)) {
            fit++;
            continue;
        }
        const char *module = ls_arena_printf(c->arena, "%.*s", dot ? (int)(dot - name) : (int)strlen(name),
                                             name);
        if (!strcmp(module, last))
            continue;
        last = module;
        all = ls_arena_printf(c->arena, "%s%s%s", all, modules++ ? " " : "", module);
    }
    return modules <= MOST_MODULES && 2 * fit >= c->n ? all : "";
}

/* Whether the file has a tensor that the model does not have, under any name. */
static bool has_more(const comparison *c)
{
    const size_t size = strlen(c->prefix);
    for (int64_t i = 0; i < ls_weights_count(c->w); i++) {
        const char *name = ls_weights_at(c->w, i)->name;
        if (strncmp(name, c->prefix, size) || !is_of_model(c, name + size))
            return true;
    }
    return false;
}

/* Adds to the message of a failure what to set. */
static ls_status advise(ls_status s, const ls_trainer *t, const ls_weights *w)
{
    ls_arena a;
    ls_arena_init(&a);
    const int parameters = ls_trainer_parameters(t, NULL, 0), buffers = ls_trainer_buffers(t, NULL, 0);
    ls_named_tensor *model = LS_ARENA_ARRAY(&a, ls_named_tensor, parameters + buffers);
    const char *failure = ls_arena_strdup(&a, ls_error_message());
    if (s != LS_E_SHAPE || ls_arena_status(&a) != LS_OK) {
        ls_arena_release(&a);
        return s;
    }
    ls_trainer_parameters(t, model, parameters);
    ls_trainer_buffers(t, model + parameters, buffers);
    comparison c = { w, model, parameters + buffers, "", &a };
    c.prefix = find_prefix(&c);
    const char *modules = find_modules(&c);
    const bool more = has_more(&c) && (*c.prefix || *modules);
    if (*c.prefix || *modules)
        s = ls_fail(s, "%s, or set %s%s%s%s%s%s%s (docs/optimizers.md)", failure,
                    *c.prefix ? "model.rename: [{from: \"" : "", c.prefix,
                    *c.prefix ? "*\", to: \"*\"}]" : "", *c.prefix && *modules ? " and " : "",
                    *modules ? "model.reset: " : "", modules, more ? " and model.init_strict: false" : "");
    ls_arena_release(&a);
    return s;
}

static bool has_adapters(const ls_weights *w)
{
    for (int64_t i = 0; i < ls_weights_count(w); i++)
        if (ls_words_freeze(LS_LORA_NAMES, ls_weights_at(w, i)->name))
            return true;
    return false;
}

/* A frozen parameter that model.init does not have has random values, which no checkpoint would keep. */
static ls_status check_left_out(const ls_trainer *t, const ls_recipe *r, const ls_weights *w)
{
    const ls_units *u = &t->compiled.units;
    for (int i = 0; i < u->n_slots && ls_recipe_leaves_base(r); i++) {
        const char *name = u->slots[i].name;
        if (u->slots[i].frozen && !ls_nf4_part(name) && !ls_weights_find(w, name))
            return ls_fail(
                LS_E_USAGE,
                "%s is frozen and not in model.init: no checkpoint would have its random values; %s", name,
                r->train.lora.rank ? "train it too (train.lora.save)"
                                   : "train it too, or set checkpoint.frozen: copy");
    }
    return LS_OK;
}

ls_status ls_init_weights(ls_trainer *t, const ls_recipe *r, const ls_weights *w, uint64_t *base)
{
    char *reset = has_adapters(w) || !r->train.lora.rank
                      ? ls_sys_strdup(r->model.reset)
                      : ls_sys_text("%s " LS_LORA_NAMES, r->model.reset); /* new ones */
    ls_status s = ls_sys_have(reset);
    LS_TRY(s);
    s = ls_trainer_init_from(t, (uint64_t)r->run.seed, w, r->model.init_strict, reset);
    free(reset);
    if (s == LS_OK && (!t->group || ls_group_rank(t->group) == 0)) /* it writes the digest to trainer.json */
        s = ls_base_digest(base, w, r);
    if (s == LS_OK)
        s = check_left_out(t, r, w);
    return s == LS_OK ? s : ls_fail_in(advise(s, t, w), "model.init");
}
