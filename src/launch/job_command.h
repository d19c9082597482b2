/* job_command.h - the command that starts ranks on several hosts: that of the MPI whose module loads, or
 * Slurm's. */
#pragma once
#include "hosts.h"
#include "launch.h"

typedef enum ls_starter { LS_STARTER_OPENMPI, LS_STARTER_MPICH, LS_STARTER_SLURM } ls_starter;

typedef struct ls_job_command {
    ls_starter starter;
    char *name;      /* path or name of mpirun, or srun */
    char **words;    /* ended by NULL */
    int stop_signal; /* what asks the ranks to stop, when this command gets it */
    int save_signal; /* what asks them to save; 0: there is none */
} ls_job_command;

/* For o->ranks ranks of o->argv, laid out by ls_hosts_fit. LS_E_UNSUPPORTED: no module loads, or its command
 * is not there. Local. */
ls_status ls_job_command_make(ls_job_command *c, const ls_launch_opts *o);
void ls_job_command_release(ls_job_command *c);
