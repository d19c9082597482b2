/* job_command.c - makes the command lines of mpirun and srun. */
#include "job_command.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/commands.h"
#include "base/str.h"
#include "base/sys.h"
#include "comm/launched.h"
#include "comm/module.h"
#include "supervise.h"

/* ---- which command */

/* The name of the MPI whose module loads, "Open MPI" or "MPICH". NULL: none loads; then `why` gets the
 * reason. */
static const char *find_module(ls_str *why)
{
    static const char *const NAMES[] = { LS_MODULE_MPI, LS_MODULE_MPICH };
    for (int i = 0; i < 2; i++) {
        ls_str text = { 0 };
        const bool loads = ls_module_describe(&text, NAMES[i]), open = strstr(ls_str_text(&text), "Open MPI");
        if (!loads)
            ls_str_printf(why, "%s%s", why->len ? "; " : "", ls_str_text(&text));
        ls_str_release(&text);
        if (loads)
            return open ? "Open MPI" : "MPICH";
    }
    return NULL;
}

/* The MPI whose name `NAME --version` prints; "" if it is none that is known. */
static ls_status kind_of(const char **kind, const char *name)
{
    ls_command e = { 0 };
    static const char *const SAYS[][2] = { { "open-mpi", "Open MPI" }, { "Open MPI", "Open MPI" },
                                           { "OpenRTE", "Open MPI" },  { "HYDRA", "MPICH" },
                                           { "MPICH", "MPICH" },       { "Configure options", "MPICH" } };
    ls_command_word(&e, "sh");
    ls_command_word(&e, "-c");
    ls_command_word(&e, "\"$0\" --version 2>&1 | tr '\\n' ' ' | head -c 400");
    ls_command_word(&e, name);
    *kind = "";
    LS_TRY(ls_commands_run(&e, 1, 10, "looking for mpirun"));
    for (size_t i = 0; e.status == 0 && !**kind && i < sizeof SAYS / sizeof SAYS[0]; i++)
        if (strstr(e.said, SAYS[i][0]))
            *kind = SAYS[i][1];
    return LS_OK;
}

static ls_status find_mpirun(ls_job_command *c)
{
    static const char *const NAMES[][2] = { { "mpirun.openmpi", "mpirun.mpich" },
                                            { "mpirun", "mpiexec.hydra" },
                                            { "mpiexec", "mpirun" } };
    const char *given = getenv("LOCKSTEP_MPIRUN");
    ls_str why = { 0 };
    const char *module = find_module(&why);
    ls_status s = LS_OK;
    if (!module)
        s = ls_fail(LS_E_UNSUPPORTED, "ranks on several hosts need MPI, and no module for it loads: %s",
                    ls_str_text(&why));
    ls_str_release(&why);
    LS_TRY(s);
    const bool open = !strcmp(module, "Open MPI");
    c->starter = open ? LS_STARTER_OPENMPI : LS_STARTER_MPICH;
    if (given && *given)
        return ls_sys_have(c->name = ls_sys_strdup(given));
    for (int i = 0; i < 3; i++) {
        const char *name = NAMES[i][open ? 0 : 1], *kind;
        LS_TRY(kind_of(&kind, name));
        if (!strcmp(kind, module))
            return ls_sys_have(c->name = ls_sys_strdup(name));
    }
    return ls_fail(
        LS_E_UNSUPPORTED,
        "ranks on several hosts are started by mpirun of %s, whose module loads, but that mpirun is "
        "not in PATH: install it, or set LOCKSTEP_MPIRUN to its path",
        module);
}

/* ---- its words */

/* no_memory: words are missing. */
typedef struct words {
    char **all;
    int n, cap;
    bool no_memory;
} words;

static void job_add(words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void job_add(words *w, const char *format, ...)
{
    va_list list;
    ls_str text = { 0 };
    char **more = w->n + 2 > w->cap ? ls_sys_realloc(w->all, sizeof *more * (size_t)(2 * w->n + 8)) : w->all;
    va_start(list, format);
    ls_str_vprintf(&text, format, list);
    va_end(list);
    char *word = ls_str_take(&text);
    w->no_memory = w->no_memory || !more || !word;
    if (more && more != w->all) {
        w->all = more;
        w->cap = 2 * w->n + 8;
    }
    if (w->no_memory) {
        free(word);
        return;
    }
    w->all[w->n++] = word;
    w->all[w->n] = NULL;
}

static void add_hosts(words *w, const ls_hosts *h, const char *option, bool with_ranks)
{
    ls_str list = { 0 };
    for (int i = 0; i < h->used; i++) {
        const ls_host *host = ls_hosts_used(h, i);
        ls_str_printf(&list, "%s%s", i ? "," : "", host->name);
        if (with_ranks)
            ls_str_printf(&list, ":%d", h->per);
    }
    job_add(w, "%s", option);
    job_add(w, "%s", ls_str_text(&list));
    ls_str_release(&list);
}

/* Whether a variable has a meaning only on this host, or for the launcher of this process. */
static bool is_of_this_host(const char *name, size_t n)
{
    static const char *const NAMES[] = { "HOSTNAME", "HOST",    "PWD",        "OLDPWD", "SHLVL", "_",
                                         "TMPDIR",   "DISPLAY", "XAUTHORITY", "TERM",   "MAIL",  "TTY" },
                             *const BEGINNINGS[] = { "OMPI_", "PMIX_", "PMI_",  "PRTE_",
                                                     "SSH_",  "XDG_",  "DBUS_", "SLURM" };
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (strlen(NAMES[i]) == n && !strncmp(name, NAMES[i], n))
            return true;
    for (size_t i = 0; i < sizeof BEGINNINGS / sizeof BEGINNINGS[0]; i++)
        if (!strncmp(name, BEGINNINGS[i], strlen(BEGINNINGS[i])))
            return true;
    return false;
}

/* Passes the environment on to the ranks. The other starters do this by themselves. */
static void add_environment(words *w)
{
    static const char NAME[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    job_add(w, "-x");
    job_add(w, "%s", LS_LAUNCH_JOB);
    for (int i = 0; environ[i]; i++) {
        const size_t n = strcspn(environ[i], "=");
        if (!n || strspn(environ[i], NAME) != n || is_of_this_host(environ[i], n) ||
            (n == strlen(LS_LAUNCH_JOB) && !strncmp(environ[i], LS_LAUNCH_JOB, n)))
            continue;
        job_add(w, "-x");
        job_add(w, "%.*s", (int)n, environ[i]);
    }
}

static void openmpi(words *w, const ls_hosts *h, int ranks)
{
    add_hosts(w, h, "--host", true);
    job_add(w, "-n");
    job_add(w, "%d", ranks);
    job_add(w, "--map-by");
    job_add(w, "ppr:%d:node", h->per);
    job_add(w, "--bind-to");
    job_add(w, "none");
    if (strcmp(h->rsh, "ssh")) {
        job_add(w, "--mca");
        job_add(w, "plm_rsh_agent");
        job_add(w, "%s", h->rsh);
    }
    add_environment(w);
}

static void mpich(words *w, const ls_hosts *h, int ranks)
{
    add_hosts(w, h, "-hosts", false);
    job_add(w, "-ppn");
    job_add(w, "%d", h->per);
    job_add(w, "-n");
    job_add(w, "%d", ranks);
    job_add(w, "-bind-to");
    job_add(w, "none");
    if (strcmp(h->rsh, "ssh")) {
        job_add(w, "-launcher");
        job_add(w, "ssh");
        job_add(w, "-launcher-exec");
        job_add(w, "%s", h->rsh);
    }
}

enum { PATIENCE = 60 }; /* seconds that Slurm has to free the hosts from an attempt that failed */

static void slurm(words *w, const ls_hosts *h, int ranks, bool overlap)
{
    const char *mpi = getenv("SLURM_MPI_TYPE");
    add_hosts(w, h, "--nodelist", false);
    job_add(w, "--nodes=%d", h->used);
    job_add(w, "--ntasks=%d", ranks);
    job_add(w, "--ntasks-per-node=%d", h->per);
    job_add(w, "--distribution=block");
    job_add(w, "--cpu-bind=none");
    job_add(w, "--kill-on-bad-exit=1");
    job_add(w, "--immediate=%d", PATIENCE); /* else srun waits without end for a host that is busy or gone */
    if (overlap)
        job_add(w, "--overlap");
    job_add(w, "--mpi=%s", mpi && *mpi && strcmp(mpi, "none") ? mpi : "pmix");
}

ls_status ls_job_command_make(ls_job_command *c, const ls_launch_opts *o)
{
    const ls_hosts *h = o->hosts;
    char self[4096];
    *c = (ls_job_command){ .starter = LS_STARTER_SLURM, .stop_signal = SIGTERM, .save_signal = SIGUSR1 };
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return ls_fail(LS_E_IO, "/proc/self/exe cannot be read: the ranks need the command's own path");
    self[n] = 0;
    if (!h->slurm)
        LS_TRY(find_mpirun(c));
    else
        LS_TRY(ls_sys_have(c->name = ls_sys_strdup("srun")));
    words w = { 0 };
    job_add(&w, "%s", c->name);
    if (c->starter == LS_STARTER_OPENMPI) {
        openmpi(&w, h, o->ranks);
        c->stop_signal = SIGUSR2; /* after SIGTERM mpirun kills the ranks within a second */
    } else if (c->starter == LS_STARTER_MPICH) {
        mpich(&w, h, o->ranks);
        c->stop_signal = SIGUSR1; /* the only signal that it passes on */
        c->save_signal = 0;
    } else {
        slurm(&w, h, o->ranks, o->unstarted && *o->unstarted);
    }
    job_add(&w, "%s", self);
    job_add(&w, "%s", LS_SUPERVISE_WORD);
    job_add(&w, "%s", o->program ? o->program : self);
    for (int i = 1; o->argv[i]; i++)
        job_add(&w, "%s", o->argv[i]);
    c->words = w.all;
    return w.no_memory ? ls_fail(LS_E_MEMORY, "no memory for the words of %s", c->name) : LS_OK;
}

void ls_job_command_release(ls_job_command *c)
{
    for (int i = 0; c->words && c->words[i]; i++)
        free(c->words[i]);
    free(c->words);
    free(c->name);
    *c = (ls_job_command){ 0 };
}
