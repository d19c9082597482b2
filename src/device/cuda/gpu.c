/* gpu.c - the driver, and the GPU that this process works with: one, from the first use to the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/variable.h"
#include "cuda_own.h"

/* 12.0 is the first driver whose compiler and graphs these sources are written for, and the first of the
 * family that runs what NVRTC 12 makes. */
enum { OLDEST_DRIVER = 12000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    cu_driver cu;
    bool open, chosen;
    bool empty; /* the driver said that there is no GPU */
    int version;
    ls_cuda_gpu gpu;
    cu_context context;
    pid_t process; /* that has the context */
} own;

/* "CUDA_ERROR_OUT_OF_MEMORY: out of memory" */
static const char *driver_text(char text[256], cu_result r)
{
    const char *name = NULL, *said = NULL;
    own.cu.error_name(r, &name);
    own.cu.error_text(r, &said);
    snprintf(text, 256, "%s: %s", name ? name : "unknown error", said ? said : "");
    return text;
}

bool ls_cuda_one_by_one(void)
{
    const char *said = getenv("LOCKSTEP_CUDA_WAIT");
    return said && !strcmp(said, "1");
}

/* Whether it is about a kernel that ran earlier. Any call may say so, from the fault on; where the host waits
 * for each task, it is about this call. */
static bool is_of_earlier_work(cu_result r)
{
    return (r == CU_ECC_ERROR || r == CU_ILLEGAL_ADDRESS || r == CU_LAUNCH_TIMEOUT || r == CU_ASSERT ||
            (r >= CU_HARDWARE_STACK_ERROR && r <= CU_LAUNCH_FAILED)) &&
           !ls_cuda_one_by_one();
}

static _Thread_local bool heard_of_earlier_work;
bool ls_cuda_heard_of_earlier_work(void) { return heard_of_earlier_work; }

ls_status ls_cuda_check(cu_result r, const char *what)
{
    char text[256];
    if (r == CU_SUCCESS)
        return LS_OK;
    if ((heard_of_earlier_work = is_of_earlier_work(r)))
        what = "device cuda: work on the GPU failed (LOCKSTEP_CUDA_WAIT=1 waits for each task and names the "
               "op)";
    return ls_fail(LS_E_DEVICE, "%s: %s", what, driver_text(text, r));
}

static ls_status no_gpu(cu_result r)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char text[256];
    if (visible && r == CU_NO_DEVICE)
        return ls_fail(
            LS_E_UNSUPPORTED,
            "device cuda: no GPU is visible: CUDA_VISIBLE_DEVICES is \"%s\"; unset it, or name GPUs "
            "that `nvidia-smi -L` lists",
            visible);
    return ls_fail(LS_E_UNSUPPORTED,
                   "device cuda: the driver finds no GPU that it can use (%s); "
                   "`nvidia-smi` says more",
                   driver_text(text, r));
}

static ls_status open_driver(void)
{
    static const char *const NAMES[] = { "libcuda.so.1", NULL };
    const ls_cuda_symbol symbols[] = {
#define CU_SYMBOL(field, symbol, arguments) { #symbol, &own.cu.field },
        CU_FUNCTIONS(CU_SYMBOL){ NULL, NULL }
    };
    char *path;
    ls_str places = { 0 };
    void *library = ls_cuda_library(NAMES, &path, &places);
    ls_status s = LS_OK;
    const char *missing = NULL;
    int version = 0;
    if (!library)
        s = ls_fail(LS_E_UNSUPPORTED,
                    "device cuda: no driver: libcuda.so.1 is not in %s; it comes with NVIDIA's driver for "
                    "Linux",
                    ls_str_text(&places));
    else
        missing = ls_cuda_symbols(library, symbols);
    if (s == LS_OK && (!missing || own.cu.driver_version))
        own.cu.driver_version(&version);
    if (s == LS_OK && (missing || version < OLDEST_DRIVER))
        s = ls_fail(
            LS_E_UNSUPPORTED,
            "device cuda: the driver (%s) is for CUDA %d.%d%s%s; 12.0 (driver 525) or newer is needed", path,
            version / 1000, version % 1000 / 10, missing ? " and lacks " : "", missing ? missing : "");
    if (s == LS_OK) {
        const cu_result r = own.cu.init(0);
        own.empty = r == CU_NO_DEVICE;
        s = r == CU_SUCCESS ? LS_OK : no_gpu(r);
    }
    own.open = s == LS_OK;
    own.version = version;
    own.process = getpid();
    free(path);
    ls_str_release(&places);
    return s;
}

static ls_status forked(void)
{
    return ls_fail(LS_E_ARG,
                   "device cuda: this process was forked from one that uses the GPU, which only that "
                   "one can");
}

static ls_status driver_locked(void)
{
    if (!own.open)
        return open_driver();
    return own.process == getpid() ? LS_OK : forked();
}

ls_status ls_cuda_driver(const cu_driver **out)
{
    pthread_mutex_lock(&lock);
    const ls_status s = driver_locked();
    pthread_mutex_unlock(&lock);
    *out = &own.cu;
    return s;
}

int ls_cuda_driver_version(void) { return own.version; }
bool ls_cuda_has_no_gpu(void) { return own.empty; }

static ls_status count(int *n)
{
    const cu_result r = own.cu.device_count(n);
    return r == CU_SUCCESS && *n > 0 ? LS_OK : no_gpu(r == CU_SUCCESS ? CU_NO_DEVICE : r);
}

static ls_status gpu_look(ls_cuda_gpu *out, int ordinal)
{
    const cu_driver *cu = &own.cu;
    int n = 0, major = 0, minor = 0;
    LS_TRY(count(&n));
    *out = (ls_cuda_gpu){ .ordinal = ordinal, .count = n, .ranks = 1 };
    if (ordinal >= n) {
        const char *visible = getenv("CUDA_VISIBLE_DEVICES");
        return ls_fail(
            LS_E_UNSUPPORTED, "device cuda: there is no GPU %d: there are %d, counted from 0%s%s%s", ordinal,
            n, visible ? " (CUDA_VISIBLE_DEVICES is \"" : "", visible ? visible : "", visible ? "\")" : "");
    }
    LS_TRY(ls_cuda_check(cu->device_get(&out->device, ordinal), "cuDeviceGet"));
    LS_TRY(ls_cuda_check(cu->device_name(out->name, sizeof out->name, out->device), "cuDeviceGetName"));
    LS_TRY(ls_cuda_check(cu->device_bus(out->bus, sizeof out->bus, out->device), "cuDeviceGetPCIBusId"));
    LS_TRY(ls_cuda_check(cu->device_memory(&out->memory, out->device), "cuDeviceTotalMem"));
    const struct {
        int *to, fact;
    } facts[] = { { &major, CU_CAPABILITY_MAJOR },
                  { &minor, CU_CAPABILITY_MINOR },
                  { &out->multiprocessors, CU_MULTIPROCESSORS },
                  { &out->shared_most, CU_MAX_SHARED_PER_BLOCK_OPTIN },
                  { &out->clock, CU_CLOCK },
                  { &out->memory_clock, CU_MEMORY_CLOCK },
                  { &out->memory_bits, CU_MEMORY_BITS },
                  { &out->mode, CU_COMPUTE_MODE } };
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        LS_TRY(
            ls_cuda_check(cu->device_fact(facts[i].to, facts[i].fact, out->device), "cuDeviceGetAttribute"));
    out->capability = 10 * major + minor;
    return LS_OK;
}

ls_status ls_cuda_look(ls_cuda_gpu *out, int ordinal)
{
    pthread_mutex_lock(&lock);
    ls_status s = driver_locked();
    if (s == LS_OK)
        s = gpu_look(out, ordinal);
    pthread_mutex_unlock(&lock);
    return s;
}

static ls_status check_variables(void)
{
    static const char *const SWITCHES[] = { "LOCKSTEP_CUDA_GRAPHS", "LOCKSTEP_CUDA_WAIT",
                                            "LOCKSTEP_CUDA_SHARE", "LOCKSTEP_CUDA_NCCL" };
    for (size_t i = 0; i < sizeof SWITCHES / sizeof SWITCHES[0]; i++)
        LS_TRY(ls_variable_check(SWITCHES[i], "0 1"));
    return LS_OK;
}

static ls_status choose_gpu(void)
{
    LS_TRY(driver_locked());
    if (own.chosen)
        return LS_OK;
    LS_TRY(check_variables());
    int n = 0, ordinal;
    LS_TRY(count(&n));
    LS_TRY(ls_cuda_ordinal(&ordinal, n));
    LS_TRY(gpu_look(&own.gpu, ordinal));
    LS_TRY(ls_cuda_claim(&own.gpu));
    own.gpu.ranks = ls_cuda_ranks_each(n);
    own.chosen = true;
    return LS_OK;
}

ls_status ls_cuda_gpu_of_process(const ls_cuda_gpu **out)
{
    pthread_mutex_lock(&lock);
    const ls_status s = choose_gpu();
    pthread_mutex_unlock(&lock);
    *out = &own.gpu;
    return s;
}

ls_status ls_cuda_enter(const cu_driver **out)
{
    static _Thread_local bool entered;
    *out = &own.cu;
    if (entered && own.process == getpid())
        return LS_OK;
    pthread_mutex_lock(&lock);
    ls_status s = choose_gpu();
    if (s == LS_OK && !own.context)
        s = ls_cuda_check(own.cu.context_retain(&own.context, own.gpu.device), "cuDevicePrimaryCtxRetain");
    pthread_mutex_unlock(&lock);
    if (s == LS_OK)
        s = ls_cuda_check(own.cu.context_set(own.context), "cuCtxSetCurrent");
    entered = s == LS_OK;
    return s;
}

static ls_status free_memory(size_t *out, cu_device d)
{
    cu_context c = NULL;
    size_t total;
    LS_TRY(driver_locked());
    LS_TRY(ls_cuda_check(own.cu.context_retain(&c, d), "cuDevicePrimaryCtxRetain"));
    cu_result r = own.cu.context_set(c);
    if (r == CU_SUCCESS)
        r = own.cu.memory_info(out, &total);
    own.cu.context_set(own.context);
    own.cu.context_release(d);
    return ls_cuda_check(r, "cuMemGetInfo");
}

ls_status ls_cuda_free_memory(size_t *out, const ls_cuda_gpu *gpu)
{
    pthread_mutex_lock(&lock);
    const ls_status s = free_memory(out, gpu->device);
    pthread_mutex_unlock(&lock);
    return s;
}
