/* shim.h - what the files of the shims share: libcuda.so.1, libnvrtc.so.13, libcublasLt.so.13 and
 * libnccl.so.2 for machines without a GPU. These files are compiled without -fsanitize, in every build, and
 * have a lock of their own, so that ThreadSanitizer knows of no order among tasks but that of streams and
 * events. */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "device/cuda/driver.h"
#include "emulator.h"

#define EXPORT __attribute__((visibility("default")))

/* LOCKSTEP_SHIM, "seed=3,delay=200us,gpus=2", each part optional. README.md says what they mean. */
typedef struct shim_settings {
    int64_t gpus, driver, capability, nvrtc, cublaslt, launch, skip, clock, memory_clock, mode;
    int64_t nccl, nccl_fail, nccl_lost, nccl_rank;
    uint64_t seed, memory, taken;
    double delay;
    bool misaligned, leaks, builtins_missing, compilations, said_launches;
} shim_settings;
/* Read anew at each call. Ends the process if a part is not understood. */
shim_settings shim_read_settings(void);

/* ---- the lock of all that the shim knows, and changes that threads wait for */
void shim_lock(void);
void shim_unlock(void);
/* Unlocks until somebody calls shim_changed, and locks again. */
void shim_wait(void);
void shim_changed(void);

/* Tells ThreadSanitizer the order: code before `release` comes before code after `acquire`. */
#if defined(EMULATOR_TSAN)
void __tsan_acquire(void *at), __tsan_release(void *at);
#define shim_acquire(at) __tsan_acquire(at)
#define shim_release(at) __tsan_release(at)
#else
#define shim_acquire(at) ((void)(at))
#define shim_release(at) ((void)(at))
#endif

/* Prints what a caller did wrong, with the function's name; returns r. */
cu_result shim_wrong(cu_result r, const char *function, const char *what, ...)
    __attribute__((format(printf, 3, 4)));
#define WRONG(r, ...) shim_wrong(r, __func__, __VA_ARGS__)

/* CU_SUCCESS if the calling thread may call the driver now: it is initialised, in this process, a context is
 * current, none has failed, and this is not a function of the host in a stream. Locks if so. */
cu_result shim_enter(const char *function);
#define ENTER()                                         \
    do {                                                \
        const cu_result entered = shim_enter(__func__); \
        if (entered != CU_SUCCESS)                      \
            return entered;                             \
    } while (0)
static inline cu_result shim_leave(cu_result r)
{
    shim_unlock();
    return r;
}

/* ---- state (under the lock) */
extern struct shim_state {
    bool ready;
    pid_t process;
    shim_settings set;
    cu_result failed; /* sticky: every later call returns it */
    int contexts;
    uint64_t launches, awaits, streams;
    uint64_t used; /* bytes of device memory */
    int live_streams, live_events, live_graphs, live_modules, live_rooms, live_pinned;
} shim;
extern _Thread_local bool shim_in_host_function;

/* The GPU whose context the calling thread has; -1: none. */
int shim_current_gpu(void);

/* What lies at an address: device memory, pinned memory, or the host's own. *left: bytes from there on. */
typedef enum shim_kind { SHIM_NOWHERE, SHIM_DEVICE, SHIM_PINNED, SHIM_PAGEABLE } shim_kind;
shim_kind shim_find(uint64_t address, size_t *left);
/* Variables of a module count as device memory. */
void shim_add_global(uint64_t at, size_t bytes, const void *owner);
void shim_drop_globals(const void *owner);
static inline void *shim_host(uint64_t address) { return (void *)(uintptr_t)(address & ~EMULATED_DEVICE); }

/* What the shim's libcublasLt.so.13 calls of libcuda.so.1; each locks by itself. */
EXPORT cu_result shim_library_enter(void); /* CU_SUCCESS: the calling thread may call the driver now */
EXPORT bool shim_library_has(uint64_t at, size_t bytes); /* whether they are device memory */
EXPORT cu_result shim_library_launch(cu_stream s, const emulated_kernel *k, long long blocks,
                                     const void *args);

struct cu_function_st {
    const emulated_kernel *kernel;
    cu_module module;
    unsigned most_shared;
    struct cu_function_st *next;
};
bool shim_is_function(cu_function f);
