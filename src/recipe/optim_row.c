/* optim_row.c - the tables of optimizers and schedules, and the options of the library that a recipe sets for
 * them. */
#include "optim_row.h"

#include <string.h>

#include "recipe_setting.h"

static ls_status check_sgd(const ls_recipe *r)
{
    if (r->optimizer.nesterov && (r->optimizer.momentum <= 0 || r->optimizer.dampening != 0))
        return ls_fail(LS_E_USAGE, "%s: nesterov needs a momentum above 0 and no dampening",
                       ls_recipe_where(r, "optimizer.nesterov"));
    return LS_OK;
}

static ls_status check_adafactor(const ls_recipe *r)
{
    if (r->optimizer.relative_step && r->schedule.type != LS_SCHED_CONSTANT)
        return ls_fail(LS_E_USAGE, "%s: has no effect with optimizer.relative_step true, which sets the rate",
                       ls_recipe_where(r, "schedule.type"));
    if (r->optimizer.relative_step && r->schedule.warmup_steps)
        return ls_fail(LS_E_USAGE,
                       "%s: has no effect with optimizer.relative_step true; optimizer.warmup_init warms up",
                       ls_recipe_where(r, "schedule.warmup_steps"));
    if (r->optimizer.relative_step && r->optimizer.lr != 1e-3) /* the default, which every recipe has */
        return ls_fail(LS_E_USAGE, "%s: has no effect with optimizer.relative_step true, which sets the rate",
                       ls_recipe_where(r, "optimizer.lr"));
    return LS_OK;
}

const ls_choice_row LS_OPTIMIZERS[] = {
    [LS_ADAM] = { "adam", "betas eps", NULL },
    [LS_ADAMW] = { "adamw", "betas eps", NULL },
    [LS_SGD] = { "sgd", "momentum dampening nesterov", check_sgd },
    [LS_LION] = { "lion", "betas", NULL },
    [LS_MUON] = { "muon", "betas eps muon_momentum adjust_lr", NULL },
    [LS_ADAFACTOR] = { "adafactor",
                       "scale_parameter relative_step warmup_init clip_threshold decay_rate min_scale",
                       check_adafactor },
    { NULL, NULL, NULL },
};

double ls_recipe_weight_decay(const ls_recipe *r, int group)
{
    const double own = group ? r->optimizer.groups.at[group - 1].weight_decay : -1;
    return own < 0 ? r->optimizer.weight_decay : own;
}

int ls_recipe_torch_settings(ls_dcp_setting list[LS_TORCH_MOST], const ls_recipe *r, int group, double lr)
{
    const double factor = group ? r->optimizer.groups.at[group - 1].lr_factor : 1;
    const ls_optimizer o = ls_recipe_optimizer(r);
    return ls_torch_settings(list, &o, lr * factor, r->optimizer.lr * factor,
                             ls_recipe_weight_decay(r, group));
}

ls_optimizer ls_recipe_optimizer(const ls_recipe *r)
{
    return (ls_optimizer){ .kind = r->optimizer.type,
                           .beta1 = r->optimizer.betas[0],
                           .beta2 = r->optimizer.betas[1],
                           .eps = r->optimizer.eps,
                           .weight_decay = r->optimizer.weight_decay,
                           .momentum = r->optimizer.momentum,
                           .dampening = r->optimizer.dampening,
                           .nesterov = r->optimizer.nesterov,
                           .muon_momentum = r->optimizer.muon_momentum,
                           .match_rms = r->optimizer.adjust_lr == LS_ADJUST_MATCH_RMS,
                           .clip_threshold = r->optimizer.clip_threshold,
                           .decay_rate = r->optimizer.decay_rate,
                           .min_scale = r->optimizer.min_scale,
                           .scale_parameter = r->optimizer.scale_parameter,
                           .relative_step = r->optimizer.relative_step,
                           .warmup_init = r->optimizer.warmup_init };
}

static ls_status check_decay(const ls_recipe *r)
{
    if (r->schedule.total_steps && r->schedule.total_steps <= r->schedule.warmup_steps)
        return ls_fail(LS_E_USAGE, "%s: %lld steps are not more than the %lld of the warm-up",
                       ls_recipe_where_either(r, "schedule.total_steps", "schedule.warmup_steps"),
                       (long long)r->schedule.total_steps, (long long)r->schedule.warmup_steps);
    if (r->schedule.min_lr > r->optimizer.lr)
        return ls_fail(LS_E_USAGE, "%s: larger than optimizer.lr, from which the rate falls",
                       ls_recipe_where_either(r, "schedule.min_lr", "optimizer.lr"));
    return LS_OK;
}

static ls_status check_wsd(const ls_recipe *r)
{
    if (r->schedule.total_steps &&
        r->schedule.decay_steps > r->schedule.total_steps - r->schedule.warmup_steps)
        return ls_fail(LS_E_USAGE, "%s: %lld steps are more than the %lld after the warm-up",
                       ls_recipe_where_either(r, "schedule.decay_steps", "schedule.total_steps"),
                       (long long)r->schedule.decay_steps,
                       (long long)(r->schedule.total_steps - r->schedule.warmup_steps));
    return check_decay(r);
}

static ls_status check_one_cycle(const ls_recipe *r)
{
    if (r->schedule.warmup_steps)
        return ls_fail(
            LS_E_USAGE,
            "%s: one_cycle has a rise of its own: set schedule.pct_start, the fraction of the steps "
            "in which the rate rises, and leave warmup_steps out",
            ls_recipe_where(r, "schedule.warmup_steps"));
    return LS_OK;
}

static ls_status check_plateau(const ls_recipe *r)
{
    if (r->schedule.gamma >= 1)
        return ls_fail(LS_E_USAGE, "%s: plateau lowers the rate: gamma is below 1",
                       ls_recipe_where(r, "schedule.gamma"));
    if (r->eval.every_epochs < 1 && !r->eval.every_steps && strcmp(r->checkpoint.best.metric, "train_loss"))
        return ls_fail(
            LS_E_USAGE,
            "%s: plateau follows checkpoint.best.metric, %s, which is not measured while the model "
            "trains, because eval.every_epochs is %lld: set it to 1, eval.every_steps, or "
            "checkpoint.best.metric to train_loss",
            ls_recipe_where_either(r, "schedule.type", "eval.every_epochs"), r->checkpoint.best.metric,
            (long long)r->eval.every_epochs);
    return check_decay(r);
}

const ls_choice_row LS_SCHEDULES[] = {
    [LS_SCHED_CONSTANT] = { "constant", "", NULL },
    [LS_SCHED_STEP] = { "step", "step_size step_epochs gamma", NULL },
    [LS_SCHED_COSINE] = { "cosine", "total_steps min_lr", check_decay },
    [LS_SCHED_LINEAR] = { "linear", "total_steps min_lr", check_decay },
    [LS_SCHED_POLYNOMIAL] = { "polynomial", "total_steps min_lr power", check_decay },
    [LS_SCHED_WSD] = { "wsd", "total_steps min_lr decay_steps", check_wsd },
    [LS_SCHED_ONE_CYCLE] = { "one_cycle", "total_steps pct_start div_factor final_div_factor",
                             check_one_cycle },
    [LS_SCHED_RESTARTS] = { "restarts", "min_lr period period_factor", check_decay },
    [LS_SCHED_PLATEAU] = { "plateau", "gamma min_lr patience threshold", check_plateau },
    { NULL, NULL, NULL },
};

ls_schedule ls_recipe_schedule(const ls_recipe *r)
{
    return (ls_schedule){ .kind = r->schedule.type,
                          .warmup_steps = r->schedule.warmup_steps,
                          .step_size = r->schedule.step_size,
                          .total_steps = r->schedule.total_steps,
                          .gamma = r->schedule.gamma,
                          .min_lr = r->schedule.min_lr,
                          .power = r->schedule.power,
                          .decay_steps = r->schedule.decay_steps,
                          .pct_start = r->schedule.pct_start,
                          .div_factor = r->schedule.div_factor,
                          .final_div_factor = r->schedule.final_div_factor,
                          .period = r->schedule.period,
                          .period_factor = r->schedule.period_factor };
}

const char *ls_optimizer_word(int row) { return LS_OPTIMIZERS[row].name; }
const char *ls_schedule_word(int row) { return LS_SCHEDULES[row].name; }
