/* environment.h - reads a launcher's environment variables: which rank this process is, and of how many. */
#pragma once
#include "lockstep/status.h"

typedef enum ls_launcher {
    LS_LAUNCHER_NONE,    /* no launcher: a group of one */
    LS_LAUNCHER_OWN,     /* lockstep --workers: LOCKSTEP_RANK, LOCKSTEP_RANKS, LOCKSTEP_CONTROL_FD */
    LS_LAUNCHER_MPI,     /* mpirun, mpiexec, srun: OMPI_COMM_WORLD_*, PMI_*, PMIX_RANK */
    LS_LAUNCHER_TORCHRUN /* RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE */
} ls_launcher;

typedef struct ls_environment {
    ls_launcher launcher;
    int rank, size;       /* MPI: size 0 when only MPI itself knows it */
    int fd;               /* own: of the control block */
    const char *module;   /* MPI: the module for the MPI of this launcher */
    char rendezvous[100]; /* torchrun: name of the rendezvous (rendezvous.h) */
} ls_environment;

/* LS_E_USAGE for variables that are incomplete or contradict each other, LS_E_UNSUPPORTED for variables that
 * need another launcher. Local. */
ls_status ls_environment_read(ls_environment *out);
/* This process's number among all processes that mpirun, srun or torchrun started. 0 also if the launcher
 * does not say it, or if `lockstep` started this process and prints for it. Local. */
int ls_environment_number(void);
/* This process's number among those that the launcher started on this host; -1: it does not say. Local. */
int ls_environment_local_rank(void);
