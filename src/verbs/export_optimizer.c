/* export_optimizer.c - see export_optimizer.h. PyTorch's loading needs every setting that its Adam, AdamW or
 * SGD has. They come from the recipe of the checkpoint or, of your own program, from param_groups of its
 * trainer.json (step/torch_settings.h). */
#include "export_optimizer.h"

#include <string.h>

#include "base/json.h"
#include "ckpt/dcp.h"
#include "passes/passes.h"
#include "recipe/model_row.h"
#include "recipe/optim_row.h"
#include "recipe/recipe_use.h"

/* Which group each parameter is in follows from the model, and nothing else does: it is built for that. */
static ls_status lay_out(ls_units *u, const ls_recipe *r)
{
    const char *words[LS_RECIPE_LIST];
    const ls_trained what = { .freeze = ls_recipe_freeze(r),
                              .n_groups = (int)r->optimizer.groups.n,
                              .groups = words };
    ls_graph *g = NULL;
    for (int i = 0; i < what.n_groups; i++)
        words[i] = r->optimizer.groups.at[i].match;
    LS_TRY(ls_graph_create(&g, r->run.name));
    ls_graph_evaluate(g); /* one sample is too few for batch norm in training */
    ls_status s = ls_recipe_build(g, r, 1);
    if (s == LS_OK)
        s = ls_units_lay_out(u, g, NULL, &what, &(ls_precision){ LS_PRECISION_DEFAULTS });
    ls_graph_destroy(&g);
    return s;
}

static int64_t group_of(const void *context, const char *name)
{
    const ls_units *u = context;
    for (int i = 0; i < u->n_slots; i++)
        if (!strcmp(u->slots[i].name, name))
            return u->slots[i].group;
    return 0; /* a buffer, which has no state */
}

/* Sets the steps that the optimizer has made. SGD counts none. */
static ls_status find_steps(ls_dcp_optimizer *o)
{
    const ls_weight *count = ls_weights_find(o->state, "step");
    o->steps = -1;
    for (int i = 0; count && i < o->groups->n; i++)
        if (!strcmp(o->groups->at[i].name, "betas"))
            return ls_weight_read(count, LS_I64, &o->steps);
    return LS_OK;
}

/* The epoch that ended with the checkpoint. */
static void find_epoch(ls_dcp_optimizer *o, const json_t *trainer)
{
    const int64_t next = json_integer_value(json_object_get(trainer, "next_epoch")),
                  done = json_integer_value(json_object_get(trainer, "next_epoch_step"));
    o->epoch = done == 0 ? next - 1 : -1;
    o->last_step = json_integer_value(json_object_get(trainer, "steps_per_epoch")) - 1;
}

static ls_status export_with(ls_dcp_optimizer *optimizer, const ls_checkpoint *c, const ls_export_target *to)
{
    LS_TRY(find_steps(optimizer));
    return ls_dcp_export(c->weights, optimizer, to->prefix, to->dir, to->opts);
}

static ls_status export_groups(const ls_checkpoint *c, const ls_recipe *r, const ls_units *u,
                               const json_t *trainer, const ls_export_target *to)
{
    ls_dcp_setting settings[LS_RECIPE_LIST + 1][LS_TORCH_MOST];
    ls_dcp_settings groups[LS_RECIPE_LIST + 1];
    const json_t *rate = json_object_get(trainer, "lr"); /* of the last step; null before the first */
    const double lr = json_is_number(rate) ? json_number_value(rate) : r->optimizer.lr;
    const int n = (int)r->optimizer.groups.n + 1;
    for (int i = 0; i < n; i++)
        groups[i] = (ls_dcp_settings){ ls_recipe_torch_settings(settings[i], r, i, lr), settings[i] };
    if (!groups->n)
        return ls_fail(LS_E_UNSUPPORTED,
                       "--optimizer: the state of %s cannot be written for PyTorch; export the weights "
                       "alone",
                       LS_OPTIMIZERS[r->optimizer.type].name);
    ls_dcp_optimizer o = {
        .state = c->optimizer, .n = n, .groups = groups, .group_of = n > 1 ? group_of : NULL, .context = u
    };
    find_epoch(&o, trainer);
    return export_with(&o, c, to);
}

static ls_status export_recipe(const ls_checkpoint *c, const char *yaml, const json_t *trainer,
                               const ls_export_target *to)
{
    ls_recipe *r = NULL;
    ls_units u = { 0 };
    LS_TRY(ls_recipe_load_record(&r, yaml, strlen(yaml), "the recipe in trainer.json", 0, NULL));
    ls_status s = r->optimizer.groups.n ? lay_out(&u, r) : LS_OK;
    if (s == LS_OK)
        s = export_groups(c, r, &u, trainer, to);
    ls_units_release(&u);
    ls_recipe_destroy(&r);
    return s;
}

/* ---- a checkpoint of your own program */

static int64_t recorded_group_of(const void *context, const char *name)
{
    const json_t *groups = context;
    for (size_t g = 0; g < json_array_size(groups); g++) {
        const json_t *params = json_object_get(json_array_get(groups, g), "params");
        for (size_t i = 0; i < json_array_size(params); i++)
            if (!strcmp(json_string_value(json_array_get(params, i)), name))
                return (int64_t)g;
    }
    return -1;
}

static bool read_recorded(ls_dcp_setting *out, const char *name, const json_t *v)
{
    const bool pair = json_is_array(v) && json_array_size(v) == 2;
    *out = (ls_dcp_setting){ .name = name,
                             .kind = json_is_null(v)      ? LS_DCP_NONE
                                     : json_is_boolean(v) ? LS_DCP_BOOL
                                     : pair               ? LS_DCP_PAIR
                                                          : LS_DCP_FLOAT,
                             .a = pair              ? json_number_value(json_array_get(v, 0))
                                  : json_is_true(v) ? 1
                                                    : json_number_value(v),
                             .b = pair ? json_number_value(json_array_get(v, 1)) : 0 };
    return strcmp(name, "params") != 0;
}

static ls_status export_recorded(const ls_checkpoint *c, json_t *list, const ls_export_target *to)
{
    const size_t n = json_array_size(list);
    ls_arena a;
    ls_arena_init(&a);
    ls_dcp_settings *groups = LS_ARENA_ARRAY(&a, ls_dcp_settings, (int64_t)n + 1);
    for (size_t g = 0; groups && g < n; g++) {
        json_t *group = json_array_get(list, g), *value;
        const char *name;
        ls_dcp_setting *all = LS_ARENA_ARRAY(&a, ls_dcp_setting, (int64_t)json_object_size(group) + 1);
        int k = 0;
        if (all)
            json_object_foreach(group, name, value) k += read_recorded(&all[k], name, value);
        groups[g] = (ls_dcp_settings){ k, all };
    }
    ls_status s = ls_arena_status(&a);
    if (s == LS_OK)
        s = export_with(&(ls_dcp_optimizer){ .state = c->optimizer,
                                             .n = (int64_t)n,
                                             .groups = groups,
                                             .group_of = recorded_group_of,
                                             .context = list,
                                             .epoch = -1 },
                        c, to);
    ls_arena_release(&a);
    return s;
}

ls_status ls_export_optimizer(const ls_checkpoint *c, const ls_export_target *to)
{
    json_t *j = NULL;
    LS_TRY(ls_json_parse(&j, c->trainer, strlen(c->trainer), c->dir));
    const char *yaml = json_string_value(json_object_get(j, "recipe"));
    json_t *groups = json_object_get(j, "param_groups");
    ls_status s;
    if (!c->optimizer)
        s = ls_fail(LS_E_UNSUPPORTED, "--optimizer: %s holds no state of an optimizer", c->dir);
    else if (yaml)
        s = export_recipe(c, yaml, j, to);
    else if (json_array_size(groups))
        s = export_recorded(c, groups, to);
    else
        s = ls_fail(
            LS_E_UNSUPPORTED,
            "--optimizer: %s/trainer.json does not have the settings of its optimizer: an older "
            "version wrote it, no step was made, or PyTorch has no such optimizer; export the weights "
            "alone",
            c->dir);
    json_decref(j);
    return s;
}
