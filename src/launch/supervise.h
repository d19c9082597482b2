/* supervise.h - the process that mpirun or srun starts for each rank: it binds the rank to its cores, starts
 * it, passes requests on, and tells the process that the user started how it stands and ends (fact.h). */
#pragma once

#define LS_SUPERVISE_WORD "supervise-rank" /* first word of that command; LS_LAUNCH_JOB says the rest */

/* What LS_LAUNCH_JOB says. */
typedef struct ls_job_words {
    int each, threads, restart;
    int own;         /* somebody's own program */
    int stop_signal; /* the request to stop; another SIGTERM ends the rank */
    double stall, age;
} ls_job_words;
void ls_job_words_write(char text[160], const ls_job_words *w);

/* argv: PROGRAM WORD..., where PROGRAM is a path. The exit status of this process. */
int ls_supervise(char **argv);
