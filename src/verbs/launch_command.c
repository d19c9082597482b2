/* launch_command.c - `lockstep launch`: starts the ranks of a user's program, with the restarts that
 * `lockstep train` has. */
#include <stdlib.h>

#include "base/affinity.h"
#include "commands.h"
#include "launch/controller.h"

/* Chooses as many ranks as there are cores, within the range. */
static ls_status choose(void *context, int most, int *workers)
{
    const ls_launch_command_opts *o = context;
    ls_cpu_set mine;
    int64_t n = ls_cpu_set_read(&mine) ? ls_cpu_set_count(&mine) : o->workers;
    n = n < o->workers ? n : o->workers;
    n = most && n > most ? most : n;
    *workers = (int)(n > o->least_workers ? n : o->least_workers);
    return LS_OK;
}

ls_status ls_launch_command(const ls_launch_command_opts *o, const ls_ui *ui)
{
    char *path;
    ls_control_opts control = {
        .ranks = { .argv = o->program, .stall = o->stall_seconds, .stop = ui->stop, .save = ui->save },
        .max_failures = o->max_failures,
        .named = "--max-failures",
        .choose = choose,
        .context = (void *)(uintptr_t)o
    };
    LS_TRY(ls_launch_find(&path, o->program[0]));
    control.ranks.program = path;
    ls_status s = choose(control.context, 0, &control.ranks.ranks);
    if (s == LS_OK)
        s = ls_control(&control);
    free(path);
    return s;
}
