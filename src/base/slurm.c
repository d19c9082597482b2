/* slurm.c - see slurm.h. */
#include "slurm.h"

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
