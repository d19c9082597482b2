/* verb_launch.c - options of `launch`. */
#include <errno.h>
#include <stdlib.h>
#include "cli.h"

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
    if (end == text || *end || errno || o->least_workers < 1 || o->workers < o->least_workers)
        return ls_fail(
            LS_E_USAGE,
            "--workers %s: a number of ranks is needed, or LEAST:MOST for as many as there are cores", text);
    return LS_OK;
}

ls_hosts_opts ls_args_hosts(const ls_args *a)
{
    return (ls_hosts_opts){ .list = ls_args_value(a, "--hosts"),
                            .file = ls_args_value(a, "--hostfile"),
                            .rsh = ls_args_value(a, "--rsh") };
}

ls_status ls_verb_launch(const ls_args *a, const ls_ui *ui)
{
    ls_launch_command_opts o = { .program = a->program, .hosts = ls_args_hosts(a) };
    const char *workers = ls_args_value(a, "--workers");
    if (workers)
        LS_TRY(parse_workers(workers, &o));
    else if (!o.hosts.list && !o.hosts.file)
        return ls_fail(LS_E_USAGE, "lockstep launch needs --workers N or --hosts (lockstep launch --help)");
    int64_t per_host = 0;
    LS_TRY(ls_args_int(a, "--workers-per-host", 1, &per_host));
    LS_TRY(ls_args_int(a, "--cores-per-worker", 1, &o.cores));
    o.hosts.per_host = (int)per_host;
    o.hosts.ranks = (int)o.workers;
    LS_TRY(ls_args_int(a, "--max-failures", -1, &o.max_failures));
    LS_TRY(ls_args_number(a, "--stall-seconds", 0.001, 1e9, &o.stall_seconds));
    return ls_launch_command(&o, ui);
}
