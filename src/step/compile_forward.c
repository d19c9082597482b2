/* compile_forward.c - compiles a model to programs without a step: those of text generators and of
 * predictors. The order of passes is that of compile.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/sys.h"
#include "compile_own.h"
#include "graph/identity.h"
#include "graph/rewrite.h"
#include "ops/rules.h"

/* Splits the layers over axis tp. Outputs that another program reads may be sharded, but not the logits. */
static ls_status split(ls_graph **g, const ls_parallel *parallel)
{
    ls_placement *outputs = ls_sys_calloc((size_t)(*g)->n_outputs, sizeof *outputs);
    LS_TRY(ls_sys_have(outputs));
    ls_status s = ls_pass_propagate_open(g, parallel, outputs);
    for (int i = 0; i < (*g)->n_outputs && s == LS_OK; i++)
        if (!strcmp((*g)->outputs[i].name, "logits") && outputs[i].kind != LS_INVARIANT)
            s = ls_fail(LS_E_INTERNAL, "the logits of a text generator would be split over ranks");
    free(outputs);
    return s;
}

/* Inference needs no units and no f32 copies of the weights: they are stored in the type of computation. */
ls_status ls_compile_inference(ls_plan **out, const char *name, ls_build_fn build, const void *config,
                               int64_t size, const ls_precision *p, const ls_device *d,
                               const ls_parallel *parallel)
{
    ls_graph *g = NULL;
    ls_status s;
    *out = NULL;
    LS_TRY(ls_graph_create(&g, name));
    ls_graph_evaluate(g);
    LS_TRY_TO(s, build(g, config, size), done);
    LS_TRY_TO(s, ls_pass_dce(&g), done); /* before ls_pass_to_float: a loss has types of its own */
    LS_TRY_TO(s, ls_pass_low_rank(&g), done);
    if (parallel)
        LS_TRY_TO(s, split(&g, parallel), done);
    LS_TRY_TO(s, ls_pass_precision(&g, p), done);
    for (int i = 0; i < g->n_outputs; i++) {
        ls_output_entry *o = &g->outputs[i];
        if (!strcmp(o->name, "logits"))
            o->value = ls_cast(g, ls_pass_output(g, o->value, p->output), LS_F32);
        else if (ls_dtype_is_float(ls_value_type(g, o->value).dtype))
            o->value = ls_cast(g, o->value, p->param);
    }
    LS_TRY_TO(s, ls_graph_status(g), done);
    LS_TRY_TO(s, ls_program_finish(&g, d), done);
    s = ls_plan_create(out, g, d, &(ls_plan_opts){ .parallel = parallel });
done:
    ls_graph_destroy(&g);
    return s;
}

/* ---- predictions */

/* The logits of a classifier or a language model, else LS_NONE. */
static ls_value scores(const ls_graph *g)
{
    const ls_value logits = ls_output_named(g, "logits");
    const ls_type *t = ls_present(logits) ? ls_type_of(g, logits) : NULL;
    return t && t->ndim == 2 && ls_dtype_is_float(t->dtype) ? logits : LS_NONE;
}

/* The names of the outputs that a predictor of the model offers; *n: how many. NULL: out of memory. */
static const char **names_of(ls_graph *g, int64_t batch, int *n, int *by_default)
{
    const char **names = LS_ARENA_ARRAY(&g->arena, const char *, g->n_outputs + 2);
    static const char *const MORE[] = { "predicted", "probability" };
    const ls_value logits = scores(g);
    *n = 0;
    if (!ls_graph_room(g))
        return NULL;
    for (int i = 0; i < g->n_outputs; i++)
        names[(*n)++] = g->outputs[i].name;
    for (int i = 0; i < 2 && ls_present(logits); i++)
        if (!ls_present(ls_output_named(g, MORE[i])))
            names[(*n)++] = MORE[i];
    /* a text has probabilities of the whole vocabulary for every token, so they are left out by default */
    *by_default = *n - (ls_present(logits) && ls_type_of(g, logits)->dims[0] != batch &&
                        !strcmp(names[*n - 1], "probability") &&
                        !ls_present(ls_output_named(g, "probability")));
    return names;
}

static ls_status no_output(const char *name, const char *const *names, int n)
{
    ls_str all = { 0 };
    for (int i = 0; i < n; i++)
        ls_str_printf(&all, "%s%s", i ? ", " : "", names[i]);
    const char *near = ls_nearest_name(name, names, n);
    const ls_status s = ls_fail(LS_E_USAGE, "the model has no output \"%s\"%s%s%s; it has %s", name,
                                near ? ", is it \"" : "", near ? near : "", near ? "\"?" : "",
                                ls_str_text(&all));
    ls_str_release(&all);
    return s;
}

/* The words of `outputs`, or the outputs that a predictor has by default. */
static ls_status compile_forward_choose(ls_graph *g, int64_t batch, const char *outputs, const char ***out,
                                        int *n)
{
    int all = 0, by_default = 0;
    const char **names = names_of(g, batch, &all, &by_default), *word = NULL;
    *out = names;
    *n = by_default;
    LS_TRY(ls_graph_status(g));
    if (!outputs)
        return all ? LS_OK
                   : ls_fail(LS_E_USAGE,
                             "the model has no output to predict: its builder must call ls_output");
    char *rest = ls_arena_strdup(&g->arena, outputs);
    *out = LS_ARENA_ARRAY(&g->arena, const char *, strlen(outputs) / 2 + 1);
    *n = 0;
    if (!ls_graph_room(g))
        return ls_graph_status(g);
    while ((word = strsep(&rest, " "))) {
        int i = 0, twice = 0;
        while (i < all && strcmp(names[i], word))
            i++;
        if (!*word)
            continue;
        if (i == all)
            return no_output(word, names, all);
        while (twice < *n && (*out)[twice] != names[i])
            twice++;
        (*out)[*n] = names[i];
        *n += twice == *n;
    }
    return *n ? LS_OK : ls_fail(LS_E_USAGE, "outputs: no name is given");
}

static ls_status check_output(const ls_graph *g, const char *name, ls_value v, int64_t batch)
{
    const ls_type *t = ls_type_of(g, v);
    char text[128];
    return t->ndim >= 1 && t->dims[0] % batch == 0
               ? LS_OK
               : ls_fail(LS_E_SHAPE,
                         "output \"%s\" is %s: only outputs [batch, ..] have rows that can be predicted",
                         name, ls_type_text(text, t));
}

/* Makes the chosen values the only outputs of the graph. The probabilities come after ls_pass_units. */
static ls_status put_outputs(ls_graph *g, int64_t batch, const char *const *names, int n)
{
    const ls_value logits = scores(g);
    ls_value *values = LS_ARENA_ARRAY(&g->arena, ls_value, n);
    LS_TRY(ls_graph_status(g));
    for (int i = 0; i < n; i++) {
        values[i] = ls_output_named(g, names[i]);
        if (!ls_present(values[i]))
            values[i] = strcmp(names[i], "predicted") ? logits : ls_predicted(g, logits);
        LS_TRY(ls_graph_status(g));
        LS_TRY(check_output(g, names[i], values[i], batch));
    }
    g->n_outputs = 0;
    for (int i = 0; i < n; i++) {
        ls_output_of(g, (ls_identity){ .what = LS_IS_ROWS, .unit = i }, "", values[i]);
        LS_TRY(ls_graph_status(g));
        g->outputs[i].name = names[i];
    }
    return LS_OK;
}

/* Casts outputs as an evaluation does. `derived`: whether output i is the model's probabilities. */
static void cast_outputs(ls_graph *g, const ls_precision *p, const bool *derived)
{
    for (int i = 0; i < g->n_outputs; i++) {
        ls_value v = g->outputs[i].value;
        if (derived[i] || !strcmp(g->outputs[i].name, "logits"))
            v = ls_pass_output(g, v, p->output);
        if (ls_dtype_size(ls_value_type(g, v).dtype) < 4 && ls_dtype_is_float(ls_value_type(g, v).dtype))
            v = ls_cast(g, v, LS_F32);
        g->outputs[i].value = derived[i] ? ls_cast(g, ls_softmax(g, v), LS_F32) : v;
    }
}

static ls_status predictions(ls_graph **g, ls_compiled *c, const char *outputs)
{
    const char **names = NULL;
    int n = 0;
    LS_TRY(compile_forward_choose(*g, c->micro_batch, outputs, &names, &n));
    bool *derived = ls_sys_calloc((size_t)n, sizeof *derived);
    LS_TRY(ls_sys_have(derived));
    for (int i = 0; i < n; i++)
        derived[i] = !strcmp(names[i], "probability") && !ls_present(ls_output_named(*g, names[i]));
    ls_status s;
    LS_TRY_TO(s, put_outputs(*g, c->micro_batch, names, n), end);
    LS_TRY_TO(s, ls_pass_dce(g), end); /* before ls_pass_to_float: a loss has types of its own */
    if (c->precision.param == LS_F64)
        LS_TRY_TO(s, ls_pass_to_float(g, LS_F64), end);
    LS_TRY_TO(s, ls_pass_slices_up(g), end);
    LS_TRY_TO(s, ls_pass_dce(g), end);
    LS_TRY_TO(s, ls_pass_narrow(g), end);
    LS_TRY_TO(s, ls_pass_low_rank(g), end);
    LS_TRY_TO(s, ls_pass_propagate(g, &c->parallel), end);
    LS_TRY_TO(s, ls_pass_units(g, &c->precision, &c->parallel, NULL, &c->units), end);
    cast_outputs(*g, &c->precision, derived);
    LS_TRY_TO(s, ls_graph_status(*g), end);
    s = ls_program_finish(g, &c->device);
end:
    free(derived);
    return s;
}

ls_status ls_compile_predictions(ls_compiled *c, const ls_graph *model, int64_t batch, const char *outputs,
                                 const ls_precision *p, const ls_device *d)
{
    ls_graph *g = NULL;
    ls_status s;
    *c = (ls_compiled){ .device = *d,
                        .micro_batch = batch,
                        .micro_batches = 1,
                        .eval_batch = batch,
                        .parallel = { LS_PARALLEL_DEFAULTS } };
    LS_TRY(ls_parallel_check(&c->parallel));
    LS_TRY(ls_parallel_share(&c->share, &c->parallel, 1));
    LS_TRY_TO(s, ls_compiled_keep(c, p), end);
    c->precision.weights = false;
    LS_TRY_TO(s, ls_rewrite_clone(&g, model), end);
    LS_TRY_TO(s, predictions(&g, c, outputs), end);
    s = ls_plan_create(&c->plans[LS_EVAL], g, d, &(ls_plan_opts){ .parallel = &c->parallel });
end:
    ls_graph_destroy(&g);
    if (s != LS_OK)
        ls_compiled_release(c);
    return s;
}
