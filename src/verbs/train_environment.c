/* train_environment.c - see train_environment.h. Somebody who comes from torchrun has these variables set,
 * and expects that they count. */
#include "train_environment.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/environment.h"
#include "recipe/recipe_use.h"

/* Adds the variable, of `length` bytes, if it is set and not empty. */
static void add_if_set(ls_str *list, const char *name, size_t length)
{
    for (char *const *v = environ; v && *v; v++)
        if (!strncmp(*v, name, length) && (*v)[length] == '=' && (*v)[length + 1])
            ls_str_printf(list, "%s%.*s", list->len ? ", " : "", (int)length, name);
}

/* Adds those that begin with these letters. */
static void add_all(ls_str *list, const char *name, size_t length)
{
    for (char *const *v = environ; v && *v; v++)
        if (!strncmp(*v, name, length))
            ls_str_printf(list, "%s%.*s", list->len ? ", " : "", (int)strcspn(*v, "="), *v);
}

/* "A, B: MEANING", for those of `names` that are set; "NCCL_*" is all that begin so. */
static void environment_tell(ls_str *out, const char *names, const char *meaning)
{
    ls_str list = { 0 };
    for (size_t n; *names; names += n + (names[n] == ' ')) {
        n = strcspn(names, " ");
        if (names[n - 1] == '*')
            add_all(&list, names, n - 1);
        else
            add_if_set(&list, names, n);
    }
    if (list.len)
        ls_str_printf(out, "%s%s: %s", out->len ? "; " : "", ls_str_text(&list), meaning);
    ls_str_release(&list);
}

/* The command's own ranks, or those of mpirun and srun, beside variables of torchrun. */
static const char *instead_of_torchrun(ls_launcher launcher)
{
    return launcher == LS_LAUNCHER_OWN   ? "not used, --workers started the ranks"
           : launcher == LS_LAUNCHER_MPI ? "not used, MPI's launcher started the ranks"
                                         : "one rank; --workers N starts more";
}

void ls_train_environment(ls_str *out, const ls_loop *l, ls_cpu_limit threads_by)
{
    const ls_recipe *r = l->recipe;
    const bool named = r->threads || r->cores_per_worker, decides = !named && threads_by == LS_CPU_OMP,
               cuda = !strcmp(l->trainer->compiled.device.ops->name, "cuda");
    ls_environment e = { 0 };
    if (ls_environment_read(&e) != LS_OK)
        return; /* (joining the group has reported it) */
    const bool torchrun = e.launcher == LS_LAUNCHER_TORCHRUN;
    environment_tell(out, "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE",
                     torchrun ? "used, torchrun started the ranks" : instead_of_torchrun(e.launcher));
    if (torchrun)
        environment_tell(out, "MASTER_PORT", "used, as the name under which the ranks meet");
    environment_tell(out, torchrun ? "MASTER_ADDR GLOO_*" : "MASTER_ADDR MASTER_PORT GLOO_*",
                     "not needed, ranks of a host share memory and hosts speak MPI");
    environment_tell(out, "NCCL_*",
                     cuda ? "read by NCCL, where it is found" : "not needed, NCCL is for device cuda");
    environment_tell(
        out, "TORCH_NCCL_* TORCH_DISTRIBUTED_DEBUG TORCH_CPP_LOG_LEVEL TORCH_LOGS TORCH_SHOW_CPP_STACKTRACES",
        "not needed, no PyTorch runs here; --verbose says more, and failure.stall_seconds ends a wait");
    environment_tell(out, "PYTORCH_*", "not needed, memory is planned before the first step");
    environment_tell(out, "CUDA_VISIBLE_DEVICES", cuda ? "used" : "not needed, the device is not cuda");
    environment_tell(out, "CUDA_LAUNCH_BLOCKING", "not used, LOCKSTEP_CUDA_WAIT=1 waits for each kernel");
    if (torchrun || !decides) /* else the line of the model says it */
        environment_tell(out, "OMP_NUM_THREADS",
                         decides ? "used, torchrun sets it to 1; the recipe's threads: N wins"
                         : named ? "not used, the recipe says how many threads"
                                 : "no effect, the cores allow no more threads");
    environment_tell(out, "MKL_NUM_THREADS OPENBLAS_NUM_THREADS",
                     "not used; threads: N of the recipe, or OMP_NUM_THREADS");
    environment_tell(out, "OMP_PROC_BIND OMP_PLACES KMP_AFFINITY GOMP_CPU_AFFINITY",
                     "not used, each rank is bound to its own cores (LOCKSTEP_BIND)");
}
