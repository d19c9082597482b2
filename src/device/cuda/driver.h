/* driver.h - the functions of NVIDIA's driver (libcuda.so.1) and of its compiler (libnvrtc) that Lockstep
 * calls, opened when device cuda is first used: neither is needed to build. Names, numbers and types are
 * those of the vendor's documentation ("CUDA Driver API", "NVRTC"), written here as C types. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int cu_result; /* 0: success */
typedef int cu_device;
typedef uint64_t cu_address;
typedef struct cu_context_st *cu_context;
typedef struct cu_module_st *cu_module;
typedef struct cu_function_st *cu_function;
typedef struct cu_stream_st *cu_stream;
typedef struct cu_event_st *cu_event;
typedef struct cu_graph_st *cu_graph;
typedef struct cu_graph_exec_st *cu_graph_exec;
typedef void (*cu_host_function)(void *context);

enum {
    CU_SUCCESS = 0,
    CU_INVALID_VALUE = 1,
    CU_OUT_OF_MEMORY = 2,
    CU_NOT_INITIALIZED = 3,
    CU_DEVICE_UNAVAILABLE = 46,
    CU_NO_DEVICE = 100,
    CU_INVALID_DEVICE = 101,
    CU_INVALID_CONTEXT = 201,
    CU_NO_BINARY_FOR_GPU = 209,
    CU_INVALID_HANDLE = 400,
    CU_NOT_FOUND = 500,
    CU_NOT_READY = 600,
    CU_ECC_ERROR = 214,
    CU_ILLEGAL_ADDRESS = 700,
    CU_LAUNCH_OUT_OF_RESOURCES = 701,
    CU_LAUNCH_TIMEOUT = 702,
    CU_ASSERT = 710,
    CU_HARDWARE_STACK_ERROR = 714, /* up to the next one: faults of kernels */
    CU_LAUNCH_FAILED = 719,
    CU_STREAM_CAPTURE_UNSUPPORTED = 900,
    CU_STREAM_CAPTURE_INVALIDATED = 901,
    CU_STREAM_CAPTURE_MERGE = 902,
    CU_STREAM_CAPTURE_UNMATCHED = 903,
    CU_STREAM_CAPTURE_UNJOINED = 904,
    CU_STREAM_CAPTURE_ISOLATION = 905,
    CU_CAPTURED_EVENT = 907,
    CU_UNKNOWN = 999,
};
/* of cuDeviceGetAttribute */
enum {
    CU_MAX_SHARED_PER_BLOCK = 8,
    CU_CLOCK = 13, /* kHz, the highest */
    CU_MULTIPROCESSORS = 16,
    CU_COMPUTE_MODE = 20,
    CU_MEMORY_CLOCK = 36, /* kHz; two transfers in each cycle */
    CU_MEMORY_BITS = 37,  /* of the bus */
    CU_CAPABILITY_MAJOR = 75,
    CU_CAPABILITY_MINOR = 76,
    CU_MAX_SHARED_PER_BLOCK_OPTIN = 97,
};
enum { CU_MODE_PROHIBITED = 2, CU_MODE_EXCLUSIVE = 3 }; /* CU_COMPUTE_MODE; 0: any number of processes */
/* of cuFuncGetAttribute and cuFuncSetAttribute */
enum {
    CU_FUNC_MAX_THREADS = 0,
    CU_FUNC_SHARED_BYTES = 1, /* static */
    CU_FUNC_LOCAL_BYTES = 3,  /* spills, and arrays that do not fit registers */
    CU_FUNC_REGISTERS = 4,
    CU_FUNC_MAX_DYNAMIC_SHARED = 8,
};
enum { CU_STREAM_NON_BLOCKING = 1 };      /* flags of cuStreamCreate */
enum { CU_EVENT_DEFAULT = 0 };            /* flags of cuEventCreate: with times */
enum { CU_HOST_ALLOC_PORTABLE = 1 };      /* flags of cuMemHostAlloc */
enum { CU_CAPTURE_MODE_RELAXED = 2 };     /* of cuStreamBeginCapture */
enum { CU_LAUNCH_ARGUMENT_BYTES = 4096 }; /* what a kernel's struct may have */

/* F(field, symbol, arguments); each returns a cu_result */
#define CU_FUNCTIONS(F)                                                                                      \
    F(init, cuInit, (unsigned flags))                                                                        \
    F(driver_version, cuDriverGetVersion, (int *version)) /* 12040: 12.4 */                                  \
    F(error_name, cuGetErrorName, (cu_result e, const char **text))                                          \
    F(error_text, cuGetErrorString, (cu_result e, const char **text))                                        \
    F(device_count, cuDeviceGetCount, (int *n))                                                              \
    F(device_get, cuDeviceGet, (cu_device * d, int ordinal))                                                 \
    F(device_name, cuDeviceGetName, (char *text, int bytes, cu_device d))                                    \
    F(device_bus, cuDeviceGetPCIBusId, (char *text, int bytes, cu_device d))                                 \
    F(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, cu_device d))                                     \
    F(device_fact, cuDeviceGetAttribute, (int *value, int attribute, cu_device d))                           \
    F(context_retain, cuDevicePrimaryCtxRetain, (cu_context * c, cu_device d))                               \
    F(context_release, cuDevicePrimaryCtxRelease_v2, (cu_device d))                                          \
    F(context_set, cuCtxSetCurrent, (cu_context c))                                                          \
    F(memory_info, cuMemGetInfo_v2, (size_t * free, size_t * total))                                         \
    F(allocate, cuMemAlloc_v2, (cu_address * at, size_t bytes))                                              \
    F(release, cuMemFree_v2, (cu_address at))                                                                \
    F(pin, cuMemHostAlloc, (void **at, size_t bytes, unsigned flags))                                        \
    F(unpin, cuMemFreeHost, (void *at))                                                                      \
    F(host_register, cuMemHostRegister_v2,                                                                   \
      (void *at, size_t bytes, unsigned flags)) /* pins the host's own memory; flags 1: portable */          \
    F(host_unregister, cuMemHostUnregister, (void *at))                                                      \
    F(read, cuMemcpyDtoH_v2, (void *to, cu_address from, size_t bytes))                                      \
    F(copy, cuMemcpyAsync, (cu_address to, cu_address from, size_t bytes, cu_stream s))                      \
    F(fill, cuMemsetD8Async, (cu_address to, unsigned char byte, size_t bytes, cu_stream s))                 \
    F(stream_create, cuStreamCreate, (cu_stream * s, unsigned flags))                                        \
    F(stream_destroy, cuStreamDestroy_v2, (cu_stream s))                                                     \
    F(stream_wait, cuStreamSynchronize, (cu_stream s))                                                       \
    F(stream_await, cuStreamWaitEvent, (cu_stream s, cu_event e, unsigned flags))                            \
    F(host, cuLaunchHostFunc, (cu_stream s, cu_host_function f, void *context))                              \
    F(event_create, cuEventCreate, (cu_event * e, unsigned flags))                                           \
    F(event_destroy, cuEventDestroy_v2, (cu_event e))                                                        \
    F(event_record, cuEventRecord, (cu_event e, cu_stream s))                                                \
    F(event_elapsed, cuEventElapsedTime, (float *milliseconds, cu_event from, cu_event to))                  \
    F(module_load, cuModuleLoadData, (cu_module * m, const void *cubin))                                     \
    F(module_unload, cuModuleUnload, (cu_module m))                                                          \
    F(module_function, cuModuleGetFunction, (cu_function * f, cu_module m, const char *name))                \
    F(module_global, cuModuleGetGlobal_v2, (cu_address * at, size_t * bytes, cu_module m, const char *name)) \
    F(function_fact, cuFuncGetAttribute, (int *value, int attribute, cu_function f))                         \
    F(function_set, cuFuncSetAttribute, (cu_function f, int attribute, int value))                           \
    F(launch, cuLaunchKernel,                                                                                \
      (cu_function f, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
       unsigned block_z, unsigned shared_bytes, cu_stream s, void **arguments, void **extra))                \
    F(capture, cuStreamBeginCapture_v2, (cu_stream s, int mode))                                             \
    F(captured, cuStreamEndCapture, (cu_stream s, cu_graph * g))                                             \
    F(graph_instantiate, cuGraphInstantiateWithFlags,                                                        \
      (cu_graph_exec * e, cu_graph g, unsigned long long flags))                                             \
    F(graph_launch, cuGraphLaunch, (cu_graph_exec e, cu_stream s))                                           \
    F(graph_exec_destroy, cuGraphExecDestroy, (cu_graph_exec e))                                             \
    F(graph_destroy, cuGraphDestroy, (cu_graph g))

/* NVRTC: libnvrtc.so.13 or .12, and its libnvrtc-builtins beside it. nvrtc_result 0: success; 6: the text
 * does not compile, the log says why. */
typedef int nvrtc_result;
typedef struct nvrtc_program_st *nvrtc_program;
enum { NVRTC_SUCCESS = 0, NVRTC_COMPILATION = 6, NVRTC_BUILTIN_FAILURE = 7 };

#define NVRTC_FUNCTIONS(F)                                                                               \
    F(version, nvrtcVersion, (int *major, int *minor))                                                   \
    F(create, nvrtcCreateProgram,                                                                        \
      (nvrtc_program * p, const char *text, const char *name, int n_headers, const char *const *headers, \
       const char *const *header_names))                                                                 \
    F(compile, nvrtcCompileProgram, (nvrtc_program p, int n_options, const char *const *options))        \
    F(log_size, nvrtcGetProgramLogSize, (nvrtc_program p, size_t * bytes)) /* with the final 0 */        \
    F(log, nvrtcGetProgramLog, (nvrtc_program p, char *text))                                            \
    F(cubin_size, nvrtcGetCUBINSize, (nvrtc_program p, size_t * bytes))                                  \
    F(cubin, nvrtcGetCUBIN, (nvrtc_program p, char *bytes))                                              \
    F(destroy, nvrtcDestroyProgram, (nvrtc_program * p))

#define CU_FIELD(field, symbol, arguments) cu_result(*field) arguments;
typedef struct cu_driver {
    CU_FUNCTIONS(CU_FIELD)
} cu_driver;
#define NVRTC_FIELD(field, symbol, arguments) nvrtc_result(*field) arguments;
typedef struct nvrtc_functions {
    NVRTC_FUNCTIONS(NVRTC_FIELD)
    const char *(*error_text)(nvrtc_result r); /* nvrtcGetErrorString */
} nvrtc_functions;
