/* test_nccl.c - the shim of NCCL names calls that the header forbids. */
#include "device/cuda/nccl_api.h"
#include "link_ranks.h"

#define DECLARE(field, symbol, arguments) nccl_result symbol arguments;
NCCL_FUNCTIONS(DECLARE)
const char *ncclGetLastError(nccl_comm c);
cu_result cuStreamCreate(cu_stream *s, unsigned flags), cuStreamDestroy_v2(cu_stream s);

static nccl_comm comm_of(rank *r, cu_stream *s)
{
    nccl_comm c;
    nccl_id id;
    HOLDS(!cuStreamCreate(s, CU_STREAM_NON_BLOCKING));
    if (r->rank == 0) {
        HOLDS(!ncclGetUniqueId(&id));
        memcpy(r->all->id, &id, sizeof id);
        r->all->arrived = 1;
    }
    while (!r->all->arrived)
        nap();
    memcpy(&id, r->all->id, sizeof id);
    HOLDS(!ncclCommInitRank(&c, r->n, id, r->rank));
    return c;
}

static nccl_result in_group(nccl_result a, nccl_result b) { return a ? a : b; }

static void forbidden(rank *r)
{
    cu_stream s;
    begin(r);
    const nccl_comm c = comm_of(r, &s);
    char *own = r->a + 64 * (size_t)r->rank, *host = malloc(256), *end_of_room = r->a + MOST;
    const int other = 1 - r->rank;
    nccl_comm none;
    nccl_id id = { "no id" };
#define REFUSED(call, text)                                                      \
    do {                                                                         \
        const nccl_result got = (call);                                          \
        if (!got || !strstr(ncclGetLastError(NULL), text)) {                     \
            fprintf(stderr, "%s: %d, %s\n", #call, got, ncclGetLastError(NULL)); \
            _exit(3);                                                            \
        }                                                                        \
    } while (0)
    REFUSED(ncclAllGather(own, r->a, 64, 7, c, s), "type 7");
    REFUSED(ncclAllGather(r->b, r->a, 64, NCCL_INT8, c, s), "not in place");
    REFUSED(ncclAllGather(own, r->a, MOST, NCCL_INT8, c, s), "not memory of the GPU");
    REFUSED(ncclAllGather(host, host, 64, NCCL_INT8, c, s), "not memory of the GPU");
    REFUSED(ncclAllGather(own, r->a, 64, NCCL_INT8, c, NULL), "the NULL stream");
    REFUSED(ncclAllGather(own, r->a, 64, NCCL_INT8, NULL, s), "no communicator");
    REFUSED(ncclSend(r->a, 64, NCCL_INT8, other, c, s), "outside of a group");
    REFUSED(ncclGroupEnd(), "no group has begun");
#define REFUSED_IN_GROUP(call, text)        \
    do {                                    \
        HOLDS(!ncclGroupStart());           \
        const nccl_result failed = (call);  \
        REFUSED(in_group(failed, 0), text); \
        HOLDS(ncclGroupEnd());              \
    } while (0)
    REFUSED_IN_GROUP(ncclSend(r->a, 64, NCCL_INT8, 2, c, s), "peer 2 of 2 ranks");
    REFUSED_IN_GROUP(ncclSend(r->a, 64, NCCL_INT8, -1, c, s), "peer -1 of 2 ranks");
    REFUSED_IN_GROUP(ncclRecv(end_of_room - 63, 64, NCCL_INT8, other, c, s), "not memory of the GPU");
    REFUSED_IN_GROUP(
        in_group(ncclSend(r->a, 64, NCCL_INT8, other, c, s), ncclRecv(r->a + 63, 64, NCCL_INT8, other, c, s)),
        "overlap in memory");
    REFUSED_IN_GROUP(
        in_group(ncclSend(r->a, 64, NCCL_INT8, other, c, s), ncclSend(r->b, 64, NCCL_INT8, other, c, s)),
        "a second message for rank");
    REFUSED(ncclCommInitRank(&none, 2, id, 0), "the id is none");
    REFUSED(ncclCommInitRank(&none, 2, id, 2), "rank 2 of 2");
    HOLDS(!cuStreamDestroy_v2(s));
    REFUSED(ncclAllGather(own, r->a, 64, NCCL_INT8, c, s), "the stream was destroyed");
    HOLDS(!ncclCommFinalize(c));
    REFUSED(ncclCommFinalize(c), "was finalized");
    HOLDS(!ncclCommDestroy(c));
    REFUSED(ncclCommDestroy(c), "no communicator");
    free(host);
    end(r);
}

/* Both ranks say that they are rank 0. */
static void same_rank(rank *r)
{
    r->rank = 0;
    r->all->arrived++;
    WORKS(ls_device_open(&r->d, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    r->link = ls_device_cuda.link;
    if (!strcmp(getenv("LOCKSTEP_CUDA_DEVICE"), "0")) {
        WORKS(r->link->invite(r->all->id));
        r->all->invited = 1;
    }
    while (!r->all->invited)
        nap();
    FAILS(r->link->join(&r->l, &r->d, r->all->id, 2, 0), "another process has this rank");
    r->all->arrived++;
    while (r->all->arrived < 4)
        nap();
}

/* Two ranks on one GPU. */
static void same_gpu(rank *r)
{
    setenv("LOCKSTEP_CUDA_DEVICE", "5", 1);
    WORKS(ls_device_open(&r->d, "cuda", &(ls_device_opts){ LS_DEVICE_DEFAULTS, .threads = 1 }));
    r->link = ls_device_cuda.link;
    if (r->rank == 0) {
        WORKS(r->link->invite(r->all->id));
        r->all->invited = 1;
    }
    while (!r->all->invited)
        nap();
    FAILS(r->link->join(&r->l, &r->d, r->all->id, 2, r->rank), "Duplicate GPU detected");
    r->all->arrived++;
    while (r->all->arrived < 2)
        nap();
}

static void wrong_arguments_are_named(void **state)
{
    (void)state;
    run(2, "delay=0us", forbidden, 0, "shim: ncclAllGather: type 7");
    run(2, "delay=0us", same_rank, 0, NULL);
    run(2, "delay=0us", same_gpu, 0, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(wrong_arguments_are_named) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
