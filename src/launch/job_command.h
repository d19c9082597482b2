/* job_command.h - the command that starts ranks on several hosts: mpirun of the MPI whose module loads, or
 * srun. */
#pragma once
#include "hosts.h"
#include "launch.h"

typedef enum ls_starter { LS_STARTER_OPENMPI, LS_STARTER_MPICH, LS_STARTER_SLURM } ls_starter;

typedef struct ls_job_command {
    ls_starter starter;
    char *name;      /* path or name of mpirun, or srun */
    char **words;    /* ended by NULL */
    int stop_signal; /* signal to this command that asks the ranks to stop */
    int save_signal; /* signal that asks them to save; 0: there is none */
} ls_job_command;

/* Makes the command for o->ranks ranks of o->argv, distributed by ls_hosts_fit. LS_E_UNSUPPORTED if no module
 * loads, or if its command is missing. Local. */
ls_status ls_job_command_make(ls_job_command *c, const ls_launch_opts *o);
void ls_job_command_release(ls_job_command *c);
