/* nccl_api.h - the functions of NVIDIA's NCCL (libnccl.so.2) that Lockstep calls, opened when ranks on GPUs
 * first meet: it is not needed to build. Names, numbers and types are those of the vendor's documentation
 * ("NCCL API"), written here as C types. */
#pragma once
#include "driver.h"

typedef int nccl_result;
typedef struct ncclComm *nccl_comm;
typedef struct nccl_id { /* passed by value */
    char bytes[128];
} nccl_id;

enum {
    NCCL_SUCCESS = 0,
    NCCL_CUDA_ERROR = 1,
    NCCL_SYSTEM_ERROR = 2,
    NCCL_INTERNAL_ERROR = 3,
    NCCL_INVALID_ARGUMENT = 4,
    NCCL_INVALID_USAGE = 5,
    NCCL_REMOTE_ERROR = 6,
    NCCL_IN_PROGRESS = 7,
};
enum { NCCL_INT8 = 0 }; /* of a type of data: bytes */

/* F(field, symbol, arguments); each returns a nccl_result */
#define NCCL_FUNCTIONS(F)                                                                                    \
    F(version, ncclGetVersion, (int *version)) /* 22304: 2.23.4 */                                           \
    F(unique_id, ncclGetUniqueId, (nccl_id * id))                                                            \
    F(join, ncclCommInitRank, (nccl_comm * c, int n, nccl_id id, int rank)) /* blocks until all are there */ \
    F(finalize, ncclCommFinalize, (nccl_comm c)) /* collective: what was begun ends */                       \
    F(destroy, ncclCommDestroy, (nccl_comm c))   /* waits until graphs with its calls are gone */            \
    F(abort, ncclCommAbort, (nccl_comm c))       /* kernels end at once; then as destroy, alone */           \
    F(async_error, ncclCommGetAsyncError, (nccl_comm c, nccl_result * r))                                    \
    F(all_gather, ncclAllGather,                                                                             \
      (const void *from, void *to, size_t count, int type, nccl_comm c, cu_stream s))                        \
    F(send, ncclSend, (const void *from, size_t count, int type, int peer, nccl_comm c, cu_stream s))        \
    F(receive, ncclRecv, (void *to, size_t count, int type, int peer, nccl_comm c, cu_stream s))             \
    F(group_start, ncclGroupStart, (void))                                                                   \
    F(group_end, ncclGroupEnd, (void))
/* F(field, symbol, arguments); each returns a text */
#define NCCL_TEXTS(F)                                  \
    F(error_text, ncclGetErrorString, (nccl_result r)) \
    F(last_error, ncclGetLastError, (nccl_comm c)) /* NULL: of the thread's latest call that failed */

#define NCCL_FIELD(field, symbol, arguments) nccl_result(*field) arguments;
#define NCCL_TEXT_FIELD(field, symbol, arguments) const char *(*field)arguments;
typedef struct nccl_functions {
    NCCL_FUNCTIONS(NCCL_FIELD)
    NCCL_TEXTS(NCCL_TEXT_FIELD)
} nccl_functions;
