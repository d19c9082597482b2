/* cuda.c - NVIDIA's GPUs. Kernels are those of device/gpu, compiled for the GPU when they are first used. */
#include <stdio.h>
#include <string.h>

#include "cuda_own.h"

static const ls_arch *named(const char *word)
{
    for (const ls_arch *a = ls_cuda_archs; a->name; a++)
        if (!strcmp(a->name, word))
            return a;
    return NULL;
}

static ls_status unknown_word(const char *word)
{
    return ls_fail(
        LS_E_USAGE,
        "isa: \"%s\" is not an architecture of GPUs: use auto for this machine's GPU, or, to plan for "
        "another machine, sm_80, sm_86, sm_89, sm_90, sm_100, sm_103 or sm_120",
        word);
}

/* The GPU of this process and its arch. */
static ls_status find_here(const ls_arch **out)
{
    const ls_cuda_gpu *gpu;
    LS_TRY(ls_cuda_gpu_of_process(&gpu));
    *out = ls_cuda_arch_of(gpu->capability);
    if (!*out)
        return ls_fail(
            LS_E_UNSUPPORTED,
            "device cuda: GPU %d (%s) is an sm_%d; kernels are for sm_80 (A100, RTX 30) and newer, up "
            "to sm_12x",
            gpu->ordinal, gpu->name, gpu->capability);
    return LS_OK;
}

static ls_status cuda_choose(ls_device *d, const char *word, bool elsewhere)
{
    const ls_cuda_compiler *compiler;
    const ls_arch *wanted = word ? named(word) : NULL, *here = NULL;
    if (word && !wanted)
        return unknown_word(word);
    const ls_status s = find_here(&here);
    d->arch = wanted ? wanted : here;
    d->here = s == LS_OK && d->arch == here;
    if (elsewhere && wanted)
        return LS_OK;
    if (elsewhere && s != LS_OK)
        return ls_fail_in(s, "for a plan of another machine say which GPU it has (isa: sm_90)");
    LS_TRY(s);
    if (!d->here)
        return ls_fail(LS_E_UNSUPPORTED, "device cuda: isa %s is not that of this machine's GPU, which is %s",
                       word, here->name);
    return ls_cuda_compiler_open(&compiler);
}

static const ls_arch *usable(int i)
{
    const ls_arch *here;
    return i == 0 && find_here(&here) == LS_OK ? here : NULL;
}

static const ls_kernel *const *cuda_tables(const ls_arch *arch)
{
    (void)arch;
    return ls_gpu_tables;
}

static void hardware(char out[64], const ls_device *d)
{
    const ls_cuda_gpu *gpu;
    if (d->here && ls_cuda_gpu_of_process(&gpu) == LS_OK)
        snprintf(out, 64, "%.63s", gpu->name);
    else
        snprintf(out, 64, "a GPU with %s", d->arch->name);
}

const ls_device_ops ls_device_cuda = { .name = "cuda",
                                       .choose = cuda_choose,
                                       .usable = usable,
                                       .tables = cuda_tables,
                                       .rates = ls_cuda_rates,
                                       .hardware = hardware,
                                       .queue = &ls_queue_cuda,
                                       .link = &ls_cuda_link,
                                       .computes = true };
