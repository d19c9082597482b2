/* fact.h - messages of the process that watches a rank on its host to the parent of all ranks. A message is a
 * line on stderr, which mpirun and srun forward from any host. Two control characters that no other text
 * contains mark its beginning and its end. */
#pragma once
#include "comm/shm.h"

typedef struct ls_fact {
    enum { LS_FACT_HELLO = 'H', LS_FACT_JOINED = 'J', LS_FACT_FAILURE = 'F', LS_FACT_END = 'E' } kind;
    int rank;
    ls_heard heard; /* with LS_FACT_FAILURE */
    /* with LS_FACT_END: how the rank has ended */
    int status, killed, out_of_memory, exec_error;
    uint64_t limit, planned;
    char doing[128];
} ls_fact;

enum { LS_FACT_BEGIN = 0x1e, LS_FACT_OVER = 0x1f };

void ls_fact_tell(const ls_fact *f);
/* `text` is what stands between the two characters. */
bool ls_fact_read(ls_fact *f, const char *text);
