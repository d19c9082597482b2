/* fact.h - what the process that watches a rank on its host tells the one that started them all: a line on
 * stderr, which mpirun and srun bring there from any host, between two characters that no text has. */
#pragma once
#include "comm/shm.h"

typedef struct ls_fact {
    enum { LS_FACT_HELLO = 'H', LS_FACT_JOINED = 'J', LS_FACT_FAILURE = 'F', LS_FACT_END = 'E' } kind;
    int rank;
    /* failure */
    ls_heard heard;
    /* end: its wait status, ... */
    int status, killed, out_of_memory, exec_error;
    uint64_t limit, planned;
    char doing[128];
} ls_fact;

enum { LS_FACT_BEGIN = 0x1e, LS_FACT_OVER = 0x1f };

void ls_fact_tell(const ls_fact *f);
/* `text` is what stood between the two characters. */
bool ls_fact_read(ls_fact *f, const char *text);
