/* control.h - the control block: the memory in which the ranks of one machine meet. For ranks that are
 * threads it is an anonymous mapping; for ranks that are processes, the first pages of an anonymous file.
 * Ranks are counted on this machine here: local rank 0, 1, ... The block holds
 *
 *   a record per rank             who the rank is and what it does; only that rank writes it
 *   counters per axis and rank    only that rank raises them; others wait until they reach a value
 *   staging memory per rank       small data that every rank needs
 *   the first failure of the group
 *   the run directory that a user's program has open
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "lockstep/status.h"

enum {
    LS_CONTROL_AXES = 64,       /* axes that a group can have at once: a bit each in 64 */
    LS_CONTROL_RANKS = 1024,    /* ranks of one machine */
    LS_STAGING_BYTES = 65536,   /* per rank; pages that nobody writes cost nothing */
    LS_DOING_WORDS = 16,        /* of 8 bytes: 128 characters */
    LS_ANSWER_WORDS = 44,       /* of 8 bytes: what another machine says of a rank */
    LS_CPU_WORDS = 16,          /* of 64 bits: as many cores as a cpu_set_t holds */
    LS_CALL_WORDS = 2,          /* of 8 bytes: ls_rank_call (exchange.h) */
    LS_FAILURE_BYTES = 4096,    /* longest message of a failure */
    LS_DESCRIPTION_BYTES = 256, /* of what a rank does */
    LS_RUN_PATH_BYTES = 2048,   /* of the path of a run directory, with its 0 */
};

typedef enum ls_rank_state { LS_RANK_ABSENT, LS_RANK_JOINED, LS_RANK_LEFT } ls_rank_state;

typedef struct ls_rank_record { /* written by its rank */
    _Alignas(64) _Atomic int state;
    _Atomic int pid;             /* 0: a thread of this process */
    _Atomic uint64_t start_time; /* ls_process_start_time: the system reuses pids */
    /* 1 + the local rank for whose counter it sleeps, in its own thread and in the communication thread; 0:
     * none */
    _Atomic int waits_for[2];
    /* 1 + rank of another machine that it waits for, and will itself report; 0: none */
    _Atomic int waits_for_remote;
    _Atomic int exec_error;    /* errno of a process that could not execute the program; 0: it could */
    _Atomic uint64_t planned;  /* bytes of its plans */
    _Atomic uint64_t programs; /* how many it has begun whose collectives its device runs (ls_group_began) */
    _Atomic uint64_t claimed;  /* what its process uses alone on its host (host_share.h); 0: nothing */
    /* ls_rank_call of its exchange: valid between the exchange's two ticks */
    _Atomic uint64_t call[LS_CALL_WORDS];
    _Atomic uint64_t doing[LS_DOING_WORDS];
    /* what the machine of the rank in waits_for_remote says of it; empty: it has not been asked */
    _Atomic uint64_t answer[LS_ANSWER_WORDS];
    _Atomic uint64_t cpus[LS_CPU_WORDS]; /* cores that it may use, a bit each */
} ls_rank_record;

typedef enum ls_counter {
    LS_ARRIVALS, /* fences between programs */
    LS_TICKS     /* collectives and exchanges */
} ls_counter;

typedef struct ls_counters { /* the counts wrap around: compare differences */
    _Alignas(64) _Atomic uint32_t count[2];
    _Atomic uint32_t sleepers[2]; /* how many ranks sleep until that count is raised, and must be woken */
} ls_counters;

/* How the failed rank failed: it reported the failure itself; it was late; it ended, or left the group,
 * while another rank waited for it. */
typedef enum ls_missed { LS_MISSED_NOT, LS_MISSED_LATE, LS_MISSED_GONE } ls_missed;

enum { LS_FAILURE_NONE = 0, LS_FAILURE_READY = -1 };
typedef struct ls_failure {
    _Atomic int state; /* none, ready to be read, or the pid of the process that is writing it */
    int rank, code;    /* the failed rank; when a rank did not come, that rank */
    int missed;        /* ls_missed */
    /* the rank that tells the user: mostly the one that found the failure; -1: the launcher does */
    int reporter;
    char text[LS_FAILURE_BYTES];
} ls_failure;

/* The run directory of a user's program, for the process that started the ranks. Rank 0 writes it. */
typedef struct ls_named_run {
    _Atomic int known; /* `path` may be read */
    char path[LS_RUN_PATH_BYTES];
} ls_named_run;

typedef struct ls_control_block {
    uint64_t magic;
    int ranks;
    _Atomic int users;    /* groups of a block for threads; the last one frees it */
    _Atomic uint64_t end; /* shm.c: bytes of the file that are in use */
    ls_failure failure;
    ls_named_run run;
    /* ls_rank_record [ranks], ls_counters [LS_CONTROL_AXES][ranks], staging [ranks][LS_STAGING_BYTES] */
    _Alignas(64) char rest[];
} ls_control_block;

size_t ls_control_bytes(int ranks);
bool ls_control_valid(const ls_control_block *c,
                      size_t bytes);                  /* a block of this version lies in these bytes */
void ls_control_init(ls_control_block *c, int ranks); /* of zeroed memory */
ls_rank_record *ls_control_record(ls_control_block *c, int local);
ls_counters *ls_control_counters(ls_control_block *c, int axis, int local);
char *ls_control_staging(ls_control_block *c, int local);

/* Keeps the first failure and ignores later ones. `rank` and `reporter` are ranks of the group. */
void ls_control_fail(ls_control_block *c, int rank, int reporter, ls_status code, const char *text);
/* The same with LS_E_PEER, for a rank that another rank waited for in vain. */
void ls_control_missed(ls_control_block *c, int rank, int reporter, ls_missed how, const char *text);
bool ls_control_failed(ls_control_block *c);
/* The same, but waits while a rank is writing its message. */
bool ls_control_failure_ready(ls_control_block *c);

/* Sets a second block, of one rank, which also gets what this process does and how its group fails: the
 * block of the process that watches this one, when another launcher connects the ranks. NULL: there is
 * none. */
void ls_control_report_to(ls_control_block *c);
ls_control_block *ls_control_report(void);
void ls_control_report_failure(const ls_failure *f); /* a failure that this rank has heard of */

/* `path` "": there is no run. Paths of LS_RUN_PATH_BYTES and more are taken for none. */
void ls_control_set_run(ls_control_block *c, const char *path);
void ls_control_run(const ls_control_block *c, char path[LS_RUN_PATH_BYTES]);

void ls_control_set_doing(ls_rank_record *s, const char *what);
/* What another machine says of the rank that this one waits for. */
void ls_control_set_answer(ls_rank_record *s, const char *what);
void ls_control_answer(ls_control_block *c, int local, char text[8 * LS_ANSWER_WORDS]);
/* The rank's latest text of ls_group_doing. */
void ls_control_doing(ls_control_block *c, int local, char text[128]);
/* "it last did: step 12, micro"; "...; it is stopped (state T)" */
#define LS_SAID_STOPPED "it is stopped (state T)" /* what it says of a stopped process */
#define LS_SAID_NOTHING "its host does not answer"
void ls_control_describe(ls_control_block *c, int local, char text[LS_DESCRIPTION_BYTES]);
/* The rank that this one waits for in the end: if a waits for b and b waits for c, it is c. */
int ls_control_blocker(ls_control_block *c, int local);
/* The reason why a rank will not come: it has left, or its process has ended. NULL: as far as this process
 * can know, it lives. */
const char *ls_rank_gone(ls_rank_record *s);
