/* nvrtc.c - NVIDIA's compiler for kernels, a library that the toolkit and a package of pip have. */
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "cuda_own.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ls_cuda_compiler own;
static bool is_open;

/* It opens libnvrtc-builtins by name, which fails in folders that the loader does not know, unless that is
 * open already. */
static void open_builtins(const char *path)
{
    const char *end = strrchr(path, '/');
    char *pattern = end ? ls_sys_text("%.*s/libnvrtc-builtins.so.*", (int)(end - path), path) : NULL;
    glob_t found;
    if (pattern && !glob(pattern, 0, NULL, &found)) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            (void)!dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_GLOBAL);
        globfree(&found);
    }
    free(pattern);
}

static ls_status open_compiler(void)
{
    /* code of NVRTC 13 needs a driver for 13 */
    static const char *const NEW[] = { "libnvrtc.so.13", "libnvrtc.so.12", NULL }, *const OLD[] = {
        "libnvrtc.so.12", NULL
    };
    nvrtc_functions *f = &own.f;
    const ls_cuda_symbol symbols[] = {
#define NVRTC_SYMBOL(field, symbol, arguments) { #symbol, &f->field },
        NVRTC_FUNCTIONS(NVRTC_SYMBOL){ "nvrtcGetErrorString", &f->error_text }, { NULL, NULL }
    };
    const int driver = ls_cuda_driver_version();
    const bool old = driver && driver < 13000;
    ls_str places = { 0 };
    void *library = ls_cuda_library(old ? OLD : NEW, &own.path, &places);
    const char *missing = library ? ls_cuda_symbols(library, symbols) : NULL;
    ls_status s = LS_OK;
    if (!library)
        s = ls_fail(LS_E_UNSUPPORTED,
                    "device cuda: no compiler for kernels: %s is not in %s; install it with `pip install "
                    "nvidia-cuda-nvrtc%s`, or with the CUDA toolkit",
                    old ? "libnvrtc.so.12 (the driver is for CUDA 12)" : "libnvrtc.so.13 or .12",
                    ls_str_text(&places), old ? "-cu12" : "");
    else if (missing)
        s = ls_fail(LS_E_UNSUPPORTED, "device cuda: %s lacks %s", own.path, missing);
    else if (f->version(&own.major, &own.minor) != NVRTC_SUCCESS)
        s = ls_fail(LS_E_UNSUPPORTED, "device cuda: %s does not say its version", own.path);
    else if (own.path)
        open_builtins(own.path);
    ls_str_release(&places);
    return s;
}

ls_status ls_cuda_compiler_open(const ls_cuda_compiler **out)
{
    pthread_mutex_lock(&lock);
    const ls_status s = is_open ? LS_OK : open_compiler();
    is_open = s == LS_OK;
    *out = &own;
    pthread_mutex_unlock(&lock);
    return s;
}

/* The first line of a log that names an error, or its first one. */
static const char *first_error(char *log)
{
    char *error = strstr(log, "error");
    while (error && error > log && error[-1] != '\n')
        error--;
    char *line = error ? error : log;
    line[strcspn(line, "\n")] = 0;
    return line;
}

static ls_status failed(nvrtc_result r, const ls_arch *arch, const char *name, char *log)
{
    if (strstr(log, "libnvrtc-builtins") || r == NVRTC_BUILTIN_FAILURE)
        return ls_fail(LS_E_UNSUPPORTED,
                       "device cuda: %s cannot open libnvrtc-builtins.so.%d.%d, which belongs into the same "
                       "folder; install both again (`pip install --force-reinstall nvidia-cuda-nvrtc`): %s",
                       own.path, own.major, own.minor, first_error(log));
    if (r == NVRTC_COMPILATION)
        return ls_fail(LS_E_INTERNAL, "device cuda: kernels/%s does not compile for %s: %s", name, arch->name,
                       first_error(log));
    return ls_fail(LS_E_UNSUPPORTED, "device cuda: NVRTC %d.%d (%s) cannot compile kernels/%s for %s: %s",
                   own.major, own.minor, own.path, name, arch->name, own.f.error_text(r));
}

static ls_status take_log(char **out, nvrtc_program p)
{
    size_t n = 0;
    own.f.log_size(p, &n);
    LS_TRY(ls_sys_have(*out = ls_sys_calloc(n + 1, 1)));
    return n ? own.f.log(p, *out), LS_OK : LS_OK;
}

static ls_status nvrtc_build(ls_cuda_code *out, nvrtc_program p, const ls_arch *arch, const char *name)
{
    char architecture[48];
    /* Bits: no product is joined with a sum, division and roots are IEEE, and small numbers stay. */
    const char *options[] = { architecture,  "--fmad=false",    "--prec-div=true",   "--prec-sqrt=true",
                              "--ftz=false", "-default-device", "--ptxas-options=-v" };
    snprintf(architecture, sizeof architecture, "--gpu-architecture=%s", arch->name);
    const nvrtc_result r = own.f.compile(p, sizeof options / sizeof *options, options);
    LS_TRY(take_log(&out->log, p));
    if (r != NVRTC_SUCCESS)
        return failed(r, arch, name, out->log);
    if (own.f.cubin_size(p, &out->bytes) != NVRTC_SUCCESS)
        return ls_fail(LS_E_INTERNAL, "device cuda: NVRTC gives no code of kernels/%s", name);
    LS_TRY(ls_sys_have(out->cubin = ls_sys_malloc(out->bytes)));
    own.f.cubin(p, out->cubin);
    return LS_OK;
}

ls_status ls_cuda_compile(ls_cuda_code *out, const ls_arch *arch, const char *name, const char *text)
{
    const ls_cuda_text *all;
    const ls_cuda_compiler *c;
    *out = (ls_cuda_code){ 0 };
    LS_TRY(ls_cuda_compiler_open(&c));
    LS_TRY(ls_cuda_texts(&all));
    int n = 0, most = 0;
    while (all[most].name)
        most++;
    const char **headers = ls_sys_calloc(2 * (size_t)most + 1, sizeof *headers);
    LS_TRY(ls_sys_have(headers));
    for (int i = 0; i < most; i++)
        if (ls_ends_with(all[i].name, ".h")) {
            headers[n] = all[i].text;
            headers[most + n++] = all[i].name;
        }
    nvrtc_program p;
    const nvrtc_result r = c->f.create(&p, text, name, n, headers, headers + most);
    free(headers);
    if (r != NVRTC_SUCCESS)
        return ls_fail(LS_E_INTERNAL, "device cuda: nvrtcCreateProgram(%s): %s", name, c->f.error_text(r));
    const ls_status s = nvrtc_build(out, p, arch, name);
    c->f.destroy(&p);
    if (s != LS_OK) {
        free(out->cubin);
        free(out->log);
        *out = (ls_cuda_code){ 0 };
    }
    return s;
}
