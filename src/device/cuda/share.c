/* share.c - which GPU each rank has. Rank r of a host has its GPU r. Where mpirun or srun starts the ranks it
 * may give each of them GPUs of its own, which each counts from 0; then a rank takes its only one, and says
 * so to the others: two ranks on one GPU are found. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "comm/environment.h"
#include "comm/host_share.h"
#include "cuda_own.h"

static bool may_share(void)
{
    const char *said = getenv("LOCKSTEP_CUDA_SHARE");
    return said && !strcmp(said, "1");
}

/* Whether each rank may have an environment, and so GPUs, of its own. */
static bool own_environments(void)
{
    ls_environment e;
    return ls_environment_read(&e) == LS_OK && e.launcher == LS_LAUNCHER_MPI;
}

/* LOCKSTEP_CUDA_DEVICE: a number, for a process that is not one of several ranks. */
static ls_status ordinal_said(int *ordinal, const char *said, int ranks)
{
    char *end;
    const long n = strtol(said, &end, 10);
    if (*end || end == said || n < 0 || n > 4095)
        return ls_fail(LS_E_USAGE, "LOCKSTEP_CUDA_DEVICE=%s: it is the number of a GPU, from 0", said);
    if (ranks > 1)
        return ls_fail(LS_E_USAGE,
                       "LOCKSTEP_CUDA_DEVICE=%s: with %d ranks on a host each has the GPU of its number; "
                       "CUDA_VISIBLE_DEVICES says which GPUs those are",
                       said, ranks);
    *ordinal = (int)n;
    return LS_OK;
}

ls_status ls_cuda_ordinal(int *ordinal, int n)
{
    const char *said = getenv("LOCKSTEP_CUDA_DEVICE"), *visible = getenv("CUDA_VISIBLE_DEVICES");
    const ls_host_share here = ls_host_share_get();
    *ordinal = here.rank;
    if (said && *said)
        return ordinal_said(ordinal, said, here.size);
    if (may_share())
        *ordinal = here.rank % n;
    else if (n == 1 && own_environments())
        *ordinal = 0;
    else if (here.size > n)
        return ls_fail(
            LS_E_UNSUPPORTED,
            "device cuda: %d ranks on this host and %d GPU%s%s%s%s: each rank needs one of its own; "
            "workers: %d, or LOCKSTEP_CUDA_SHARE=1 lets ranks share them",
            here.size, n, n == 1 ? "" : "s", visible ? " (CUDA_VISIBLE_DEVICES is \"" : "",
            visible ? visible : "", visible ? "\")" : "", n);
    return LS_OK;
}

int ls_cuda_ranks_each(int n)
{
    const int ranks = ls_host_share_get().size;
    return may_share() ? (ranks + n - 1) / n : 1;
}

ls_status ls_cuda_claim(const ls_cuda_gpu *gpu)
{
    const int other = may_share() ? -1 : ls_host_share_claim(ls_hash_text(gpu->bus));
    return other < 0
               ? LS_OK
               : ls_fail(LS_E_UNSUPPORTED,
                         "device cuda: rank %d of this host has the same GPU, %s at %s: give each rank one "
                         "of its own (srun --gpus-per-task=1), or LOCKSTEP_CUDA_SHARE=1 lets ranks share it",
                         other, gpu->name, gpu->bus);
}
