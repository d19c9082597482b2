/* cuda.c - devices and contexts of the shim's libcuda.so.1. Each call checks its arguments and its caller as
 * the driver does, or stricter, and says what is wrong. */
#define _GNU_SOURCE
#include "shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DECLARE(field, symbol, arguments) EXPORT cu_result symbol arguments;
CU_FUNCTIONS(DECLARE)

struct shim_state shim;
_Thread_local bool shim_in_host_function;
static _Thread_local cu_context current;
enum { MOST_GPUS = 16 };
struct cu_context_st {
    int retained;
};
static struct cu_context_st contexts[MOST_GPUS];

static const struct {
    cu_result value;
    const char *name, *text;
} errors[] = {
    { CU_SUCCESS, "CUDA_SUCCESS", "no error" },
    { CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
    { CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
    { CU_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
    { CU_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE",
      "CUDA-capable device(s) is/are busy or unavailable" },
    { CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected" },
    { CU_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
    { CU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
    { CU_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image for the device" },
    { CU_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
    { CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found" },
    { CU_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready" },
    { CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered" },
    { CU_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources for launch" },
    { CU_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure" },
    { 800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted" },
    { CU_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
      "operation not permitted when stream is capturing" },
    { CU_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
      "a stream capture failed before" },
    { CU_STREAM_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE", "two captures would be merged" },
    { CU_STREAM_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
      "the capture was begun in another stream" },
    { CU_STREAM_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
      "capturing stream has unjoined work" },
    { CU_STREAM_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
      "dependency on uncaptured work in another stream" },
    { CU_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
      "operation not permitted on an event last recorded in a capturing stream" },
};
enum { ERRORS = sizeof errors / sizeof *errors };

cu_result cuGetErrorName(cu_result e, const char **text)
{
    for (int i = 0; i < ERRORS; i++)
        if (errors[i].value == e)
            return *text = errors[i].name, CU_SUCCESS;
    *text = NULL;
    return CU_INVALID_VALUE;
}

cu_result cuGetErrorString(cu_result e, const char **text)
{
    for (int i = 0; i < ERRORS; i++)
        if (errors[i].value == e)
            return *text = errors[i].text, CU_SUCCESS;
    *text = NULL;
    return CU_INVALID_VALUE;
}

/* ---- devices */

/* The physical number of each GPU that CUDA_VISIBLE_DEVICES leaves. */
static int visible(int list[MOST_GPUS])
{
    const char *said = getenv("CUDA_VISIBLE_DEVICES");
    const int gpus = shim.set.gpus < MOST_GPUS ? (int)shim.set.gpus : MOST_GPUS;
    int n = 0;
    if (!said) {
        for (; n < gpus; n++)
            list[n] = n;
        return n;
    }
    while (*said && n < MOST_GPUS) {
        char *end;
        const long number = strtol(said, &end, 10);
        if (end == said || number < 0 || number >= gpus)
            break; /* the driver stops at what it does not know */
        list[n++] = (int)number;
        said = end + (*end == ',');
    }
    return n;
}

int shim_current_gpu(void) { return current ? (int)(current - contexts) : -1; }

cu_result cuInit(unsigned flags)
{
    int list[MOST_GPUS];
    if (flags)
        return WRONG(CU_INVALID_VALUE, "flags are %u; use 0", flags);
    shim_lock();
    if (shim.ready && shim.process != getpid())
        return shim_leave(CU_NOT_INITIALIZED);
    shim.set = shim_read_settings();
    if (!visible(list))
        return shim_leave(CU_NO_DEVICE);
    shim.ready = true;
    shim.process = getpid();
    return shim_leave(CU_SUCCESS);
}

cu_result cuDriverGetVersion(int *version)
{
    *version = (int)shim_read_settings().driver;
    return CU_SUCCESS;
}

/* Initialised, in this process, and not in a function of the host; locks if so. */
static cu_result enter_without_context(const char *function)
{
    if (shim_in_host_function)
        return shim_wrong(800, function, "a function of the host in a stream may not call the driver");
    shim_lock();
    if (!shim.ready || shim.process != getpid())
        return shim_leave(CU_NOT_INITIALIZED);
    return CU_SUCCESS;
}

cu_result shim_enter(const char *function)
{
    const cu_result r = enter_without_context(function);
    if (r != CU_SUCCESS)
        return r;
    if (!current || !current->retained) {
        shim_unlock();
        return shim_wrong(CU_INVALID_CONTEXT, function, "no context is current in this thread");
    }
    return shim.failed ? shim_leave(shim.failed) : CU_SUCCESS;
}
#define ENTER_WITHOUT_CONTEXT()                                    \
    do {                                                           \
        const cu_result entered = enter_without_context(__func__); \
        if (entered != CU_SUCCESS)                                 \
            return entered;                                        \
    } while (0)

/* The physical number of a device; -1: there is none. */
static int physical(cu_device d)
{
    int list[MOST_GPUS];
    const int n = visible(list);
    return d >= 0 && d < n ? list[d] : -1;
}

cu_result cuDeviceGetCount(int *n)
{
    int list[MOST_GPUS];
    ENTER_WITHOUT_CONTEXT();
    *n = visible(list);
    return shim_leave(CU_SUCCESS);
}

cu_result cuDeviceGet(cu_device *d, int ordinal)
{
    ENTER_WITHOUT_CONTEXT();
    *d = ordinal;
    return shim_leave(physical(ordinal) < 0 ? CU_INVALID_DEVICE : CU_SUCCESS);
}

static cu_result text_of_device(char *text, int bytes, cu_device d, const char *format)
{
    const int number = physical(d);
    if (number < 0)
        return shim_leave(CU_INVALID_DEVICE);
    snprintf(text, (size_t)bytes, format, number); /* NOLINT: one of two below */
    return shim_leave(CU_SUCCESS);
}

cu_result cuDeviceGetName(char *text, int bytes, cu_device d)
{
    ENTER_WITHOUT_CONTEXT();
    return text_of_device(text, bytes, d, "Shim GPU %d");
}

cu_result cuDeviceGetPCIBusId(char *text, int bytes, cu_device d)
{
    ENTER_WITHOUT_CONTEXT();
    return text_of_device(text, bytes, d, "0000:%02x:00.0");
}

cu_result cuDeviceTotalMem_v2(size_t *bytes, cu_device d)
{
    ENTER_WITHOUT_CONTEXT();
    *bytes = shim.set.memory;
    return shim_leave(physical(d) < 0 ? CU_INVALID_DEVICE : CU_SUCCESS);
}

cu_result cuDeviceGetAttribute(int *value, int attribute, cu_device d)
{
    ENTER_WITHOUT_CONTEXT();
    const int capability = (int)shim.set.capability;
    if (physical(d) < 0)
        return shim_leave(CU_INVALID_DEVICE);
    switch (attribute) {
    case CU_MAX_SHARED_PER_BLOCK: *value = 48 << 10; break;
    case CU_MULTIPROCESSORS: *value = capability >= 90 ? 132 : 108; break;
    case CU_CLOCK: *value = (int)shim.set.clock; break;
    case CU_MEMORY_CLOCK: *value = (int)shim.set.memory_clock; break;
    case CU_MEMORY_BITS: *value = 5120; break;
    case CU_COMPUTE_MODE: *value = (int)shim.set.mode; break;
    case CU_CAPABILITY_MAJOR: *value = capability / 10; break;
    case CU_CAPABILITY_MINOR: *value = capability % 10; break;
    /* (CUDA C Programming Guide, technical specifications per compute capability) */
    case CU_MAX_SHARED_PER_BLOCK_OPTIN:
        *value = (capability == 80 || capability == 87        ? 163
                  : capability / 10 == 8 || capability >= 120 ? 99
                                                              : 227)
                 << 10;
        break;
    default: return shim_leave(WRONG(CU_INVALID_VALUE, "the shim does not know attribute %d", attribute));
    }
    return shim_leave(CU_SUCCESS);
}

cu_result cuDevicePrimaryCtxRetain(cu_context *c, cu_device d)
{
    ENTER_WITHOUT_CONTEXT();
    const int number = physical(d);
    if (number < 0)
        return shim_leave(CU_INVALID_DEVICE);
    if (shim.set.mode == CU_MODE_PROHIBITED)
        return shim_leave(CU_DEVICE_UNAVAILABLE);
    *c = &contexts[number];
    contexts[number].retained++;
    shim.contexts++;
    return shim_leave(CU_SUCCESS);
}

cu_result cuDevicePrimaryCtxRelease_v2(cu_device d)
{
    ENTER_WITHOUT_CONTEXT();
    const int number = physical(d);
    if (number < 0 || !contexts[number].retained)
        return shim_leave(CU_INVALID_CONTEXT);
    contexts[number].retained--;
    shim.contexts--;
    return shim_leave(CU_SUCCESS);
}

cu_result cuCtxSetCurrent(cu_context c)
{
    ENTER_WITHOUT_CONTEXT();
    current = c;
    return shim_leave(c && !c->retained ? CU_INVALID_CONTEXT : CU_SUCCESS);
}

static __attribute__((destructor)) void say_launches(void)
{
    if (shim.ready && shim.set.said_launches && shim.process == getpid())
        fprintf(stderr, "shim: %llu launches\n", (unsigned long long)shim.launches);
}

/* LOCKSTEP_SHIM=leaks: what is still there at the end fails the process. */
static __attribute__((destructor)) void say_leaks(void)
{
    if (!shim.ready || !shim.set.leaks || shim.process != getpid())
        return;
    const struct {
        const char *name;
        int n;
    } kinds[] = { { "rooms of device memory", shim.live_rooms },
                  { "ranges of pinned memory", shim.live_pinned },
                  { "streams", shim.live_streams },
                  { "events", shim.live_events },
                  { "graphs", shim.live_graphs } };
    bool any = false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].n) {
            fprintf(stderr, "shim: %d %s were not returned\n", kinds[i].n, kinds[i].name);
            any = true;
        }
    if (any)
        _exit(86);
}
