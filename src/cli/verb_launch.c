/* verb_launch.c - options of `launch`. */
#include <errno.h>
#include <stdlib.h>
#include "cli.h"

enum { MOST = 1000000 }; /* as of the recipe key */

/* "4", or "1:4". */
static ls_status parse_workers(const char *text, ls_launch_command_opts *o)
{
    char *end;
    errno = 0;
    o->least_workers = o->workers = strtoll(text, &end, 10);
    if (end != text && *end == ':') {
        const char *second = end + 1;
        o->workers = strtoll(second, &end, 10);
        end = end == second ? (char *)(uintptr_t)text : end;
    }
    if (end == text || *end || errno || o->least_workers < 1 || o->workers < o->least_workers ||
        o->workers > MOST)
        return ls_fail(LS_E_USAGE,
                       "--workers %s: a number of ranks from 1 to %d is needed, or LEAST:MOST for as many as "
                       "there are cores",
                       text, MOST);
    return LS_OK;
}

ls_status ls_verb_launch(const ls_args *a, const ls_ui *ui)
{
    ls_launch_command_opts o = { .program = a->program };
    const char *workers = ls_args_value(a, "--workers");
    LS_TRY(ls_args_take(a, a->verb->options, &o));
    if (workers)
        LS_TRY(parse_workers(workers, &o));
    else if (!o.hosts.list && !o.hosts.file)
        return ls_fail(LS_E_USAGE, "lockstep launch needs --workers N or --hosts (lockstep launch --help)");
    o.hosts.ranks = (int)o.workers;
    return ls_launch_command(&o, ui);
}
