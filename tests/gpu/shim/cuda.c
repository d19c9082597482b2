/* cuda.c - devices, contexts, memory and modules of the shim's libcuda.so.1. Each call checks its arguments
 * and its caller as the driver does, or stricter, and says what is wrong. Device memory is the host's, at
 * addresses that the host cannot read (EMULATED_DEVICE). */
#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DECLARE(field, symbol, arguments) EXPORT cu_result symbol arguments;
CU_FUNCTIONS(DECLARE)

#if defined(EMULATOR_ASAN)
void __asan_poison_memory_region(const volatile void *at, size_t bytes);
void __asan_unpoison_memory_region(const volatile void *at, size_t bytes);
#else
static void __asan_poison_memory_region(const volatile void *at, size_t bytes) { (void)at, (void)bytes; }
static void __asan_unpoison_memory_region(const volatile void *at, size_t bytes) { (void)at, (void)bytes; }
#endif

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
    { 901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "a stream capture failed before" },
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

/* ---- memory */

typedef struct range {
    uint64_t at; /* as the caller sees it */
    char *map;   /* what munmap or free gets; NULL: the caller's */
    size_t bytes, mapped;
    shim_kind kind;
    struct range *next;
} range;
static range *ranges;

static range *range_at(uint64_t address)
{
    for (range *r = ranges; r; r = r->next)
        if (address >= r->at && address - r->at < r->bytes)
            return r;
    return NULL;
}

shim_kind shim_find(uint64_t address, size_t *left)
{
    const range *r = range_at(address);
    *left = r ? r->bytes - (size_t)(address - r->at) : SIZE_MAX;
    return r ? r->kind : address & EMULATED_DEVICE ? SHIM_NOWHERE : SHIM_PAGEABLE;
}

static void add_range(uint64_t at, char *map, size_t bytes, size_t mapped, shim_kind kind)
{
    range *r = malloc(sizeof *r);
    if (!r)
        abort();
    *r = (range){ at, map, bytes, mapped, kind, ranges };
    ranges = r;
}

static bool take_range(uint64_t at, shim_kind kind, range *out)
{
    for (range **link = &ranges, *r; (r = *link); link = &r->next)
        if (r->at == at && r->kind == kind) {
            *out = *r;
            *link = r->next;
            free(r);
            return true;
        }
    return false;
}

enum { PAGE = 4096, MISALIGNED = 256 };

/* Pages whose contents are anything: NaN. What is behind `bytes` AddressSanitizer does not let be touched. */
static char *new_pages(size_t bytes, size_t *mapped)
{
    *mapped = (bytes + PAGE - 1) / PAGE * PAGE + PAGE;
    char *p = mmap(NULL, *mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

cu_result cuMemAlloc_v2(cu_address *at, size_t bytes)
{
    size_t mapped;
    ENTER();
    if (!bytes)
        return shim_leave(WRONG(CU_INVALID_VALUE, "0 bytes"));
    const size_t shift = shim.set.misaligned ? MISALIGNED : 0;
    if (bytes > shim.set.memory || shim.used + shim.set.taken + bytes > shim.set.memory)
        return shim_leave(CU_OUT_OF_MEMORY);
    char *p = new_pages(bytes + shift, &mapped);
    if (!p)
        return shim_leave(CU_OUT_OF_MEMORY);
    memset(p, 0xff, bytes + shift);
    __asan_poison_memory_region(p + shift + bytes, mapped - shift - bytes);
    *at = (uint64_t)(uintptr_t)(p + shift) | EMULATED_DEVICE;
    add_range(*at, p, bytes, mapped, SHIM_DEVICE);
    shim.used += bytes;
    shim.live_rooms++;
    return shim_leave(CU_SUCCESS);
}

static cu_result free_range(const char *function, uint64_t at, shim_kind kind)
{
    range r;
    if (!take_range(at, kind, &r))
        return shim_wrong(CU_INVALID_VALUE, function,
                          "%#llx is not what an allocation returned, or was freed", (unsigned long long)at);
    if (r.map) {
        __asan_unpoison_memory_region(r.map, r.mapped);
        munmap(r.map, r.mapped);
    }
    if (kind == SHIM_DEVICE) {
        shim.used -= r.bytes;
        shim.live_rooms--;
    } else {
        shim.live_pinned--;
    }
    return CU_SUCCESS;
}

cu_result cuMemFree_v2(cu_address at)
{
    ENTER();
    return shim_leave(free_range(__func__, at, SHIM_DEVICE));
}

cu_result cuMemHostAlloc(void **at, size_t bytes, unsigned flags)
{
    size_t mapped;
    ENTER();
    if (!bytes || flags & ~7u)
        return shim_leave(WRONG(CU_INVALID_VALUE, "%zu bytes, flags %u", bytes, flags));
    char *p = new_pages(bytes, &mapped);
    if (!p)
        return shim_leave(CU_OUT_OF_MEMORY);
    memset(p, 0xff, bytes);
    __asan_poison_memory_region(p + bytes, mapped - bytes);
    *at = p;
    add_range((uint64_t)(uintptr_t)p, p, bytes, mapped, SHIM_PINNED);
    shim.live_pinned++;
    return shim_leave(CU_SUCCESS);
}

cu_result cuMemFreeHost(void *at)
{
    ENTER();
    return shim_leave(free_range(__func__, (uint64_t)(uintptr_t)at, SHIM_PINNED));
}

cu_result cuMemHostRegister_v2(void *at, size_t bytes, unsigned flags)
{
    ENTER();
    if (!at || !bytes || flags & ~15u)
        return shim_leave(WRONG(CU_INVALID_VALUE, "%p, %zu bytes, flags %u", at, bytes, flags));
    const uint64_t address = (uint64_t)(uintptr_t)at;
    for (const range *r = ranges; r; r = r->next)
        if (address < r->at + r->bytes && r->at < address + bytes)
            return shim_leave(WRONG(712, "%p is registered, or was allocated as pinned memory", at));
    add_range(address, NULL, bytes, 0, SHIM_PINNED);
    shim.live_pinned++;
    return shim_leave(CU_SUCCESS);
}

cu_result cuMemHostUnregister(void *at)
{
    ENTER();
    return shim_leave(free_range(__func__, (uint64_t)(uintptr_t)at, SHIM_PINNED));
}

cu_result cuMemGetInfo_v2(size_t *free, size_t *total)
{
    ENTER();
    *total = shim.set.memory;
    *free = shim.set.memory - shim.set.taken - shim.used;
    return shim_leave(CU_SUCCESS);
}

cu_result cuMemcpyDtoH_v2(void *to, cu_address from, size_t bytes)
{
    size_t left;
    ENTER();
    if (shim_find(from, &left) != SHIM_DEVICE || left < bytes)
        return shim_leave(WRONG(CU_INVALID_VALUE, "%zu bytes at %#llx are no device memory", bytes,
                                (unsigned long long)from));
    shim_unlock();
    memcpy(to, shim_host(from), bytes);
    return CU_SUCCESS;
}

/* ---- modules: shared objects that the shim of NVRTC made */

struct cu_module_st {
    int file;
    void *library;
    cu_function functions;
    struct cu_module_st *next;
};
static cu_module modules;

static bool is_module(cu_module m)
{
    for (cu_module k = modules; k; k = k->next)
        if (k == m)
            return true;
    return false;
}

bool shim_is_function(cu_function f)
{
    for (cu_module m = modules; m; m = m->next)
        for (cu_function k = m->functions; k; k = k->next)
            if (k == f)
                return true;
    return false;
}

/* The section headers of what the compiler's linker wrote are at the end of the file. */
static size_t bytes_of(const void *cubin)
{
    const ElfW(Ehdr) *h = cubin;
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
        return 0;
    return (size_t)h->e_shoff + (size_t)h->e_shentsize * h->e_shnum;
}

cu_result cuModuleLoadData(cu_module *out, const void *cubin)
{
    char path[64];
    ENTER();
    shim_unlock();
    const size_t bytes = bytes_of(cubin);
    const int file = memfd_create("kernels", MFD_CLOEXEC);
    if (!bytes || file < 0 || write(file, cubin, bytes) != (ssize_t)bytes)
        return WRONG(CU_NO_BINARY_FOR_GPU, "this is no code that the shim of NVRTC made");
    /* (with the process number, since a tool that looks up lines is another process) */
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), file);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cu_module m = calloc(1, sizeof *m);
    if (!library || !m) {
        close(file);
        free(m);
        return WRONG(CU_NO_BINARY_FOR_GPU, "%s", dlerror());
    }
    shim_lock();
    *m = (struct cu_module_st){ file, library, NULL, modules };
    modules = m;
    shim.live_modules++;
    *out = m;
    return shim_leave(CU_SUCCESS);
}

cu_result cuModuleUnload(cu_module m)
{
    ENTER();
    if (!is_module(m))
        return shim_leave(WRONG(CU_INVALID_HANDLE, "no module"));
    cu_module *link = &modules;
    while (*link != m)
        link = &(*link)->next;
    *link = m->next;
    for (cu_function f = m->functions, after; f; f = after) {
        after = f->next;
        free(f);
    }
    dlclose(m->library);
    close(m->file);
    free(m);
    shim.live_modules--;
    return shim_leave(CU_SUCCESS);
}

cu_result cuModuleGetFunction(cu_function *out, cu_module m, const char *name)
{
    char symbol[256];
    ENTER();
    if (!is_module(m))
        return shim_leave(WRONG(CU_INVALID_HANDLE, "no module"));
    snprintf(symbol, sizeof symbol, "%s_emulated", name);
    const emulated_kernel *k = dlsym(m->library, symbol);
    if (!k)
        return shim_leave(CU_NOT_FOUND);
    for (cu_function f = m->functions; f; f = f->next)
        if (f->kernel == k)
            return *out = f, shim_leave(CU_SUCCESS);
    cu_function f = calloc(1, sizeof *f);
    if (!f)
        return shim_leave(CU_OUT_OF_MEMORY);
    *f = (struct cu_function_st){ k, m, 48 << 10, m->functions };
    m->functions = f;
    *out = f;
    return shim_leave(CU_SUCCESS);
}

cu_result cuModuleGetGlobal_v2(cu_address *at, size_t *bytes, cu_module m, const char *name)
{
    Dl_info info;
    const ElfW(Sym) *symbol = NULL;
    ENTER();
    if (!is_module(m))
        return shim_leave(WRONG(CU_INVALID_HANDLE, "no module"));
    void *p = dlsym(m->library, name);
    if (!p || !dladdr1(p, &info, (void **)(uintptr_t)&symbol, RTLD_DL_SYMENT) || !symbol)
        return shim_leave(CU_NOT_FOUND);
    *bytes = symbol->st_size;
    *at = (uint64_t)(uintptr_t)p | EMULATED_DEVICE;
    if (!range_at(*at))
        add_range(*at, NULL, *bytes, 0, SHIM_DEVICE);
    return shim_leave(CU_SUCCESS);
}

cu_result cuFuncGetAttribute(int *value, int attribute, cu_function f)
{
    ENTER();
    if (!shim_is_function(f))
        return shim_leave(WRONG(CU_INVALID_HANDLE, "no function"));
    *value = attribute == CU_FUNC_MAX_THREADS          ? f->kernel->threads
             : attribute == CU_FUNC_MAX_DYNAMIC_SHARED ? (int)f->most_shared
                                                       : 0;
    return shim_leave(CU_SUCCESS);
}

cu_result cuFuncSetAttribute(cu_function f, int attribute, int value)
{
    int most;
    ENTER();
    if (!shim_is_function(f))
        return shim_leave(WRONG(CU_INVALID_HANDLE, "no function"));
    shim_unlock();
    cuDeviceGetAttribute(&most, CU_MAX_SHARED_PER_BLOCK_OPTIN, 0);
    if (attribute != CU_FUNC_MAX_DYNAMIC_SHARED || value < 0 || value > most)
        return WRONG(CU_INVALID_VALUE, "attribute %d of %s cannot be %d", attribute, f->kernel->name, value);
    f->most_shared = (unsigned)value;
    return CU_SUCCESS;
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
