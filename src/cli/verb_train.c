/* verb_train.c - options of `train` and `sweep`. */
#include <stdlib.h>
#include <string.h>
#include "cli.h"

static ls_status profile_usage(const char *text)
{
    return ls_fail(
        LS_E_USAGE,
        "--profile=%s: write FIRST:LAST (steps counted from 1), such as --profile=11:20, or a schedule, "
        "such as --profile=wait=1,warmup=1,active=3,repeat=2; active must be at least 1, and skip_first, "
        "wait, warmup and repeat (0: until the end) may be left out",
        text);
}

/* Parses "wait=1,warmup=1,active=3,repeat=2" as torch.profiler.schedule's arguments. */
static ls_status parse_schedule(const char *text, ls_profile_schedule *s)
{
    const struct {
        const char *name;
        int64_t *value;
    } members[] = { { "skip_first", &s->skip },
                    { "wait", &s->wait },
                    { "warmup", &s->warmup },
                    { "active", &s->active },
                    { "repeat", &s->repeat } };
    enum { N = sizeof members / sizeof members[0], MOST = 1000000000 };
    bool seen[N] = { false };
    for (const char *p = text; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
        int i = 0;
        char *end;
        while (i < N &&
               (strncmp(p, members[i].name, strlen(members[i].name)) || p[strlen(members[i].name)] != '='))
            i++;
        if (i == N || seen[i])
            return profile_usage(text);
        const char *number = p + strlen(members[i].name) + 1;
        const long long value = strtoll(number, &end, 10);
        if (end == number || (*end && *end != ',') || value < 0 || value > MOST)
            return profile_usage(text);
        *members[i].value = value;
        seen[i] = true;
    }
    return s->active ? LS_OK : profile_usage(text);
}

/* Parses "11:20", "11" (one step), a schedule, or nothing (the default range). */
static ls_status parse_profile(const char *text, ls_train_opts *o)
{
    if (!text)
        return LS_OK;
    if (strchr(text, '='))
        return parse_schedule(text, &o->profile_schedule);
    char *end;
    long long first = strtoll(text, &end, 10), last = first;
    if (end != text && *end == ':') {
        const char *second = end + 1;
        last = strtoll(second, &end, 10);
        end = end == second ? (char *)text : end;
    }
    if (end == text || *end || first < 1 || last < first)
        return profile_usage(text);
    o->profile_first = first;
    o->profile_last = last;
    return LS_OK;
}

/* Parses "3:120", or "3" (its first step). */
static ls_status parse_place(const char *text, ls_resume_ask *ask)
{
    ask->epoch = -1;
    if (!text)
        return LS_OK;
    char *end;
    ask->epoch = strtoll(text, &end, 10);
    bool good = end != text;
    if (good && *end == ':') {
        const char *second = end + 1;
        ask->epoch_step = strtoll(second, &end, 10);
        good = end != second;
    }
    return good && !*end && ask->epoch >= 0 && ask->epoch_step >= 0
               ? LS_OK
               : ls_fail(LS_E_USAGE,
                         "--resume-at %s: EPOCH:STEP is needed, both counted from 0, as --resume-at 3:120",
                         text);
}

/* It begins with the recipe's weights, and writes as little as a dry run does. */
static ls_status parse_find_lr(const ls_args *a, ls_train_opts *o)
{
    const char *text = ls_args_value(a, "--find-lr");
    char *end = "";
    if (!ls_args_has(a, "--find-lr"))
        return LS_OK;
    o->find_lr.steps = text ? strtoll(text, &end, 10) : 100;
    o->dry_run = true;
    o->resume.from = "never";
    return !*end && o->find_lr.steps >= 20 && o->find_lr.steps <= 100000
               ? LS_OK
               : ls_fail(LS_E_USAGE, "--find-lr=%s: a number of steps from 20 to 100000 is needed", text);
}

ls_status ls_verb_train(const ls_args *a, const ls_ui *ui)
{
    ls_train_opts o = { .recipe = ls_args_recipe(a),
                        .profile = ls_args_has(a, "--profile"),
                        .argv = a->argv };
    LS_TRY(ls_args_take(a, a->verb->options, &o));
    LS_TRY(parse_find_lr(a, &o));
    LS_TRY(parse_profile(ls_args_value(a, "--profile"), &o));
    LS_TRY(parse_place(ls_args_value(a, "--resume-at"), &o.resume));
    return ls_train_command(&o, ui);
}

ls_status ls_verb_sweep(const ls_args *a, const ls_ui *ui)
{
    ls_sweep_opts o = { .recipe = ls_args_recipe(a), .task = -1, .argv = a->argv };
    LS_TRY(ls_args_take(a, a->verb->options, &o));
    return ls_sweep_command(&o, ui);
}
