/* hosts.h - the hosts of the ranks: their names, whether they answer, and how many ranks each gets. */
#pragma once
#include <stdbool.h>
#include "launch.h"
#include "lockstep/status.h"

typedef struct ls_host {
    char name[256];
    bool here; /* whether it is this host */
    bool answers;
    char why[512];  /* why it does not answer */
    int again;      /* how often in a row it has answered since */
    bool returned;  /* it was lost, answers again, and has not yet done a step since */
    int failed;     /* how many attempts have failed since, before a step */
    double back_at; /* when it came back; 0: it was not lost, or has failed since */
    int lost;       /* how often in a row it has failed soon after it had come back */
    bool refused;   /* therefore it is not used again, and not asked */
} ls_host;

typedef struct ls_hosts {
    int n;
    ls_host *all;
    int each;        /* the most ranks of a host, the same for all */
    const char *rsh; /* command that runs another on a host: RSH HOST COMMAND */
    bool slurm;      /* a Slurm job: srun starts the ranks, and squeue knows which hosts it still has */
    /* in the next attempt the first `used` hosts that answer have `per` ranks each */
    int used, per;
    struct ls_hosts_asking *asking; /* hosts_again.c */
} ls_hosts;

typedef struct ls_hosts_opts {
    const char *list; /* "a:4,b:4", "a,b", or "slurm": all hosts of the allocation; NULL: none */
    const char *file; /* a file with a line for each host: "a:4" or "a slots=4"; NULL: none, or `list` */
    const char *rsh;  /* NULL: ssh */
    int per_host;     /* ranks of each host, if list and file have no number; 0: ranks / hosts */
    int ranks;        /* of all hosts; 0: not given */
} ls_hosts_opts;

/* Reads the names of the hosts. *h is NULL if the options name none. LS_E_USAGE if a list or file is not
 * valid. Local. */
ls_status ls_hosts_read(ls_hosts **h, const ls_hosts_opts *o);
void ls_hosts_free(ls_hosts **h);

/* Asks all hosts at once whether they answer; in a Slurm job it asks Slurm which hosts the job still has.
 * LS_E_PEER if none answers, or, with `all`, if one does not. The message has the answer of each.
 * LS_E_STOPPED. */
ls_status ls_hosts_ask(ls_hosts *h, bool all);
/* Asks those that did not answer whether they do now, every 30 s: call it often, it does not wait. True when
 * one more has come back, which has answered twice in a row. Slurm is not asked: it gives a job no host back.
 * Local. */
bool ls_hosts_look_again(ls_hosts *h);
bool ls_hosts_is_back(const ls_host *host);
void ls_hosts_stop_asking(ls_hosts *h); /* also forgets how long it has waited */

/* After an attempt. If it has done steps, hosts that had returned are like the others. Else they are refused:
 * at once, or if the failure may pass after the second. A host that comes back and fails within an hour is
 * refused after the third time. True if the attempt failed because of such hosts. Local. */
bool ls_hosts_judge(ls_hosts *h, const ls_attempt_end *end);

int ls_hosts_room(const ls_hosts *h); /* the most ranks on the hosts that answer */
/* Distributes the ranks evenly over as few of these hosts as possible. False: it cannot be done evenly. */
bool ls_hosts_fit(ls_hosts *h, int ranks);
/* Host number i of the next attempt. */
const ls_host *ls_hosts_used(const ls_hosts *h, int i);
