/* facts.c - what there is for device cuda on this machine: libraries, GPUs, compiled kernels. It asks each of
 * them by itself, so one that is missing hides no other. */
#include "device/facts.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cuda_own.h"

static void say(const ls_cuda_listener *to, const char *name, ls_str *text)
{
    to->line(to->context, name, ls_str_text(text));
    ls_str_clear(text);
}

static void note(const ls_cuda_listener *to, ls_str *text)
{
    to->note(to->context, ls_str_text(text));
    ls_str_clear(text);
}

/* ---- libraries */

/* Adds a library's version, which `symbol`, a function of that library, returns. */
static void driver_version(ls_str *out, void *symbol)
{
    int v = 0;
    cu_result (*f)(int *);
    memcpy(&f, &symbol, sizeof f);
    if (f(&v) == CU_SUCCESS)
        ls_str_printf(out, "for CUDA %d.%d", v / 1000, v % 1000 / 10);
}

static void compiler_version(ls_str *out, void *symbol)
{
    int major = 0, minor = 0;
    nvrtc_result (*f)(int *, int *);
    memcpy(&f, &symbol, sizeof f);
    if (f(&major, &minor) == NVRTC_SUCCESS)
        ls_str_printf(out, "%d.%d", major, minor);
}

static void products_version(ls_str *out, void *symbol)
{
    size_t (*f)(void);
    memcpy(&f, &symbol, sizeof f);
    const size_t v = f();
    ls_str_printf(out, "%zu.%zu.%zu", v / 10000, v / 100 % 100, v % 100);
}

static void links_version(ls_str *out, void *symbol)
{
    int v = 0;
    int (*f)(int *);
    memcpy(&f, &symbol, sizeof f);
    if (f(&v) == 0)
        ls_str_printf(out, "%d.%d.%d", v / 10000, v % 10000 / 100, v % 100);
}

/* All libraries of NVIDIA's that some part of Lockstep opens. */
static const struct library {
    const char *name, *files[3], *symbol; /* the function that returns the version */
    void (*version)(ls_str *out, void *symbol);
    const char *missing; /* what does not work without it, and what to do */
} LIBRARIES[] = {
    { "driver",
      { "libcuda.so.1" },
      "cuDriverGetVersion",
      driver_version,
      "device cuda cannot be used: it comes with NVIDIA's driver for Linux" },
    { "NVRTC",
      { "libnvrtc.so.13", "libnvrtc.so.12" },
      "nvrtcVersion",
      compiler_version,
      "device cuda cannot compile its kernels: `pip install nvidia-cuda-nvrtc`, or the CUDA toolkit" },
    { "cuBLASLt",
      { "libcublasLt.so.13", "libcublasLt.so.12" },
      "cublasLtGetVersion",
      products_version,
      "kernels: cublaslt cannot be used: `pip install nvidia-cublas`, or the CUDA toolkit" },
    { "NCCL",
      { "libnccl.so.2" },
      "ncclGetVersion",
      links_version,
      "values travel between GPUs through host memory: `pip install nvidia-nccl-cu13`" },
};

static void libraries(const ls_cuda_listener *to)
{
    ls_str text = { 0 }, places = { 0 };
    for (size_t i = 0; i < sizeof LIBRARIES / sizeof *LIBRARIES; i++) {
        const struct library *l = &LIBRARIES[i];
        char *path = NULL;
        ls_str_clear(&places);
        void *opened = ls_cuda_library(l->files, &path, &places);
        void *symbol = opened ? dlsym(opened, l->symbol) : NULL;
        if (symbol)
            l->version(&text, symbol);
        if (opened)
            ls_str_printf(&text, "%s%s%s", text.len ? ", " : "", path ? path : l->files[0],
                          symbol ? "" : ", which does not tell its version");
        else
            ls_str_printf(&text, "missing, so %s. Looked for %s%s%s in %s", l->missing, l->files[0],
                          l->files[1] ? " and " : "", l->files[1] ? l->files[1] : "", ls_str_text(&places));
        say(to, l->name, &text);
        free(path);
    }
    ls_str_release(&text);
    ls_str_release(&places);
}

/* ---- GPUs */

/* Of processes that share a GPU through NVIDIA's multi-process service. */
static bool has_mps(void)
{
    const char *folder = getenv("CUDA_MPS_PIPE_DIRECTORY");
    char *control = ls_path_join(folder && *folder ? folder : "/tmp/nvidia-mps", "control");
    const bool has = control && ls_file_exists(control);
    free(control);
    return has;
}

static void mode(const ls_cuda_listener *to, const ls_cuda_gpu *g, ls_str *text)
{
    if (g->mode == CU_MODE_PROHIBITED)
        ls_str_printf(
            text,
            "GPU %d is in compute mode \"prohibited\": no program can use it; `nvidia-smi -i %s -c 0` "
            "allows it",
            g->ordinal, g->bus);
    else if (g->mode == CU_MODE_EXCLUSIVE && !has_mps())
        ls_str_printf(text,
                      "GPU %d is in compute mode \"exclusive process\": one process at a time can use it, so "
                      "LOCKSTEP_CUDA_SHARE=1 cannot work; `nvidia-smi -i %s -c 0` ends that",
                      g->ordinal, g->bus);
    if (text->len)
        note(to, text);
}

static void gpu(const ls_cuda_listener *to, int ordinal, ls_str *text)
{
    char name[32], all[32], left[32];
    ls_cuda_gpu g;
    ls_rates r;
    size_t free_bytes = 0;
    snprintf(name, sizeof name, "GPU %d", ordinal);
    if (ls_cuda_look(&g, ordinal) != LS_OK) {
        ls_str_add(text, ls_error_message());
        say(to, name, text);
        return;
    }
    const bool looked = ls_cuda_free_memory(&free_bytes, &g) == LS_OK;
    const ls_arch *arch = ls_cuda_arch_of(g.capability);
    ls_str_printf(text, "%s, compute capability %d.%d%s, ", g.name, g.capability / 10, g.capability % 10,
                  arch ? "" : " (kernels are for 8.0 and newer)");
    if (looked)
        ls_str_printf(text, "%s of %s of memory free", ls_format_bytes(left, free_bytes),
                      ls_format_bytes(all, g.memory));
    else
        ls_str_printf(text, "%s of memory", ls_format_bytes(all, g.memory));
    ls_str_printf(text, ", %d multiprocessors", g.multiprocessors);
    if (g.clock > 0)
        ls_str_printf(text, ", %.4g GHz", 1e-6 * g.clock);
    ls_str_printf(text, ", PCI %s%s%s", g.bus, g.mode == CU_MODE_EXCLUSIVE ? ", exclusive process" : "",
                  strstr(g.name, " MIG ") ? ", a part of a GPU (MIG)" : "");
    if (!looked)
        ls_str_printf(text, "; it cannot be used now: %s", ls_error_message());
    say(to, name, text);
    mode(to, &g, text);
    if (!arch)
        return;
    ls_cuda_rates_of(&r, &g);
    ls_str_printf(text, "f32 %.4g, bf16 and f16 %.4g TFLOP/s, memory %.4g TB/s", 1e-12 * r.flops,
                  1e-12 * r.narrow_flops, 1e-12 * r.memory);
    snprintf(name, sizeof name, "GPU %d peak", ordinal);
    say(to, name, text);
}

static void gpus(const ls_cuda_listener *to)
{
    const cu_driver *cu;
    ls_str text = { 0 };
    int n = 0;
    if (ls_cuda_driver(&cu) == LS_OK && cu->device_count(&n) == CU_SUCCESS)
        for (int i = 0; i < n; i++)
            gpu(to, i, &text);
    if (n && has_mps()) {
        ls_str_add(&text, "processes share GPUs through a control daemon (MPS)");
        say(to, "MPS", &text);
    }
    ls_str_release(&text);
}

/* ---- compiled kernels */

static void cache(const ls_cuda_listener *to)
{
    char *folder = ls_cuda_cache_folder(), size[32];
    ls_str text = { 0 };
    long long n = 0, bytes = 0;
    DIR *all = folder ? opendir(folder) : NULL;
    for (const struct dirent *e; all && (e = readdir(all));) {
        char *path = ls_ends_with(e->d_name, ".cubin") ? ls_path_join(folder, e->d_name) : NULL;
        n += path != NULL;
        bytes += path ? ls_file_size(path) : 0;
        free(path);
    }
    if (all)
        closedir(all);
    const bool can = ls_dir_writable(folder);
    ls_str_printf(&text, "%lld compiled file%s, %s in %s%s", n, n == 1 ? "" : "s",
                  ls_format_bytes(size, (uint64_t)bytes), folder ? folder : "?",
                  can ? "" : " (not writable)");
    say(to, "kernels", &text);
    if (!can) {
        ls_str_printf(&text,
                      "compiled kernels cannot be kept in %s, so each run compiles them again; set "
                      "LOCKSTEP_KERNEL_CACHE",
                      folder ? folder : "?");
        note(to, &text);
    }
    ls_str_release(&text);
    free(folder);
}

void ls_cuda_tell(const ls_cuda_listener *to)
{
    libraries(to);
    gpus(to);
    cache(to);
}
