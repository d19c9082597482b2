/* environment.h - what the environment variables of a launcher say about this process's place. */
#pragma once
#include "lockstep/status.h"

typedef enum ls_launcher {
    LS_LAUNCHER_NONE,    /* nobody: a group of one */
    LS_LAUNCHER_OWN,     /* lockstep --workers: LOCKSTEP_RANK, LOCKSTEP_RANKS, LOCKSTEP_CONTROL_FD */
    LS_LAUNCHER_MPI,     /* mpirun, mpiexec, srun: OMPI_COMM_WORLD_*, PMI_*, PMIX_RANK */
    LS_LAUNCHER_TORCHRUN /* RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE */
} ls_launcher;

typedef struct ls_place {
    ls_launcher launcher;
    int rank, size;     /* MPI: size 0 when only MPI itself knows it */
    int fd;             /* own: of the control block */
    const char *module; /* MPI: which one speaks to this launcher */
    char meeting[100];  /* torchrun: name of the rendezvous */
} ls_place;

/* LS_E_USAGE for variables that are half there or contradict each other, LS_E_UNSUPPORTED for what needs
 * another launcher. Local. */
ls_status ls_place_read(ls_place *out);
