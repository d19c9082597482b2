/* supervise.h - the process that mpirun or srun starts for each rank. It binds the rank to its cores, starts
 * it, passes requests on, and reports the rank's state and its end to the process that the user started
 * (message.h). */
#pragma once

#define LS_SUPERVISE_WORD \
    "supervise-rank" /* first word of that command; the variable LS_LAUNCH_JOB has the rest */

/* The contents of LS_LAUNCH_JOB. */
typedef struct ls_job_words {
    int each, threads, cores, restart;
    int own;         /* it is a user's program */
    int stop_signal; /* how the parent's request to stop comes; if not by SIGTERM, that ends the rank */
    double stall, age;
} ls_job_words;
void ls_job_words_write(char text[160], const ls_job_words *w);

/* argv: PROGRAM WORD..., where PROGRAM is a path. Returns the exit status for this process. */
int ls_supervise(char **argv);
