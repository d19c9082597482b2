/* start.c - starts the process of a rank, bound to its cores, and finds the program to execute. */
#include <limits.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/sys.h"
#include "comm/launched.h"
#include "launch_own.h"

enum { CANNOT_EXEC = 127 };

static const char *const NAMES[] = { "LOCKSTEP_RANK=",      "LOCKSTEP_RANKS=",     "LOCKSTEP_CONTROL_FD=",
                                     LS_LAUNCH_STARTED "=", LS_LAUNCH_RESTART "=", LS_LAUNCH_COMMAND "=",
                                     LS_LAUNCH_STALL "=" };
enum { ADDED = sizeof NAMES / sizeof NAMES[0] };

/* The environment of rank r: that of this process, with the variables of NAMES. NULL: out of memory. */
static char **environment(const launch *l, int r)
{
    int n = 0, kept = 0;
    while (environ[n])
        n++;
    char **all = ls_sys_malloc(sizeof *all * (size_t)(n + ADDED + 1));
    for (int i = 0; all && i < n; i++) {
        bool ours = false;
        for (int k = 0; k < ADDED; k++)
            ours = ours || !strncmp(environ[i], NAMES[k], strlen(NAMES[k]));
        if (!ours)
            all[kept++] = environ[i];
    }
    char *ours[ADDED] = { ls_sys_text("%s%d", NAMES[0], r),
                          ls_sys_text("%s%d", NAMES[1], l->o->ranks),
                          ls_sys_text("%s%d", NAMES[2], l->control),
                          ls_sys_text("%s%.6f", NAMES[3], l->began),
                          ls_sys_text("%s%d", NAMES[4], l->o->restart),
                          ls_sys_text("%s%.6f", NAMES[5], ls_now() - ls_since_exec()),
                          ls_sys_text("%s%g", NAMES[6], l->o->stall) };
    bool made = all;
    for (int i = 0; i < ADDED; i++)
        made = made && ours[i];
    if (made) {
        memcpy(all + kept, ours, sizeof ours);
        all[kept + ADDED] = NULL;
        return all;
    }
    for (int i = 0; i < ADDED; i++)
        free(ours[i]);
    free(all);
    return NULL;
}

static void free_environment(char **all)
{
    int n = 0;
    while (all[n])
        n++;
    for (int i = n - ADDED; i < n; i++)
        free(all[i]);
    free(all);
}

/* Several processes that read one terminal would take its input from each other. */
static void read_nothing(void)
{
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0)
        dup2(nothing, STDIN_FILENO);
}

/* The new process, up to exec. It makes only calls that are safe between fork and exec. It ignores SIGINT,
 * because Ctrl-C in a terminal reaches all processes, and the parent passes the request on. Ranks of
 * `lockstep` block requests until they handle them (src/cli/terminal.c). A user's program might never unblock
 * them, so it gets them unblocked. */
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
    if (l->o->program) { /* exec keeps ignored signals ignored */
        signal(SIGXFSZ, SIG_DFL);
        signal(SIGPIPE, SIG_DFL);
    }
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
    char **all = environment(l, r);
    if (!all)
        return ls_fail(LS_E_MEMORY, "rank %d could not be started: out of memory", r);
    pid_t parent = getpid(), pid = ls_sys_fork();
    if (pid == 0)
        become_rank(l, r, parent, all);
    int error = errno;
    free_environment(all);
    if (pid < 0)
        return ls_fail(LS_E_MEMORY, "rank %d could not be started: %s", r, strerror(error));
    l->children[r].pid = pid;
    l->started++;
    l->alive++;
    return LS_OK;
}

/* With LOCKSTEP_BIND=none ranks are not bound to cores. */
ls_status ls_launch_divide_cores(launch *l)
{
    const char *bind = getenv("LOCKSTEP_BIND");
    ls_cpu_set mine;
    if ((bind && !strcmp(bind, "none")) || !ls_cpu_set_read(&mine))
        return LS_OK;
    l->cpus = ls_sys_malloc(sizeof *l->cpus * (size_t)l->o->ranks);
    LS_TRY(ls_sys_have(l->cpus));
    if (ls_cpu_set_divide(l->cpus, &mine, l->o->ranks, l->o->threads > 1 ? l->o->threads : 1, LS_SYS))
        return LS_OK;
    free(l->cpus);
    l->cpus = NULL;
    return LS_OK;
}

/* ---- which program */

static ls_status may_execute(const char *path, const char *name)
{
    struct stat st;
    if (stat(path, &st))
        return ls_fail(LS_E_USAGE, "the program %s is not there: %s", name, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return ls_fail(LS_E_USAGE, "the program %s is a directory", name);
    if (access(path, X_OK))
        return ls_fail(LS_E_USAGE, "the program %s cannot be executed: %s (chmod +x %s)", name,
                       strerror(errno), path);
    return LS_OK;
}

static bool in_folders(char path[PATH_MAX], const char *folders, const char *name)
{
    for (const char *at = folders; at; at = *at ? at + 1 : NULL) {
        const size_t n = strcspn(at, ":");
        const int length = snprintf(path, PATH_MAX, "%.*s/%s", n ? (int)n : 1, n ? at : ".", name);
        struct stat st;
        if (length < PATH_MAX && !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK))
            return true;
        at += n;
    }
    return false;
}

ls_status ls_launch_find(char **path, const char *name)
{
    if (strchr(name, '/')) {
        *path = ls_sys_strdup(name);
        LS_TRY(ls_sys_have(*path));
        ls_status s = may_execute(*path, name);
        if (s != LS_OK) {
            free(*path);
            *path = NULL;
        }
        return s;
    }
    const char *folders = getenv("PATH");
    char found[PATH_MAX];
    if (in_folders(found, folders ? folders : "/usr/local/bin:/usr/bin:/bin", name))
        return ls_sys_have(*path = ls_sys_strdup(found));
    return ls_fail(LS_E_USAGE, "the program %s is in no folder of PATH%s%s%s", name,
                   ls_file_exists(name) ? "; for the one in this folder write ./" : "",
                   ls_file_exists(name) ? name : "", "");
}
