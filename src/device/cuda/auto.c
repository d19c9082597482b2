/* auto.c - whether a program that names no device gets the GPU of this machine. Asked on each machine, also
 * on those without a driver, so it is quick there: one look by the loader. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "comm/host_share.h"
#include "cuda_own.h"

/* Whether there may be a driver, without looking through folders. */
static bool may_have_driver(void)
{
    const char *list = getenv("LOCKSTEP_CUDA_LIBRARIES");
    return (list && *list) || dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != NULL;
}

static bool takes_cpu(char text[LS_TASK_MESSAGE], ls_level *level, const char *though)
{
    snprintf(text, LS_TASK_MESSAGE, "device: auto takes cpu, though there is a %s: %s", though,
             ls_error_message());
    *level = LS_WARN;
    return false;
}

/* If there is a driver or a GPU that cannot be used, the user hears why. Nothing is said where there is none.
 */
static bool auto_look(char text[LS_TASK_MESSAGE], ls_level *level)
{
    const cu_driver *cu;
    const ls_cuda_gpu *gpu;
    const ls_cuda_compiler *compiler;
    int n = 0;
    text[0] = 0;
    if (!may_have_driver())
        return false;
    if (ls_cuda_driver(&cu) != LS_OK)
        return ls_cuda_has_no_gpu() ? false : takes_cpu(text, level, "driver");
    if (cu->device_count(&n) != CU_SUCCESS || n == 0)
        return false;
    if (ls_cuda_gpu_of_process(&gpu) != LS_OK || ls_cuda_compiler_open(&compiler) != LS_OK)
        return takes_cpu(text, level, "GPU");
    const ls_arch *arch = ls_cuda_arch_of(gpu->capability);
    *level = arch ? LS_INFO : LS_WARN;
    snprintf(text, LS_TASK_MESSAGE, "device: auto takes %s%s, GPU %d (%s, sm_%d)", arch ? "cuda" : "cpu",
             arch ? "" : ", because kernels are not for", gpu->ordinal, gpu->name, gpu->capability);
    return arch != NULL;
}

bool ls_cuda_takes_auto(const ls_device_opts *o)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static int known; /* 0: not asked yet; 1: no; 2: yes */
    char text[LS_TASK_MESSAGE];
    ls_level level = LS_INFO;
    const char *isa = o->isa ? o->isa : getenv("LOCKSTEP_ISA");
    if (isa && *isa)
        return !strncmp(isa, "sm_", 3);
    if (o->kernels && strcmp(o->kernels, "own"))
        return true;
    pthread_mutex_lock(&lock);
    if (!known) {
        known = auto_look(text, &level) ? 2 : 1;
        if (*text && ls_host_share_get().rank == 0)
            ls_log(level, "%s", text);
    }
    const bool takes = known == 2;
    pthread_mutex_unlock(&lock);
    return takes;
}
