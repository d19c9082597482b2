/* cuda_own.h - what the files of the device cuda share. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/str.h"
#include "device/gpu/gpu.h"
#include "device/link.h"
#include "driver.h"

/* ---- libraries.c: where NVIDIA's libraries are looked for */

/* Opens the first of these names (ends with NULL) that is found, and sets *path to where (malloc'ed).
 * NULL: `places` says what was looked for, and where. */
void *ls_cuda_library(const char *const *names, char **path, ls_str *places);
/* Fills a table of functions from a library; the name of one that it lacks, else NULL. */
typedef struct ls_cuda_symbol {
    const char *name;
    void *at; /* of the pointer in the table */
} ls_cuda_symbol;
const char *ls_cuda_symbols(void *library, const ls_cuda_symbol *list);

/* ---- gpu.c: the driver, and the GPU of this process */

typedef struct ls_cuda_gpu {
    cu_device device;
    int ordinal; /* among those that CUDA_VISIBLE_DEVICES leaves */
    char name[128], bus[32];
    int capability; /* 90: sm_90 */
    int multiprocessors, shared_most;
    int clock, memory_clock, memory_bits; /* kHz, kHz, bits; 0: the driver does not say */
    int mode;                             /* CU_COMPUTE_MODE */
    size_t memory;
    int count, ranks; /* how many GPUs there are; how many ranks have this one */
} ls_cuda_gpu;

/* Opens the driver, once. LS_E_UNSUPPORTED: there is none, or it is too old. */
ls_status ls_cuda_driver(const cu_driver **out);
int ls_cuda_driver_version(void); /* 12040: 12.4; 0: it is not open */
bool ls_cuda_has_no_gpu(void);    /* a driver that could not be opened said that there is none */
/* A GPU's facts. LS_E_UNSUPPORTED: there is none with this number. */
ls_status ls_cuda_look(ls_cuda_gpu *out, int ordinal);
/* The GPU of this process, which nobody else in its group has unless LOCKSTEP_CUDA_SHARE=1 (share.c).
 * Constant once it is chosen. */
ls_status ls_cuda_gpu_of_process(const ls_cuda_gpu **out);
/* The free bytes of a GPU's memory. Makes a context on that GPU, which fails if another process uses the GPU
 * exclusively. */
ls_status ls_cuda_free_memory(size_t *out, const ls_cuda_gpu *gpu);
/* Makes the GPU's context the calling thread's. LS_E_ARG in a forked process. */
ls_status ls_cuda_enter(const cu_driver **out);
/* LOCKSTEP_CUDA_WAIT=1: the host waits for each task. */
bool ls_cuda_one_by_one(void);
/* LS_OK, or LS_E_DEVICE with what was called and the driver's words. A fault of a kernel that ran earlier, of
 * which this call only hears, is not blamed on it. */
ls_status ls_cuda_check(cu_result r, const char *what);
bool ls_cuda_heard_of_earlier_work(void); /* whether this thread's last failed check was such a fault */

/* ---- share.c: which GPU each rank has */

/* *ordinal: the GPU of this process among `n`. LS_E_UNSUPPORTED: there are not enough. */
ls_status ls_cuda_ordinal(int *ordinal, int n);
/* LS_E_UNSUPPORTED: another rank of this host has that GPU. */
ls_status ls_cuda_claim(const ls_cuda_gpu *gpu);
/* How many ranks a GPU has. */
int ls_cuda_ranks_each(int n);

/* ---- archs.c */
extern const ls_arch ls_cuda_archs[]; /* ends with a name NULL */
/* The arch whose code a GPU runs; NULL: there is none. */
const ls_arch *ls_cuda_arch_of(int capability);

/* ---- rates.c: what a GPU can do by its data sheet (ls_device_ops) */
void ls_cuda_rates(ls_rates *out, const ls_device *d);
/* Of a GPU that is here. */
void ls_cuda_rates_of(ls_rates *out, const ls_cuda_gpu *gpu);

/* ---- nvrtc.c: NVIDIA's compiler */

typedef struct ls_cuda_compiler {
    nvrtc_functions f;
    int major, minor;
    char *path;
} ls_cuda_compiler;
/* Opens it, once. LS_E_UNSUPPORTED: it is not there; the message says where it was looked for. */
ls_status ls_cuda_compiler_open(const ls_cuda_compiler **out);
typedef struct ls_cuda_code {
    char *cubin; /* malloc'ed */
    size_t bytes;
    char *log; /* what the compiler says, with registers and spills; malloc'ed */
} ls_cuda_code;
/* Compiles `text`, called `name`, with all headers. */
ls_status ls_cuda_compile(ls_cuda_code *out, const ls_arch *arch, const char *name, const char *text);

/* ---- texts.c: the text of kernels */

typedef struct ls_cuda_text {
    const char *name, *text;
} ls_cuda_text;
/* All files of kernels: those of the folder LOCKSTEP_KERNELS, else those that were built in. Ends with a name
 * NULL. Read once. */
ls_status ls_cuda_texts(const ls_cuda_text **out);
/* `before` and the file in one text, which the compiler's messages count in lines of the file; malloc'ed */
ls_status ls_cuda_whole_text(char **out, const char *file, const char *before);

/* ---- cache.c: compiled files on disk */

typedef struct ls_cuda_key {
    uint64_t a, b;
} ls_cuda_key;
ls_status ls_cuda_key_of(ls_cuda_key *out, const ls_arch *arch, const char *text);
/* False: it is not there, or damaged, which is said once. */
bool ls_cuda_cache_find(ls_cuda_code *out, ls_cuda_key key);
void ls_cuda_cache_keep(const ls_cuda_code *code, ls_cuda_key key);
/* Locks the cache. So of several ranks one compiles, and the others read what it made. Returns -1 if the
 * folder cannot be written or locked; then each process compiles for itself. */
int ls_cuda_cache_lock(void);
void ls_cuda_cache_unlock(int lock);
char *ls_cuda_cache_folder(void); /* malloc'ed; NULL: out of memory */

/* ---- modules.c: kernels that are ready to be launched */

typedef struct ls_cuda_module ls_cuda_module;
typedef struct ls_cuda_kernel {
    ls_cuda_module *module;
    const char *name;
    uint64_t key;
    cu_function function; /* NULL: not ready */
    unsigned threads, shared;
} ls_cuda_kernel;
/* The kernel of a launch, made known by its first one. NULL: out of memory. */
ls_cuda_kernel *ls_cuda_kernel_of(const ls_gpu_launch *l);
/* Compiles what is missing, on several threads, and loads it. */
ls_status ls_cuda_ready(ls_cuda_kernel *const *list, int n);

/* ---- memory.c */
size_t ls_cuda_memory(const ls_device *d);
ls_status ls_cuda_room(void **out, const ls_device *d, size_t bytes);
void ls_cuda_release(void *room, size_t bytes);
ls_status ls_cuda_pinned(void **out, const ls_device *d, size_t bytes);
void ls_cuda_unpin(void *pinned, size_t bytes);
ls_status ls_cuda_reach(void *memory, const ls_device *d, size_t bytes);
void ls_cuda_unreach(void *memory);

/* ---- event.c */
struct ls_event {
    cu_event event;
    pid_t process;
    int64_t recording; /* the number of the recording that recorded it last (queue.c) .. */
    bool awaited;      /* .. and awaits it */
};
ls_status ls_cuda_event(ls_event **out, const ls_device *d);
void ls_cuda_forget(ls_event **e);
double ls_cuda_elapsed(const ls_event *from, const ls_event *to);

/* ---- queue.c: calls of a library that puts work into a stream, now or for a graph */
typedef struct ls_cuda_call {
    ls_status (*put)(const void *args, cu_stream s);
    /* true: such calls do nothing now. Stays as long as the queue's tasks. NULL: they never end */
    const _Atomic bool *ended;
} ls_cuda_call;
/* Puts it in; args are copied. When the queue captures, the call is made in the first replay. The queue keeps
 * what fails, for `wait`. */
void ls_cuda_call_put(ls_queue *q, ls_cuda_call c, const void *args, size_t bytes);
/* What failed before a task could be put in; ls_error_message says why. */
void ls_cuda_refuse(ls_queue *q, ls_status s);

/* ---- nccl.c */
extern const ls_link_ops ls_cuda_link;
