/* siblings.h - the other ranks of this host that the same mpirun or srun started, as /proc shows them. */
#pragma once
#include <stdbool.h>

#define LS_JOINING "lockstep-join" /* the name of a thread that a rank has while it joins (join_watch.c) */

typedef struct ls_sibling {
    int rank, process;
    char name[16]; /* of the program */
    bool joins;    /* it has a thread LS_JOINING */
    bool stopped;  /* state T */
} ls_sibling;

/* What the ranks of one start have in common. */
typedef struct ls_kin {
    const char *rank_name;   /* the variable with the number of a rank; NULL: there is none */
    char job[256], step[64]; /* "NAME=value", entries of the environment; "": none */
    char host[64];           /* the kernel's number for the namespace of the host name */
    int parent;
} ls_kin;

/* Reads it from the environment of this process, before MPI may change that. Local. */
void ls_kin_read(ls_kin *out);
/* Processes of ranks, this one's too, in the order of the ranks; the caller frees *out. A rank that a script
 * started has several. Processes of other users and containers are not seen. Returns their number. Local. */
int ls_siblings_find(ls_sibling **out, const ls_kin *k);
/* Looks again at one. False: the process has ended. Local. */
bool ls_sibling_look(ls_sibling *s);
