/* verb_plan.c - options of `plan`, `explain` and `data`. */
#include <string.h>

#include "base/str.h"
#include "cli.h"
#include "plan/wires.h"

ls_status ls_verb_plan(const ls_args *a, const ls_ui *ui)
{
    const char *compare[LS_MAX_ARGS];
    ls_plan_command_opts o = { .recipe = ls_args_recipe(a),
                               .compare = compare,
                               .search = ls_args_has(a, "--search"),
                               .measure = ls_args_has(a, "--measure"),
                               .json = ls_args_has(a, "--json"),
                               .html = ls_args_value(a, "--html") };
    for (int i = 0; i < a->n_given; i++)
        if (!strcmp(a->given[i].option->name, "--compare"))
            compare[o.n_compare++] = a->given[i].value;
    LS_TRY(ls_args_int(a, "--ranks-per-host", 1, &o.where.ranks_per_host));
    if (ls_args_has(a, "--network"))
        LS_TRY(ls_wire_parse(&o.where.network, ls_args_value(a, "--network")));
    const char *memory = ls_args_value(a, "--memory");
    if (memory && (!ls_parse_bytes(memory, &o.memory) || o.memory < 1))
        return ls_fail(LS_E_USAGE, "--memory %s: write a size, as 8GiB", memory);
    return ls_plan_command(&o, ui);
}

ls_status ls_verb_explain(const ls_args *a, const ls_ui *ui)
{
    ls_explain_opts o = { .recipe = ls_args_recipe(a),
                          .param = ls_args_value(a, "--param"),
                          .full = ls_args_has(a, "--full"),
                          .measure = ls_args_has(a, "--measure"),
                          .json = ls_args_has(a, "--json"),
                          .html = ls_args_value(a, "--html"),
                          .profile = ls_args_value(a, "--profile") };
    LS_TRY(ls_args_int(a, "--rank", 0, &o.rank));
    LS_TRY(ls_args_int(a, "--ranks-per-host", 1, &o.ranks_per_host));
    return ls_explain_command(&o, ui);
}

ls_status ls_verb_data(const ls_args *a, const ls_ui *ui)
{
    ls_data_opts o = { .recipe = ls_args_recipe(a), .out = ls_args_value(a, "--out") };
    const char *split = ls_args_value(a, "--split");
    if (split && strcmp(split, "train") && strcmp(split, "eval"))
        return ls_fail(LS_E_USAGE, "--split %s: eval or train is needed", split);
    o.eval_split = split && !strcmp(split, "eval");
    o.samples = o.out ? 48 : 10;
    LS_TRY(ls_args_int(a, "--epoch", 0, &o.epoch));
    LS_TRY(ls_args_int(a, "--samples", 1, &o.samples));
    return ls_data_command(&o, ui);
}
