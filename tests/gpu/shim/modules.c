/* modules.c - modules of the shim's libcuda.so.1: shared objects that the shim of NVRTC made. */
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
        return WRONG(CU_NO_BINARY_FOR_GPU, "this is not code that the shim of NVRTC made");
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
    shim_drop_globals(m);
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
    shim_add_global(*at, *bytes, m);
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
