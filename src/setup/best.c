/* best.c - the metric by which checkpoints are compared, among those that the model declares. */
#include <string.h>

#include "base/str.h"
#include "nn/measure.h"
#include "recipe/recipe_use.h"
#include "setup.h"
#include "text/rouge.h"

static ls_status best_refuse(const ls_recipe *r, const ls_objective *o)
{
    const char *asked = r->checkpoint.best.metric, *names[1 + LS_MOST_METRICS];
    ls_str all = { 0 };
    int n = 0;
    names[n++] = "loss";
    for (int i = 0; i < o->n; i++)
        if (!o->terms[i].loss || o->n_losses > 1)
            names[n++] = o->terms[i].name;
    ls_str_add(&all, "train_loss");
    for (int i = 0; i < n; i++)
        ls_str_printf(&all, ", eval_%s", names[i]);
    const char *name = asked + strlen("eval_"), *nearest = ls_nearest_name(name, names, n);
    if (ls_measure_may_ask(name))
        ls_str_printf(&all, "; `eval.metrics: [%s]` adds it", name);
    else if (nearest)
        ls_str_printf(&all, "; is it eval_%s?", nearest);
    const ls_status s = ls_fail(LS_E_USAGE, "%s: the model has no metric %s; there are %s",
                                ls_recipe_where(r, "checkpoint.best.metric"), asked, ls_str_text(&all));
    ls_str_release(&all);
    return s;
}

ls_status ls_setup_best(ls_recipe *r, const ls_compiled *c)
{
    const char *metric = r->checkpoint.best.metric;
    const ls_objective *o = &c->objective;
    if (strncmp(metric, "eval_", 5) || !strcmp(metric, "eval_loss") || ls_metric_of_texts(metric))
        return LS_OK; /* the recipe was checked */
    for (int i = 0; i < o->n; i++)
        if (!strcmp(o->terms[i].name, metric + 5) && (!o->terms[i].loss || o->n_losses > 1))
            return ls_recipe_best_mode(r, ls_term_direction(&o->terms[i]));
    return best_refuse(r, o);
}
