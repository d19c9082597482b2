/* slurm.c - see slurm.h. */
#include "slurm.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

void ls_slurm_job(char text[64])
{
    const char *job = getenv("SLURM_JOB_ID"), *array = getenv("SLURM_ARRAY_JOB_ID"),
               *task = getenv("SLURM_ARRAY_TASK_ID");
    if (job && *job && array && *array && task && *task)
        snprintf(text, 64, "%.30s_%.30s", array, task);
    else
        snprintf(text, 64, "%.60s", job ? job : "");
}

void ls_slurm_size(int *tasks, int *hosts)
{
    const char *n = getenv("SLURM_NTASKS"), *nodes = getenv("SLURM_JOB_NUM_NODES");
    const bool script = getenv("SLURM_JOB_ID") && !getenv("SLURM_STEP_NUM_TASKS");
    *tasks = script && n ? atoi(n) : 1;
    *hosts = script && nodes ? atoi(nodes) : 1;
}
