/* nvrtc.c - the shim's libnvrtc.so.13: compiles a kernel's text with the C compiler to a shared object, which
 * the shim's libcuda.so.1 loads. */
#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DECLARE(field, symbol, arguments) EXPORT nvrtc_result symbol arguments;
NVRTC_FUNCTIONS(DECLARE)
EXPORT const char *nvrtcGetErrorString(nvrtc_result r);

enum { INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, MOST_HEADERS = 64 };
extern char **environ;

struct nvrtc_program_st {
    char *name, *text;
    int n_headers;
    char *headers[MOST_HEADERS], *header_names[MOST_HEADERS];
    char *log, *code;
    size_t log_bytes, code_bytes;
};

const char *nvrtcGetErrorString(nvrtc_result r)
{
    return r == NVRTC_SUCCESS           ? "NVRTC_SUCCESS"
           : r == INVALID_INPUT         ? "NVRTC_ERROR_INVALID_INPUT"
           : r == INVALID_PROGRAM       ? "NVRTC_ERROR_INVALID_PROGRAM"
           : r == INVALID_OPTION        ? "NVRTC_ERROR_INVALID_OPTION"
           : r == NVRTC_COMPILATION     ? "NVRTC_ERROR_COMPILATION"
           : r == NVRTC_BUILTIN_FAILURE ? "NVRTC_ERROR_BUILTIN_OPERATION_FAILURE"
                                        : "NVRTC_ERROR_INTERNAL_ERROR";
}

nvrtc_result nvrtcVersion(int *major, int *minor)
{
    const int64_t v = shim_read_settings().nvrtc;
    *major = (int)(v / 10);
    *minor = (int)(v % 10);
    return NVRTC_SUCCESS;
}

nvrtc_result nvrtcCreateProgram(nvrtc_program *out, const char *text, const char *name, int n,
                                const char *const *headers, const char *const *header_names)
{
    nvrtc_program p = calloc(1, sizeof *p);
    if (!p || !text || !name || n > MOST_HEADERS) {
        free(p);
        return INVALID_INPUT;
    }
    p->name = strdup(name);
    p->text = strdup(text);
    p->n_headers = n;
    for (int i = 0; i < n; i++) {
        p->headers[i] = strdup(headers[i]);
        p->header_names[i] = strdup(header_names[i]);
    }
    *out = p;
    return NVRTC_SUCCESS;
}

nvrtc_result nvrtcDestroyProgram(nvrtc_program *p)
{
    for (int i = 0; i < (*p)->n_headers; i++) {
        free((*p)->headers[i]);
        free((*p)->header_names[i]);
    }
    free((*p)->name);
    free((*p)->text);
    free((*p)->log);
    free((*p)->code);
    free(*p);
    *p = NULL;
    return NVRTC_SUCCESS;
}

static bool write_file(const char *folder, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    return f && fputs(text, f) >= 0 && fclose(f) == 0;
}

static char *read_file(const char *folder, const char *name, size_t *bytes)
{
    char path[512];
    struct stat s;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    const int f = open(path, O_RDONLY | O_CLOEXEC);
    char *data = NULL;
    *bytes = 0;
    if (f >= 0 && !fstat(f, &s) && (data = calloc((size_t)s.st_size + 1, 1)))
        *bytes = read(f, data, (size_t)s.st_size) == s.st_size ? (size_t)s.st_size : 0;
    if (f >= 0)
        close(f);
    return data;
}

static void remove_folder(const char *folder)
{
    char path[512];
    static const char *const FILES[] = { "code.so", "log" };
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, FILES[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* The folder of the shims: there is what kernels are linked with. */
static void own_folder(char *out, size_t bytes)
{
    Dl_info info;
    snprintf(out, bytes, ".");
    if (dladdr((void *)(uintptr_t)&nvrtcGetErrorString, &info) && info.dli_fname) {
        const char *end = strrchr(info.dli_fname, '/');
        snprintf(out, bytes, "%.*s", end ? (int)(end - info.dli_fname) : 1, end ? info.dli_fname : ".");
    }
}

static bool has_fma(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
#else
    return false;
#endif
}

/* The compiler, with the folder of the text as its working folder, so that the names of files are short. */
static bool run_compiler(const char *folder, const char *name)
{
    char shims[512], log[512];
    own_folder(shims, sizeof shims);
    snprintf(log, sizeof log, "%s/log", folder);
    const char *args[64] = { SHIM_CC,
                             "-x",
                             "c",
                             "-std=gnu11",
                             "-g1",
                             "-fPIC",
                             "-shared",
                             "-w",
                             "-ffp-contract=off",
                             "-fno-math-errno",
                             "-fno-omit-frame-pointer",
                             "-ftls-model=initial-exec",
                             "-I.",
                             ("-I" SHIM_SOURCES),
                             "-o",
                             "code.so" };
    static const char OPTIONS[] = SHIM_OPTIONS; /* words, each ended by a space */
    char own[sizeof OPTIONS];
    int n = 0;
    while (args[n])
        n++;
    memcpy(own, OPTIONS, sizeof own);
    for (char *save = NULL, *word = strtok_r(own, " ", &save); word; word = strtok_r(NULL, " ", &save))
        args[n++] = word;
    if (has_fma()) {
        args[n++] = "-mfma";
        args[n++] = "-mavx2";
    }
    char library[600];
    snprintf(library, sizeof library, "%s/libcuda.so.1", shims);
    args[n++] = name;
    args[n++] = "-x";
    args[n++] = "none";
    args[n++] = library;
    args[n++] = "-lm";
    args[n] = NULL;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, folder);
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t child;
    int status = 1;
    const int failed = posix_spawn(&child, SHIM_CC, &actions, NULL, (char *const *)(uintptr_t)args, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed || waitpid(child, &status, 0) != child)
        return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static nvrtc_result compile(nvrtc_program p, const char *folder)
{
    char path[512];
    bool good = write_file(folder, p->name, p->text);
    for (int i = 0; i < p->n_headers; i++)
        good &= write_file(folder, p->header_names[i], p->headers[i]);
    good = good && run_compiler(folder, p->name);
    p->log = read_file(folder, "log", &p->log_bytes);
    p->code = good ? read_file(folder, "code.so", &p->code_bytes) : NULL;
    for (int i = 0; i <= p->n_headers; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, i < p->n_headers ? p->header_names[i] : p->name);
        unlink(path);
    }
    return p->code ? NVRTC_SUCCESS : NVRTC_COMPILATION;
}

/* What the driver's side passes; another option is a mistake. */
static bool known(const char *option)
{
    static const char *const KNOWN[] = { "--gpu-architecture=sm_", "--fmad=false", "--prec-div=true",
                                         "--prec-sqrt=true",       "--ftz=false",  "-default-device",
                                         "--ptxas-options=-v" };
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (!strncmp(option, KNOWN[i], strlen(KNOWN[i])))
            return true;
    return false;
}

nvrtc_result nvrtcCompileProgram(nvrtc_program p, int n, const char *const *options)
{
    const char *tmp = getenv("TMPDIR");
    char folder[256];
    for (int i = 0; i < n; i++)
        if (!known(options[i])) {
            fprintf(stderr, "shim: nvrtcCompileProgram: option %s\n", options[i]);
            return INVALID_OPTION;
        }
    if (shim_read_settings().builtins_missing) {
        p->log = strdup("nvrtc: error: failed to open libnvrtc-builtins.so.13.0.\n");
        p->log_bytes = strlen(p->log);
        return NVRTC_BUILTIN_FAILURE;
    }
    if (shim_read_settings().compilations)
        fprintf(stderr, "shim: compiles %s\n", p->name);
    snprintf(folder, sizeof folder, "%s/lockstep-kernels-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder)) {
        fprintf(stderr, "shim: nvrtcCompileProgram: no folder %s\n", folder);
        return INVALID_INPUT;
    }
    const nvrtc_result r = compile(p, folder);
    remove_folder(folder);
    return r;
}

nvrtc_result nvrtcGetProgramLogSize(nvrtc_program p, size_t *bytes)
{
    *bytes = p->log_bytes + 1;
    return NVRTC_SUCCESS;
}

nvrtc_result nvrtcGetProgramLog(nvrtc_program p, char *text)
{
    if (p->log)
        memcpy(text, p->log, p->log_bytes);
    text[p->log_bytes] = 0;
    return NVRTC_SUCCESS;
}

nvrtc_result nvrtcGetCUBINSize(nvrtc_program p, size_t *bytes)
{
    *bytes = p->code_bytes;
    return p->code ? NVRTC_SUCCESS : INVALID_PROGRAM;
}

nvrtc_result nvrtcGetCUBIN(nvrtc_program p, char *bytes)
{
    if (!p->code)
        return INVALID_PROGRAM;
    memcpy(bytes, p->code, p->code_bytes);
    return NVRTC_SUCCESS;
}
