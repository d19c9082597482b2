/* start.c - starts the process of a rank, bound to its cores. */
#include <limits.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sys.h"
#include "base/variable.h"
#include "comm/launched.h"
#include "launch_own.h"

enum { CANNOT_EXEC = 127 };

static const char *const NAMES[] = { "LOCKSTEP_RANK",   "LOCKSTEP_RANKS",  "LOCKSTEP_CONTROL_FD",
                                     LS_LAUNCH_REPORT,  LS_LAUNCH_STARTED, LS_LAUNCH_COMMAND,
                                     LS_LAUNCH_RESTART, LS_LAUNCH_STALL,   LS_LAUNCH_JOB };
enum { PLACES = sizeof NAMES / sizeof NAMES[0] };

static bool is_ours(const char *variable)
{
    for (int k = 0; k < PLACES; k++) {
        const size_t n = strlen(NAMES[k]);
        if (!strncmp(variable, NAMES[k], n) && variable[n] == '=')
            return true;
    }
    return false;
}

static void free_environment(char **all, int made)
{
    for (int i = made; all && all[i]; i++)
        free(all[i]);
    free(all);
}

/* Makes the variables of NAMES for rank r, ended by NULL. False: out of memory. */
static bool add_place(const launch *l, int r, char **all)
{
    const double age = l->supervised ? l->supervised->age : 0;
    int n = 0;
    if (l->supervised) { /* variables of mpirun tell the rest */
        all[n++] = ls_sys_text("%s=%d", LS_LAUNCH_REPORT, l->control);
    } else {
        all[n++] = ls_sys_text("LOCKSTEP_RANK=%d", r);
        all[n++] = ls_sys_text("LOCKSTEP_RANKS=%d", l->o->ranks);
        all[n++] = ls_sys_text("LOCKSTEP_CONTROL_FD=%d", l->control);
    }
    all[n++] = ls_sys_text("%s=%.6f", LS_LAUNCH_STARTED, l->began);
    all[n++] = ls_sys_text("%s=%d", LS_LAUNCH_RESTART, l->o->restart);
    all[n++] = ls_sys_text("%s=%.6f", LS_LAUNCH_COMMAND, ls_now() - ls_since_exec() - age);
    all[n++] = ls_sys_text("%s=%g", LS_LAUNCH_STALL, l->o->stall);
    all[n] = NULL;
    for (int i = 0; i < n; i++)
        if (!all[i]) {
            while (n--)
                free(all[n]);
            all[0] = NULL;
            return false;
        }
    return true;
}

/* The environment of rank r: a copy of this process's environment, with the variables of NAMES, which begin
 * at *made and must be freed. NULL: out of memory. */
static char **environment(const launch *l, int r, int *made)
{
    int n = 0;
    while (environ[n])
        n++;
    char **all = ls_sys_malloc(sizeof *all * (size_t)(n + PLACES + 1));
    if (!all)
        return NULL;
    n = 0;
    for (int i = 0; environ[i]; i++)
        if (!is_ours(environ[i]))
            all[n++] = environ[i];
    *made = n;
    if (add_place(l, r, all + n))
        return all;
    free(all);
    return NULL;
}

/* Several processes that read one terminal would take its input from each other. */
static void read_nothing(void)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0)
        dup2(nothing, STDIN_FILENO);
}

/* The new process, up to exec. It makes only calls that are safe between fork and exec. Ctrl-C, a terminal
 * that closes and a batch system may signal all processes at once. The parent passes each request to stop on
 * as SIGTERM, so the rank ignores the other signals for it. Ranks of `lockstep` block requests until they
 * handle them (src/cli/terminal.c). A user's program might never unblock them, so it gets them unblocked. */
static _Noreturn void become_rank(const launch *l, int r, pid_t parent, char *const *environment_of_rank)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) ||
        getppid() != parent) /* the parent may have ended before this call */
        _exit(CANNOT_EXEC);
    sigset_t mask = l->mask_before;
    if (!l->o->program) {
        sigaddset(&mask, SIGTERM);
        sigaddset(&mask, SIGUSR1);
    } else if (r > 0) {
        read_nothing();
    }
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    if (l->o->program) { /* exec keeps ignored signals ignored */
        signal(SIGXFSZ, SIG_DFL);
        signal(SIGPIPE, SIG_DFL);
    }
    if (l->supervised)
        setpgid(0, 0); /* so that signals of mpirun reach only the process that watches this one */
    sigprocmask(SIG_SETMASK, &mask, NULL);
    if (l->cpus)
        ls_cpu_set_apply(&l->cpus[r]);
    fcntl(l->control, F_SETFD, 0);
    execve(l->o->program ? l->o->program : "/proc/self/exe", l->o->argv, environment_of_rank);
    ls_shm_watch_not_executed(l->watch, r, errno);
    _exit(CANNOT_EXEC);
}

ls_status ls_launch_start(launch *l, int r)
{
    int made;
    char **all = environment(l, r, &made);
    if (!all)
        return ls_fail(LS_E_MEMORY, "rank %d could not be started: out of memory", r);
    pid_t parent = getpid(), pid = ls_sys_fork();
    if (pid == 0)
        become_rank(l, r, parent, all);
    int error = errno;
    free_environment(all, made);
    if (pid < 0)
        return ls_fail(LS_E_MEMORY, "rank %d could not be started: %s", r, strerror(error));
    l->children[r].pid = pid;
    l->started++;
    l->alive++;
    return LS_OK;
}

/* Binds each rank to exactly o->cores cores. The cores are divided into as many parts of this size as there
 * are, and the ranks take the first ones. */
static ls_status divide_exactly(launch *l, const ls_cpu_set *mine, int ranks)
{
    const int cores = l->o->cores, parts = ls_cpu_set_count(mine) / cores;
    if (parts < ranks)
        return ls_fail(LS_E_USAGE,
                       "%d ranks of %d cores each need %d cores of this host, and %d are "
                       "available",
                       ranks, cores, ranks * cores, ls_cpu_set_count(mine));
    l->cpus = ls_sys_malloc(sizeof *l->cpus * (size_t)parts);
    LS_TRY(ls_sys_have(l->cpus));
    if (!ls_cpu_set_divide(l->cpus, mine, parts, cores, LS_SYS))
        return ls_fail(LS_E_UNSUPPORTED, "this host does not say how its cores can be divided");
    for (int r = 0; r < ranks; r++)
        ls_cpu_set_keep(&l->cpus[r], cores);
    return LS_OK;
}

/* Binds each rank to its share of all cores, if there are enough of them. */
static ls_status divide_evenly(launch *l, const ls_cpu_set *mine, int ranks)
{
    l->cpus = ls_sys_malloc(sizeof *l->cpus * (size_t)ranks);
    LS_TRY(ls_sys_have(l->cpus));
    if (ls_cpu_set_divide(l->cpus, mine, ranks, l->o->threads > 1 ? l->o->threads : 1, LS_SYS))
        return LS_OK;
    free(l->cpus);
    l->cpus = NULL;
    return LS_OK;
}

/* With LOCKSTEP_BIND=none ranks are not bound to cores. */
ls_status ls_launch_divide_cores(launch *l)
{
    const char *bind = getenv("LOCKSTEP_BIND");
    const int ranks = l->supervised ? l->supervised->each : l->o->ranks;
    ls_cpu_set mine;
    LS_TRY(ls_variable_check("LOCKSTEP_BIND", "none"));
    if ((bind && !strcmp(bind, "none")) || !ls_cpu_set_read(&mine))
        return LS_OK;
    LS_TRY(l->o->cores ? divide_exactly(l, &mine, ranks) : divide_evenly(l, &mine, ranks));
    if (l->supervised && l->cpus) /* only this rank is started here, as number 0 */
        l->cpus[0] = l->cpus[l->supervised->local];
    return LS_OK;
}

ls_status ls_launch_room(int64_t *room, int64_t least, int64_t cores, int64_t per_host)
{
    ls_cpu_set mine;
    const int64_t all = ls_cpu_set_read(&mine) ? ls_cpu_set_count(&mine) : 1;
    *room = cores ? all / cores : all;
    if (cores && least > *room)
        return ls_fail(LS_E_USAGE,
                       "workers: %lld of %lld cores each (cores_per_worker) need %lld, and this command may "
                       "use %lld",
                       (long long)least, (long long)cores, (long long)(least * cores), (long long)all);
    if (per_host && least > per_host)
        return ls_fail(LS_E_USAGE,
                       "workers: %lld on one host, and workers_per_host is %lld: --hosts names others",
                       (long long)least, (long long)per_host);
    *room = per_host && *room > per_host ? per_host : *room;
    return LS_OK;
}

bool ls_launch_handles(pid_t process, int number)
{
    char path[40], line[128];
    unsigned long long caught = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)process);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f) && sscanf(line, "SigCgt: %llx", &caught) != 1)
        ;
    if (f)
        fclose(f);
    return caught >> (number - 1) & 1;
}
