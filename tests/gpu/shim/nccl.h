/* nccl.h - what the files of the shim's libnccl.so.2 share. Ranks are processes of this machine; their data
 * goes through memory that all of them map. */
#pragma once
#include <pthread.h>

#include "device/cuda/nccl_api.h"
#include "shim.h"

enum { NCCL_RANKS = 16 /* most ranks */, NCCL_CHUNK = 32 << 10 };

/* What a rank has put in for another one, a chunk at a time. */
typedef struct box {
    _Atomic unsigned full;
    int kind;
    size_t total, bytes; /* of the message, of the chunk */
    char data[NCCL_CHUNK];
} box;

typedef struct share {
    _Atomic unsigned changes, waiters;
    _Atomic int n; /* ranks, as the first one said */
    _Atomic int arrived, finalized;
    _Atomic int gpus[NCCL_RANKS]; /* 1 + the GPU of each rank; 0: not there */
    _Atomic int broken;
    char why[256];
    box boxes[]; /* from * n + to */
} share;

typedef enum op_kind { ALL_GATHER = 1, SEND_RECEIVE } op_kind;
typedef struct part {
    bool sends, moved; /* moved: all of it */
    int peer;
    char *at; /* as the host reads it */
    size_t bytes, done;
} part;

struct ncclComm {
    share *s;
    size_t mapped;
    int n, rank, gpu;
    pid_t process;
    bool finalized;
    uint64_t operations;
    _Atomic bool aborted, works;
    _Atomic int error;      /* what ncclCommGetAsyncError says */
    _Atomic unsigned calls; /* in streams and in graphs */
    struct ncclComm *next;
};

typedef struct op {
    nccl_comm comm;
    op_kind kind;
    bool lost; /* it never ends */
    uint64_t number;
    int n;
    part parts[];
} op;

/* ---- nccl_share.c */
/* The id of new memory. False: there is none. */
bool nccl_make_share(nccl_id *id);
share *nccl_map_share(const nccl_id *id, int n, size_t *mapped);
void nccl_changed(share *s);
/* Waits for a change since `seen` of `changes`; false: for a long time. */
bool nccl_wait_change(share *s, unsigned seen);
/* The same for a word of this process or of all ranks. */
void nccl_wake(_Atomic unsigned *word);
bool nccl_sleep(_Atomic unsigned *word, unsigned seen);
/* Runs an operation, in a stream (a cu_host_function). */
void nccl_run(void *op);
