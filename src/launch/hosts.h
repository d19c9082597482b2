/* hosts.h - the hosts of ranks: which there are, which of them answer, how ranks lie on them. */
#pragma once
#include <stdbool.h>
#include "lockstep/status.h"

typedef struct ls_host {
    char name[256];
    bool here; /* it is this one */
    bool answers;
    char why[512]; /* it does not */
} ls_host;

typedef struct ls_hosts {
    int n;
    ls_host *all;
    int each;        /* most ranks of a host: as many on each */
    const char *rsh; /* command that runs another on a host: RSH HOST COMMAND */
    bool slurm;      /* srun starts the ranks, and knows the hosts */
    /* the next attempt: the first `used` hosts that answer have `per` ranks each */
    int used, per;
} ls_hosts;

typedef struct ls_hosts_opts {
    const char *list; /* "a:4,b:4", "a,b", or "slurm": all hosts of the allocation; NULL: none */
    const char *file; /* a line a host: "a:4" or "a slots=4"; NULL: none */
    const char *rsh;  /* NULL: ssh */
    int per_host;     /* ranks of each host, where list and file do not say it; 0: ranks / hosts */
    int ranks;        /* of all hosts; 0: not said */
} ls_hosts_opts;

/* *h is NULL when the options name no hosts. LS_E_USAGE for what cannot be read. Local. */
ls_status ls_hosts_read(ls_hosts **h, const ls_hosts_opts *o);
void ls_hosts_free(ls_hosts **h);

/* Asks every host, at once, for a sign of life. LS_E_PEER when `all` are needed and one does not answer, or
 * when none does: one message with what each said. */
ls_status ls_hosts_ask(ls_hosts *h, bool all);
int ls_hosts_room(const ls_hosts *h); /* ranks that those that answer have room for */
/* Lays so many ranks on as few of those as possible, as many on each; false: they do not divide. */
bool ls_hosts_fit(ls_hosts *h, int ranks);
/* Host number i of the next attempt. */
const ls_host *ls_hosts_used(const ls_hosts *h, int i);
