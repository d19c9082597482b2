/* message.h - messages of the process that watches a rank on its host to the parent of all ranks. A message
 * is a line on stderr, which mpirun and srun forward from any host. Two control characters that no other text
 * contains mark its beginning and its end. */
#pragma once
#include "comm/shm.h"

typedef struct ls_rank_message {
    enum {
        LS_MESSAGE_HELLO = 'H',
        LS_MESSAGE_JOINED = 'J',
        LS_MESSAGE_ALIVE = 'A', /* nothing is new */
        LS_MESSAGE_FAILURE = 'F',
        LS_MESSAGE_RUN = 'R',
        LS_MESSAGE_HALTED = 'T',
        LS_MESSAGE_END = 'E'
    } kind;
    int rank;
    ls_heard heard;              /* with LS_MESSAGE_FAILURE */
    char run[LS_RUN_PATH_BYTES]; /* with LS_MESSAGE_RUN: the run directory that is open; "": none */
    /* with LS_MESSAGE_END: how the rank has ended */
    int status, killed, out_of_memory, exec_error;
    uint64_t limit, planned;
    char doing[128];
    int process, seconds; /* with LS_MESSAGE_HALTED: ls_halt, and `doing` */
} ls_rank_message;

enum { LS_MESSAGE_BEGIN = 0x1e, LS_MESSAGE_OVER = 0x1f };

void ls_rank_message_send(const ls_rank_message *f);
/* `text` is what stands between the two characters. */
bool ls_rank_message_read(ls_rank_message *f, const char *text);
