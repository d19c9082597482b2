/* mpi.c - the transport over MPI: built once for each MPI found (lockstep-mpi.so, lockstep-mpich.so), opened
 * by comm/module.c. The only file that includes mpi.h. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/transport.h"

typedef struct channel {
    MPI_Comm comm; /* ours: messages here never meet the caller's */
    bool finalize; /* MPI was initialised here */
} channel;
_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request must fit into ls_message");

static bool fails(ls_transport *t, const char *what, int error)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(error, text, &length);
    snprintf(t->error, sizeof t->error, "%.100s: %.400s", what, text);
    return false;
}

#define CALL(t, function, ...)                  \
    do {                                        \
        int error_ = function(__VA_ARGS__);     \
        if (error_ != MPI_SUCCESS)              \
            return fails(t, #function, error_); \
    } while (0)

static void mpi_describe(char text[LS_TRANSPORT_TEXT])
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, ",\n")] = 0;
    for (char *c = version; *c; c++)
        if (*c == '\t')
            *c = ' ';
    snprintf(text, LS_TRANSPORT_TEXT, "%.*s", LS_TRANSPORT_TEXT - 1, version);
}

/* Serialized is enough where MPI is ours: one thread at a time calls it. In somebody else's program others
 * call it too. */
static bool initialise(ls_transport *t, bool theirs, bool *here)
{
    int running = 0, finalized = 0, level = MPI_THREAD_SINGLE,
        needed = theirs ? MPI_THREAD_MULTIPLE : MPI_THREAD_SERIALIZED;
    CALL(t, MPI_Initialized, &running);
    CALL(t, MPI_Finalized, &finalized);
    if (finalized || (theirs && !running)) {
        char text[LS_TRANSPORT_TEXT];
        mpi_describe(text);
        snprintf(
            t->error, sizeof t->error, "%.200s is %s", text,
            finalized
                ? "finalized already"
                : "not initialised: call MPI_Init_thread first, and use the module built for the same MPI");
        return false;
    }
    if (running)
        CALL(t, MPI_Query_thread, &level);
    else
        CALL(t, MPI_Init_thread, NULL, NULL, needed, &level);
    *here = !running;
    if (level < needed)
        snprintf(t->error, sizeof t->error,
                 "this MPI takes calls from fewer threads than are needed: initialise it with %s",
                 theirs ? "MPI_THREAD_MULTIPLE" : "MPI_THREAD_SERIALIZED or more");
    return level >= needed;
}

static bool find_machine(ls_transport *t, MPI_Comm comm)
{
    MPI_Comm machine;
    CALL(t, MPI_Comm_split_type, comm, MPI_COMM_TYPE_SHARED, t->rank, MPI_INFO_NULL, &machine);
    t->machine = t->rank;
    CALL(t, MPI_Bcast, &t->machine, 1, MPI_INT, 0, machine);
    CALL(t, MPI_Comm_free, &machine);
    return true;
}

static bool find_most_tag(ls_transport *t, MPI_Comm comm)
{
    int *most = NULL, found = 0;
    CALL(t, MPI_Comm_get_attr, comm, MPI_TAG_UB, &most, &found);
    t->most_tag = found ? *most : 32767; /* (the standard's least) */
    return true;
}

static bool duplicate(ls_transport *t, channel *c, MPI_Comm comm)
{
    CALL(t, MPI_Comm_dup, comm, &c->comm);
    CALL(t, MPI_Comm_set_errhandler, c->comm, MPI_ERRORS_RETURN); /* a library's caller decides what dies */
    CALL(t, MPI_Comm_rank, c->comm, &t->rank);
    CALL(t, MPI_Comm_size, c->comm, &t->size);
    return find_most_tag(t, c->comm) && find_machine(t, c->comm);
}

static bool open_channel(ls_transport *t, const void *communicator)
{
    channel *c = calloc(1, sizeof *c);
    if (!c) {
        snprintf(t->error, sizeof t->error, "out of memory");
        return false;
    }
    if (!initialise(t, communicator, &c->finalize) ||
        !duplicate(t, c, communicator ? *(const MPI_Comm *)communicator : MPI_COMM_WORLD)) {
        free(c);
        return false;
    }
    t->own = c;
    return true;
}

static void close_channel(ls_transport *t, bool orderly)
{
    channel *c = t->own;
    if (orderly) {
        MPI_Comm_free(&c->comm);
        if (c->finalize)
            MPI_Finalize();
    }
    free(c);
    t->own = NULL;
}

static MPI_Comm comm_of(const ls_transport *t) { return ((const channel *)t->own)->comm; }

static bool all_gather(ls_transport *t, const void *mine, size_t bytes, void *all)
{
    CALL(t, MPI_Allgather, mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, comm_of(t));
    return true;
}

static void mpi_keep(ls_message *m, MPI_Request r) { memcpy(&m->request, &r, sizeof r); }
static MPI_Request kept(const ls_message *m)
{
    MPI_Request r;
    memcpy(&r, &m->request, sizeof r);
    return r;
}

static bool send_bytes(ls_transport *t, ls_message *m, const void *data, size_t bytes, int to, int tag)
{
    MPI_Request r;
    CALL(t, MPI_Isend, data, (int)bytes, MPI_BYTE, to, tag, comm_of(t), &r);
    mpi_keep(m, r);
    return true;
}

static bool receive_bytes(ls_transport *t, ls_message *m, void *data, size_t bytes, int from, int tag)
{
    MPI_Request r;
    CALL(t, MPI_Irecv, data, (int)bytes, MPI_BYTE, from == LS_TRANSPORT_ANY ? MPI_ANY_SOURCE : from, tag,
         comm_of(t), &r);
    mpi_keep(m, r);
    return true;
}

static bool test(ls_transport *t, ls_message *m, bool *done)
{
    MPI_Request r = kept(m);
    int flag = 0;
    CALL(t, MPI_Test, &r, &flag, MPI_STATUS_IGNORE);
    mpi_keep(m, r);
    *done = flag;
    return true;
}

/* Only receives can be taken back, and those not when they have begun. */
static bool cancel(ls_transport *t, ls_message *m)
{
    MPI_Request r = kept(m);
    bool done = false;
    return (r == MPI_REQUEST_NULL || MPI_Cancel(&r) == MPI_SUCCESS) && test(t, m, &done) && done;
}

__attribute__((visibility("default"))) extern const ls_transport_ops lockstep_transport;
const ls_transport_ops lockstep_transport = { .abi = LS_TRANSPORT_ABI,
                                              .describe = mpi_describe,
                                              .open = open_channel,
                                              .close = close_channel,
                                              .all_gather = all_gather,
                                              .send = send_bytes,
                                              .receive = receive_bytes,
                                              .test = test,
                                              .cancel = cancel };
