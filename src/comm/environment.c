/* environment.c - finds out from the launcher's variables which rank this process is, and joins the group.
 * The innermost launcher counts: our own, then torchrun, then MPI's. A launcher of one rank is ignored. */
#include "environment.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/argument.h"
#include "base/str.h"
#include "fault.h"
#include "join_watch.h"
#include "last_words.h"
#include "launched.h"
#include "machines.h"
#include "module.h"
#include "rendezvous.h"
#include "shm.h"

enum { MAX_SIZE = 1000000 };

static const char *variable(const char *name)
{
    const char *text = getenv(name);
    return text && text[0] ? text : NULL;
}

static ls_status environment_number(int *out, const char *name, int low, int high)
{
    const char *text = getenv(name);
    char *end = NULL;
    errno = 0;
    long v = strtol(text, &end, 10);
    if (end == text || *end || errno || v < low || v > high)
        return ls_fail(LS_E_USAGE, "%s=%s: a whole number from %d to %d is needed", name, text, low, high);
    *out = (int)v;
    return LS_OK;
}

/* LS_E_USAGE if only some of these variables are set. *any: whether they are set. */
static ls_status together(bool *any, int n, const char *const *names, const char *of_whom,
                          const char *instead)
{
    ls_str there = { 0 }, missing = { 0 };
    int found = 0;
    for (int i = 0; i < n; i++) {
        ls_str *list = variable(names[i]) ? &there : &missing;
        found += list == &there;
        ls_str_printf(list, "%s%s", list->len ? ", " : "", names[i]);
    }
    *any = found == n;
    ls_status s = LS_OK;
    if (found && found < n)
        s = ls_fail(LS_E_USAGE, "%s set, but not %s: %s sets all of them; set or unset them together%s",
                    ls_str_text(&there), ls_str_text(&missing), of_whom, instead);
    ls_str_release(&there);
    ls_str_release(&missing);
    return s;
}

static ls_status read_own(ls_environment *p, bool *found)
{
    LS_TRY(together(found, 3,
                    (const char *const[]){ "LOCKSTEP_RANK", "LOCKSTEP_RANKS", "LOCKSTEP_CONTROL_FD" },
                    "lockstep --workers", ""));
    if (!*found)
        return LS_OK;
    p->launcher = LS_LAUNCHER_OWN;
    LS_TRY(environment_number(&p->size, "LOCKSTEP_RANKS", 1, MAX_SIZE));
    LS_TRY(environment_number(&p->rank, "LOCKSTEP_RANK", 0, p->size - 1));
    return environment_number(&p->fd, "LOCKSTEP_CONTROL_FD", 0, 1 << 30);
}

static ls_status read_torchrun(ls_environment *p, bool *found)
{
    int local_rank = 0, local_size = 1;
    LS_TRY(together(found, 4, (const char *const[]){ "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE" },
                    "torchrun", " (`--workers N` and --hosts need none of them)"));
    if (!*found)
        return LS_OK;
    LS_TRY(environment_number(&p->size, "WORLD_SIZE", 1, MAX_SIZE));
    LS_TRY(environment_number(&p->rank, "RANK", 0, p->size - 1));
    LS_TRY(environment_number(&local_size, "LOCAL_WORLD_SIZE", 1, p->size));
    LS_TRY(environment_number(&local_rank, "LOCAL_RANK", 0, local_size - 1));
    if (p->size != local_size)
        return ls_fail(LS_E_USAGE,
                       "WORLD_SIZE=%d, LOCAL_WORLD_SIZE=%d: ranks on several hosts speak MPI, which torchrun "
                       "does not start; start them with one command on one host: lockstep train RECIPE "
                       "--hosts A:%d,B:%d, or lockstep launch --hosts A:%d,B:%d PROGRAM",
                       p->size, local_size, local_size, local_size, local_size, local_size);
    if (p->rank != local_rank)
        return ls_fail(LS_E_USAGE, "RANK=%d, LOCAL_RANK=%d: on one host they are the same", p->rank,
                       local_rank);
    *found = p->size > 1;
    if (!*found)
        return LS_OK;
    p->launcher = LS_LAUNCHER_TORCHRUN;
    const char *port = variable("MASTER_PORT"), *run = variable("TORCHELASTIC_RUN_ID"),
               *restart = variable("TORCHELASTIC_RESTART_COUNT");
    if (!port && !run)
        return ls_fail(LS_E_USAGE, "RANK and WORLD_SIZE are set, but neither MASTER_PORT nor "
                                   "TORCHELASTIC_RUN_ID: the ranks need one that is "
                                   "theirs alone to find each other");
    snprintf(p->rendezvous, sizeof p->rendezvous, "lockstep-%u-%.10s-%.60s-%.8s", (unsigned)geteuid(),
             port ? port : "", run ? run : "", restart ? restart : "");
    return LS_OK;
}

static ls_status read_mpi(ls_environment *p, bool *found)
{
    static const char *const OPENMPI[] = { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE" }, *const PMI[] = {
        "PMI_RANK", "PMI_SIZE"
    };
    bool openmpi, pmi, pmix = variable("PMIX_RANK");
    LS_TRY(together(&openmpi, 2, OPENMPI, "mpirun", ""));
    LS_TRY(together(&pmi, 2, PMI, "the process manager", ""));
    const char *size = openmpi ? OPENMPI[1]
                       : pmix  ? "SLURM_STEP_NUM_TASKS"
                               : PMI[1],
               *rank = openmpi ? OPENMPI[0]
                       : pmix  ? "PMIX_RANK"
                               : PMI[0];
    *found = openmpi || pmix || pmi;
    if (!*found)
        return LS_OK;
    if (variable(size))
        LS_TRY(environment_number(&p->size, size, 1, MAX_SIZE));
    LS_TRY(environment_number(&p->rank, rank, 0, p->size ? p->size - 1 : MAX_SIZE));
    *found = p->size != 1;
    if (*found) {
        p->launcher = LS_LAUNCHER_MPI;
        p->module = openmpi || pmix ? LS_MODULE_MPI : LS_MODULE_MPICH;
    }
    return LS_OK;
}

/* srun without its MPI plugin starts processes that cannot exchange messages. */
static ls_status refuse_bare_srun(void)
{
    int tasks = 1;
    if (variable("SLURM_STEP_NUM_TASKS") && variable("SLURM_PROCID"))
        LS_TRY(environment_number(&tasks, "SLURM_STEP_NUM_TASKS", 1, MAX_SIZE));
    return tasks == 1 ? LS_OK
                      : ls_fail(LS_E_USAGE,
                                "srun started %d tasks that cannot reach each other: use srun --mpi=pmix (or "
                                "pmi2), or mpirun",
                                tasks);
}

static ls_status read_variables(ls_environment *p)
{
    typedef ls_status reader(ls_environment * p, bool *found);
    static reader *const OUTER[] = { read_mpi, read_torchrun }, *const INNER[] = { read_torchrun, read_mpi };
    reader *const *order = variable("TORCHELASTIC_RUN_ID") ? INNER : OUTER;
    bool found;
    LS_TRY(read_own(p, &found));
    for (int i = 0; i < 2 && !found; i++) {
        *p = (ls_environment){ 0 };
        LS_TRY(order[i](p, &found));
    }
    if (!found) {
        *p = (ls_environment){ .size = 1 };
        LS_TRY(refuse_bare_srun());
    }
    return LS_OK;
}

ls_status ls_environment_read(ls_environment *out)
{
    *out = (ls_environment){ 0 };
    LS_TRY(read_variables(out));
    if (variable("LOCKSTEP_FAKE_NODES") && out->launcher != LS_LAUNCHER_MPI)
        return ls_fail(LS_E_USAGE, "LOCKSTEP_FAKE_NODES splits the ranks that mpirun or srun started on one "
                                   "machine, and nothing of that kind "
                                   "started this process");
    return LS_OK;
}

int ls_environment_number(void)
{
    ls_environment p = { 0 };
    if (read_variables(&p) == LS_OK)
        return p.launcher == LS_LAUNCHER_OWN ? 0 : p.rank;
    return variable("SLURM_STEP_NUM_TASKS") && variable("SLURM_PROCID") ? atoi(getenv("SLURM_PROCID")) : 0;
}

int ls_environment_local_rank(void)
{
    static const char *const NAMES[] = { "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID",
                                         "LOCAL_RANK" };
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++)
        if (variable(NAMES[i]))
            return atoi(getenv(NAMES[i]));
    return -1;
}

/* ---- the group */

static ls_status join_own(ls_group **out, const ls_environment *p)
{
    if (fcntl(p->fd, F_GETFD) < 0)
        return ls_fail(LS_E_USAGE,
                       "LOCKSTEP_CONTROL_FD=%d is not an open file: unset LOCKSTEP_RANK, LOCKSTEP_RANKS and "
                       "LOCKSTEP_CONTROL_FD, which lockstep "
                       "--workers sets for its own processes",
                       p->fd);
    ls_status s = ls_shm_join(out, p->fd, p->rank);
    if (s == LS_E_FORMAT || s == LS_E_ARG)
        return ls_fail_in(LS_E_USAGE, "LOCKSTEP_CONTROL_FD=%d", p->fd);
    LS_TRY(s);
    int size = ls_group_size(*out);
    if (size == p->size) {
        close(p->fd); /* the group has a descriptor of its own */
        return LS_OK;
    }
    ls_group_destroy(out);
    return ls_fail(LS_E_USAGE, "LOCKSTEP_RANKS=%d, but the control block is of %d ranks", p->size, size);
}

static ls_status join_mpi(ls_group **out, const ls_environment *p)
{
    const ls_transport_ops *ops = NULL;
    ls_join_watch *watch = NULL;
    LS_TRY(ls_module_open(&ops, p->module));
    if (!ls_launch_watched())
        LS_TRY(ls_join_watch_begin(&watch, p->rank, p->size));
    const ls_status s = ls_machines_join(out, ops, NULL, p->size);
    ls_join_watch_end(&watch, s == LS_OK);
    return s;
}

static ls_status environment_join(ls_group **out, const ls_environment *p)
{
    switch (p->launcher) {
    case LS_LAUNCHER_OWN: return join_own(out, p);
    case LS_LAUNCHER_TORCHRUN: return ls_rendezvous_join(out, p->rendezvous, p->rank, p->size);
    case LS_LAUNCHER_MPI: return join_mpi(out, p);
    default: return ls_group_self(out);
    }
}

/* The process that watches this rank from outside reads this block. */
static ls_status join_reported(ls_group **out, const ls_environment *p)
{
    const char *fd = variable(LS_LAUNCH_REPORT);
    if (p->launcher == LS_LAUNCHER_OWN || !fd || !ls_launch_watched())
        return environment_join(out, p);
    if (!ls_control_report())
        LS_TRY(ls_shm_report_to(atoi(fd)));
    ls_status s = environment_join(out, p);
    if (s == LS_OK)
        ls_shm_report_joined();
    else
        ls_control_fail(ls_control_report(), p->rank, p->rank, s, ls_error_message());
    return s;
}

ls_status ls_group_from_environment(ls_group **out)
{
    LS_ARG(out);
    ls_environment p;
    *out = NULL;
    LS_TRY(ls_environment_read(&p));
    if (p.launcher != LS_LAUNCHER_NONE) /* not the parent of ranks */
        ls_fault_before_join(p.rank);
    LS_TRY(join_reported(out, &p));
    ls_status s = ls_group_inject_from_environment(*out); /* LOCKSTEP_FAULT, in tests of the command */
    if (s != LS_OK)
        ls_group_destroy(out);
    else
        ls_last_words_of(*out);
    return s;
}

/* In MPICH MPI_Comm is the integer itself. In Open MPI it is an address, which its MPI_Comm_f2c finds. */
ls_status ls_group_from_mpi_handle(ls_group **out, int comm)
{
    LS_ARG(out);
    union {
        void *symbol;
        void *(*call)(int);
    } f2c = { dlsym(RTLD_DEFAULT, "MPI_Comm_f2c") };
    *out = NULL;
    if (!dlsym(RTLD_DEFAULT, "MPI_Init"))
        return ls_fail(LS_E_UNSUPPORTED,
                       "a group from a communicator, but this program is not linked with MPI: compile it "
                       "with mpifort or mpicc");
    if (strcmp(ls_module_of_program(), LS_MODULE_MPI))
        return ls_group_from_mpi(out, &comm);
    if (!f2c.symbol)
        return ls_fail(LS_E_UNSUPPORTED, "this program's MPI has no MPI_Comm_f2c");
    void *const found = f2c.call(comm);
    return ls_group_from_mpi(out, &found);
}

ls_status ls_group_from_mpi(ls_group **out, const void *comm)
{
    LS_ARG(out);
    LS_ARG(comm); /* the address of an MPI_Comm */
    const ls_transport_ops *ops = NULL;
    *out = NULL;
    LS_TRY(ls_module_open(&ops, ls_module_of_program()));
    return ls_machines_join(out, ops, comm, 0);
}
