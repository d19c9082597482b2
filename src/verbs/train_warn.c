/* train_warn.c - see train_warn.h. */
#include "train_warn.h"

#include <math.h>
#include <string.h>

#include "base/log.h"
#include "recipe/recipe_use.h"
#include "step/replicas.h"

static void warn_of_classes(const ls_loop *l, int64_t classes)
{
    const int64_t model = l->setup->classes, unused = model - classes;
    if (classes >= 0 && unused > 0)
        ls_log_warn(
            "%s: %lld, but the labels of the training data end at %lld: %lld class%s of the model ha%s no "
            "sample (model.classes: %lld fits)",
            ls_recipe_where(l->recipe, "model.classes"), (long long)model, (long long)classes - 1,
            (long long)unused, unused == 1 ? "" : "es", unused == 1 ? "s" : "ve", (long long)classes);
}

static bool is_default(const ls_recipe *r, const char *key)
{
    return !strcmp(ls_recipe_origin(r, key), "default");
}

/* Photographs are large and have colours; the defaults are those of MNIST. */
static void warn_of_images(const ls_recipe *r)
{
    const bool size = is_default(r, "model.image_size") && is_default(r, "data.size"),
               grey = is_default(r, "model.in_channels");
    if (strcmp(r->data.type, "images") || r->model.inputs.n || (!size && !grey))
        return;
    ls_log_warn("%s: the model sees images of %lld x %lld%s; %s%s%s usual for photographs",
                ls_recipe_where(r, size ? "model.image_size" : "model.in_channels"),
                (long long)r->model.image_size, (long long)r->model.image_size,
                grey ? " without colours" : "", size ? "data.size: 224" : "", size && grey ? " and " : "",
                !grey  ? " is"
                : size ? "model.in_channels: 3 are"
                       : "model.in_channels: 3 is");
}

/* The rate of the last step before the checkpoint is known. By the present schedule it would be another one.
 */
static void warn_of_rate(const ls_loop *l, bool changed)
{
    const double was = l->from.metrics.lr,
                 same = ls_schedule_rate(&l->setup->schedule, l->setup->lr, l->from.step - 1),
                 next = ls_schedule_rate(&l->setup->schedule, l->setup->lr, l->from.step);
    if (l->setup->schedule.kind == LS_SCHED_PLATEAU) /* a checkpoint may have a cut for its next step */
        return;
    if (l->from.step < l->total_steps && fabs(same - was) > 1e-6 * fabs(was)) /* false of NaN: not known */
        ls_log_warn("the learning rate jumps from %.3g in step %lld to %.3g in step %lld: %s", was,
                    (long long)l->from.step, next, (long long)l->from.step + 1,
                    changed
                        ? "the recipe or the data has changed"
                        : "the schedule is spread over all steps of the run, and train.steps or train.epochs "
                          "has changed; schedule.total_steps gives it a length of its own");
}

static void warn_of_digests(const ls_loop *l)
{
    int64_t bytes;
    int copies;
    if (l->group && l->recipe->failure.digest_every &&
        ls_replicas_cost(&bytes, &copies, &l->trainer->compiled) == LS_OK && copies == 1)
        ls_log_info("%s: no two ranks have the same parameters (parallel.data), so digests are recorded but "
                    "nothing is compared",
                    ls_recipe_where(l->recipe, "failure.digest_every"));
}

void ls_train_warn(const ls_loop *l, int64_t classes, bool continues, bool changed)
{
    warn_of_classes(l, classes);
    warn_of_digests(l);
    if (!continues)
        warn_of_images(l->recipe);
    else
        warn_of_rate(l, changed);
}
