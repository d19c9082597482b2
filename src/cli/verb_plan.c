/* verb_plan.c - options of `plan` and `explain`. */
#include "cli.h"

ls_status ls_verb_plan(const ls_args *a, const ls_ui *ui)
{
    const ls_plan_command_opts o = { .recipe = ls_args_recipe(a), .json = ls_args_has(a, "--json") };
    return ls_plan_command(&o, ui);
}

ls_status ls_verb_explain(const ls_args *a, const ls_ui *ui)
{
    ls_explain_opts o = { .recipe = ls_args_recipe(a), .param = ls_args_value(a, "--param"), .json = ls_args_has(a, "--json") };
    LS_TRY(ls_args_int(a, "--rank", 0, &o.rank));
    if (o.rank > 0)
        return ls_fail(LS_E_USAGE, "--rank %lld: this version runs one rank, number 0", (long long)o.rank);
    return ls_explain_command(&o, ui);
}
