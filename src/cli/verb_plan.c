/* verb_plan.c - options of `plan`, `explain` and `data`. */
#include <string.h>

#include "cli.h"
#include "plan/collective_speed.h"

ls_status ls_verb_plan(const ls_args *a, const ls_ui *ui)
{
    const char *compare[LS_MAX_ARGS];
    ls_plan_command_opts o = { .recipe = ls_args_recipe(a), .compare = compare };
    LS_TRY(ls_args_take(a, a->verb->options, &o));
    for (int i = 0; i < a->n_given; i++)
        if (!strcmp(a->given[i].option->name, "--compare"))
            compare[o.n_compare++] = a->given[i].value;
    const char *network = ls_args_value(a, "--network");
    const ls_status s = network ? ls_wire_parse(&o.where.network, network) : LS_OK;
    if (s != LS_OK)
        return ls_fail_in(s, "--network");
    return ls_plan_command(&o, ui);
}

ls_status ls_verb_explain(const ls_args *a, const ls_ui *ui)
{
    ls_explain_opts o = { .recipe = ls_args_recipe(a) };
    LS_TRY(ls_args_take(a, a->verb->options, &o));
    return ls_explain_command(&o, ui);
}

ls_status ls_verb_data(const ls_args *a, const ls_ui *ui)
{
    ls_data_opts o = { .recipe = ls_args_recipe(a), .samples = ls_args_has(a, "--out") ? 48 : 10 };
    LS_TRY(ls_args_take(a, a->verb->options, &o));
    return ls_data_command(&o, ui);
}
