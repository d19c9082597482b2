/* slurm.h - the name and the size of this Slurm job. */
#pragma once

/* "7", or "7_2" for task 2 of a job array: its last task has the number of the whole array as SLURM_JOB_ID,
 * and squeue lists all tasks for that. "": this is not a Slurm job. */
void ls_slurm_job(char text[64]);
/* Of the job whose script runs here. 1 and 1: there is no job, or srun has started this process. */
void ls_slurm_size(int *tasks, int *hosts);
