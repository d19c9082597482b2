/* resume_dcp.c - continues training that a PyTorch program has begun. Its directory has weights, moments and
 * the number of steps. It does not say which samples come next, and of the recipe only the settings of the
 * optimizer can be compared. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"
#include "recipe/optim_row.h"
#include "resume.h"
#include "step/state.h"

static void add_value(ls_str *out, const ls_dcp_setting *s)
{
    char a[32], b[32];
    switch (s->kind) {
    case LS_DCP_NONE: ls_str_add(out, "None"); return;
    case LS_DCP_BOOL: ls_str_add(out, s->a != 0 ? "true" : "false"); return;
    case LS_DCP_FLOAT: ls_str_add(out, ls_format_f64(a, s->a)); return;
    case LS_DCP_PAIR: ls_str_printf(out, "[%s, %s]", ls_format_f64(a, s->a), ls_format_f64(b, s->b));
    }
}

/* Whether the setting decides what a step computes. The learning rate comes from the schedule; the others
 * only choose PyTorch's implementation. */
static bool is_compared(const char *name)
{
    static const char *const FREE[] = {
        "lr", "initial_lr", "foreach", "fused", "capturable", "differentiable"
    };
    for (size_t i = 0; i < sizeof FREE / sizeof FREE[0]; i++)
        if (!strcmp(name, FREE[i]))
            return false;
    return true;
}

static bool same_value(const ls_dcp_setting *a, const ls_dcp_setting *b)
{
    return a->kind == b->kind && a->a == b->a && (a->kind != LS_DCP_PAIR || a->b == b->b);
}

/* Whether a group of the directory has the parameter. With flatten_optimizer_state_dict each parameter is a
 * group of its own name; a group of which the directory names no parameter has all. */
static bool has(const ls_dcp_state *s, const char *group, const char *parameter)
{
    bool named = false;
    for (int64_t i = 0; i < s->n_members; i++) {
        if (strcmp(s->members[i].group, group))
            continue;
        if (!strcmp(s->members[i].parameter, parameter))
            return true;
        named = true;
    }
    return !named && (strspn(group, "0123456789") == strlen(group) || !strcmp(group, parameter));
}

/* The setting of the first parameter that the two groups have in common and that differs; NULL: none does. */
static const char *differing(const ls_dcp_setting *here, const ls_dcp_group_setting *there,
                             const ls_dcp_state *s, const ls_units *u, int group)
{
    for (int i = 0; i < u->n_slots && !same_value(here, &there->is); i++)
        if (!u->slots[i].frozen && u->slots[i].group == group && has(s, there->group, u->slots[i].name))
            return u->slots[i].name;
    return NULL;
}

/* Appends "optimizer.betas: [0.9, 0.999] here, [0.8, 0.95] there; ...". */
static void resume_dcp_compare(ls_str *out, const ls_dcp_state *s, const ls_recipe *r, const ls_units *u)
{
    ls_dcp_setting here[LS_TORCH_MOST];
    for (int group = 0; group <= r->optimizer.groups.n; group++) {
        const int n = ls_recipe_torch_settings(here, r, group, r->optimizer.lr);
        for (int i = 0; i < n; i++)
            for (int64_t k = 0; k < s->n && is_compared(here[i].name); k++) {
                const ls_dcp_group_setting *there = &s->settings[k];
                if (strcmp(there->is.name, here[i].name) || !differing(&here[i], there, s, u, group))
                    continue;
                ls_str_printf(out, "%soptimizer.%s: ", out->len ? "; " : "", here[i].name);
                add_value(out, &here[i]);
                if (group)
                    ls_str_printf(out, " here (group %d), ", group);
                else
                    ls_str_add(out, " here, ");
                add_value(out, &there->is);
                ls_str_printf(out, " there (param_groups.%s; the update, and what its state means)",
                              there->group);
                break;
            }
    }
}

static ls_status check_settings(ls_resume_change *change, const ls_dcp_state *s, const ls_recipe *r,
                                const ls_units *u, bool allow_change)
{
    ls_str changed = { 0 };
    resume_dcp_compare(&changed, s, r, u);
    if (!changed.len)
        return LS_OK;
    if (!allow_change) {
        ls_status status = ls_fail(
            LS_E_USAGE,
            "%s was made with other settings: %s; write the settings of the directory in the recipe, or "
            "continue with these changes: --allow-change",
            s->dir, changed.data);
        ls_str_release(&changed);
        return status;
    }
    ls_log_warn("changed since %s: %s", s->dir, changed.data);
    change->what = changed.data;
    return LS_OK;
}

/* Without --resume-at the position is that of the directory's metadata.json, if it has one. */
static ls_status find_position(ls_resume_ask *at, const ls_dcp_state *s, const ls_resume_ask *asked)
{
    int64_t ended, step;
    *at = *asked;
    if (asked->epoch >= 0)
        return LS_OK;
    LS_TRY(ls_dcp_ended(&ended, &step, s->dir));
    if (ended < 0)
        return LS_OK;
    at->epoch = ended + 1;
    at->epoch_step = 0;
    ls_log_info("state  %s/" LS_DCP_ENDED " says that epoch %lld has ended: continues with epoch %lld",
                s->dir, (long long)ended, (long long)at->epoch);
    return LS_OK;
}

/* Finds epoch and step of the next step: those of --resume-at or metadata.json, or what the number of steps
 * gives. */
static ls_status find_next_step(ls_resume_point *out, const ls_dcp_state *s, const ls_resume_ask *ask,
                                int64_t each)
{
    *out = (ls_resume_point){ .step = s->steps, .steps_per_epoch = each };
    if (ask->epoch < 0) {
        out->epoch = s->steps / each;
        out->epoch_step = s->steps % each;
        ls_log_warn(
            "%s does not say which samples come next: continues with epoch %lld, step %lld of %lld, which "
            "is where this recipe is after %lld steps; --resume-at EPOCH:STEP sets another position",
            s->dir, (long long)out->epoch, (long long)out->epoch_step, (long long)each, (long long)s->steps);
        return LS_OK;
    }
    if (ask->epoch_step >= each || ask->epoch_step > s->steps)
        return ls_fail(
            LS_E_USAGE,
            "--resume-at %lld:%lld: an epoch has %lld steps here (counted from 0), and the optimizer has "
            "made %lld",
            (long long)ask->epoch, (long long)ask->epoch_step, (long long)each, (long long)s->steps);
    out->epoch = out->base_epoch = ask->epoch;
    out->epoch_step = ask->epoch_step;
    out->base_step = s->steps - ask->epoch_step;
    return LS_OK;
}

static void resume_dcp_describe(const ls_dcp_state *s)
{
    const double rate = ls_dcp_state_rate(s);
    char shown[32] = "", text[64] = "";
    if (!isnan(rate))
        snprintf(text, sizeof text, "; its rate was %s, from now on it is the recipe's",
                 ls_format_f64(shown, rate));
    ls_log_info("state  of PyTorch's, after %lld steps: weights and moments%s%s", (long long)s->steps,
                s->numbered ? ", whose parameters are numbered: taken in the order of the model" : "", text);
}

static ls_status resume_dcp_load(ls_resume_point *out, ls_resume_change *change, ls_dcp_state *s,
                                 ls_trainer *t, const ls_recipe *r, const ls_resume_now *now)
{
    ls_resume_ask at;
    ls_dcp_setting unused[LS_TORCH_MOST];
    if (!ls_recipe_torch_settings(unused, r, 0, 0))
        return ls_fail(LS_E_UNSUPPORTED,
                       "--resume %s: optimizer %s cannot continue from a PyTorch directory; start a new "
                       "run with its weights: --set model.init=%s",
                       s->dir, LS_OPTIMIZERS[r->optimizer.type].name, s->dir);
    LS_TRY(ls_checkpoint_together(t->group, find_position(&at, s, now->asked)));
    const ls_resume_ask *ask = &at;
    const int64_t said = ask->epoch < 0 ? -1 : ask->epoch * now->steps_per_epoch + ask->epoch_step;
    LS_TRY(ls_trainer_init(t, (uint64_t)r->run.seed));
    LS_TRY(ls_trainer_load_dcp(t, s, said));
    if (s->steps < 0)
        return ls_fail(LS_E_USAGE, "%s: its optimizer does not count steps: give --resume-at EPOCH:STEP",
                       s->dir);
    LS_TRY(check_settings(change, s, r, &t->compiled.units, now->allow_change));
    LS_TRY(find_next_step(out, s, ask, now->steps_per_epoch));
    resume_dcp_describe(s);
    return LS_OK;
}

ls_status ls_resume_load_dcp(ls_resume_point *out, ls_resume_change *change, const char *path, ls_trainer *t,
                             const ls_recipe *r, const ls_resume_now *now)
{
    ls_dcp_state s;
    if (t->compiled.only_trained) /* its frozen weights may be others than those of model.init */
        return ls_fail(
            LS_E_USAGE,
            "--resume %s: with train.lora or checkpoint.frozen: reference a run continues from its "
            "own checkpoints; begin one with these weights: --set model.init=%s",
            path, path);
    ls_status status = ls_checkpoint_together(t->group, ls_dcp_state_open(&s, path, now->asked->prefix));
    if (status == LS_OK)
        status = resume_dcp_load(out, change, &s, t, r, now);
    ls_dcp_state_release(&s);
    LS_TRY(status);
    out->metrics = (ls_run_metrics){ .loss = NAN,
                                     .lr = NAN,
                                     .best_value = NAN,
                                     .stop_value = NAN,
                                     .plateau_value = NAN,
                                     .step = out->step,
                                     .epoch = out->epoch_step > 0 ? out->epoch : out->epoch - 1 };
    t->step_number = out->step;
    return LS_OK;
}
