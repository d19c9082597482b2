/* launch_command.c - `lockstep launch`: starts the ranks of a user's program, with the restarts that
 * `lockstep train` has. */
#include <stdlib.h>

#include "base/log.h"
#include "commands.h"
#include "launch/controller.h"
#include "launch/hosts.h"
#include "launch/rank.h"
#include "launch/run_account.h"

typedef struct choice {
    const ls_launch_command_opts *o;
    ls_hosts *hosts; /* NULL: this one */
} choice;

/* As many as the hosts that answer have room for, as long as they divide over them. */
static ls_status choose_on_hosts(const choice *c, int most, int *workers)
{
    LS_TRY(ls_hosts_ask(c->hosts, false));
    const int room = ls_hosts_room(c->hosts);
    const int64_t least = c->o->least_workers ? c->o->least_workers : 1;
    int64_t n = c->o->workers && c->o->workers < room ? c->o->workers : room;
    for (n = most && n > most ? most : n; n >= least; n--)
        if (ls_hosts_fit(c->hosts, (int)n)) {
            *workers = (int)n;
            return LS_OK;
        }
    return ls_fail(LS_E_PEER,
                   "the hosts that answer have room for %d ranks, and --workers wants %lld or more", room,
                   (long long)least);
}

/* Chooses as many ranks as there are cores, within the range. */
static ls_status choose(void *context, int most, int *workers)
{
    const choice *c = context;
    int64_t n = 0;
    if (c->hosts)
        return choose_on_hosts(c, most, workers);
    LS_TRY(ls_launch_room(&n, c->o->least_workers, c->o->cores, c->o->hosts.per_host));
    n = n < c->o->workers ? n : c->o->workers;
    n = most && n > most ? most : n;
    *workers = (int)(n > c->o->least_workers ? n : c->o->least_workers);
    return LS_OK;
}

static ls_status start(const choice *c, const char *path, const ls_ui *ui)
{
    ls_run_account run = { .recipe = NULL };
    const ls_account account = ls_run_account_of(&run);
    ls_control_opts control = { .ranks = { .hosts = c->hosts,
                                           .program = path,
                                           .argv = c->o->program,
                                           .cores = (int)c->o->cores,
                                           .stall = c->o->stall_seconds,
                                           .stop = ui->stop,
                                           .save = ui->save,
                                           .pass = ui->pass,
                                           .run = run.program },
                                .max_failures = c->o->max_failures,
                                .named = "--max-failures",
                                .account = &account,
                                .choose = choose,
                                .context = (void *)(uintptr_t)c };
    if (c->hosts)
        LS_TRY(ls_hosts_ask(c->hosts, true));
    LS_TRY(choose(control.context, 0, &control.ranks.ranks));
    return ls_control(&control);
}

ls_status ls_launch_command(const ls_launch_command_opts *o, const ls_ui *ui)
{
    char *path;
    choice c = { .o = o };
    LS_TRY(ls_rank_alone(
        "launch starts the ranks itself: call it once, without mpirun, srun or torchrun; --workers N "
        "and --hosts say how many"));
    LS_TRY(ls_hosts_read(&c.hosts, &o->hosts));
    ls_status s = ls_launch_find(&path, o->program[0]);
    if (s == LS_OK)
        s = start(&c, path, ui);
    free(path);
    ls_hosts_free(&c.hosts);
    return s;
}
