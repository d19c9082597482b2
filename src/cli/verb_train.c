/* verb_train.c - options of `train`. */
#include <stdlib.h>
#include "cli.h"

/* Parses "11:20", "11" (one step) or nothing (the default range). */
static ls_status parse_profile(const char *text, ls_train_opts *o)
{
    if (!text)
        return LS_OK;
    char *end;
    long long first = strtoll(text, &end, 10), last = first;
    if (end != text && *end == ':') {
        const char *second = end + 1;
        last = strtoll(second, &end, 10);
        end = end == second ? (char *)text : end;
    }
    if (end == text || *end || first < 1 || last < first)
        return ls_fail(LS_E_USAGE,
                       "--profile=%s: FIRST:LAST is needed, steps counted from 1, as --profile 11:20", text);
    o->profile_first = first;
    o->profile_last = last;
    return LS_OK;
}

ls_status ls_verb_train(const ls_args *a, const ls_ui *ui)
{
    ls_train_opts o = { .recipe = ls_args_recipe(a),
                        .resume = ls_args_value(a, "--resume"),
                        .allow_change = ls_args_has(a, "--allow-change"),
                        .dry_run = ls_args_has(a, "--dry-run"),
                        .profile = ls_args_has(a, "--profile"),
                        .argv = a->argv };
    LS_TRY(parse_profile(ls_args_value(a, "--profile"), &o));
    return ls_train_command(&o, ui);
}
