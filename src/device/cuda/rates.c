/* rates.c - what GPUs can do by their data sheets. Nothing here is measured: `lockstep plan --measure` does.
 *
 * A GPU that is here: what its multiprocessors do in a cycle, by architecture, times its clock, which the
 * driver tells. A GPU that a plan is for and that is not here: the figures of one model of its architecture.
 * Sources: NVIDIA's architecture white papers (GA100, GA102, Ada, GH100, Blackwell, RTX Blackwell) and data
 * sheets of the models. Tensor figures are without sparsity and with sums in f32. */
#include <stdio.h>
#include <string.h>

#include "base/c_locale.h"
#include "cuda_own.h"

typedef struct sheet {
    int level; /* of ls_arch */
    /* FLOP of a multiprocessor in a cycle: f32 on CUDA cores, and bf16 and f16 on tensor cores; tf32 is half
     * of that */
    int f32, narrow;
    const char *model;
    double model_f32, model_narrow, memory; /* TFLOP/s, TFLOP/s, TB/s */
    double copies;                          /* GB/s from and to the host, over PCIe 4 or 5 with 16 lanes */
} sheet;

static const sheet SHEETS[] = {
    { 80, 128, 2048, "A100 80GB SXM", 19.5, 312, 2.039, 25 },
    { 86, 256, 1024, "A10", 31.2, 125, 0.6, 25 },
    { 89, 256, 1024, "L40S", 91.6, 362, 0.864, 25 },
    { 90, 256, 4096, "H100 SXM", 67, 989, 3.35, 50 },
    { 100, 256, 8192, "B200", 75, 2250, 8, 50 },
    { 103, 256, 8192, "B300", 75, 2250, 8, 50 },
    { 120, 256, 1024, "RTX PRO 6000 Blackwell", 125, 503.8, 1.792, 50 },
};
enum { N_SHEETS = sizeof SHEETS / sizeof *SHEETS };

static const sheet *sheet_of(int level)
{
    const sheet *found = &SHEETS[0];
    for (int i = 0; i < N_SHEETS; i++)
        if (SHEETS[i].level <= level)
            found = &SHEETS[i];
    return found;
}

static void of_model(ls_rates *out, const sheet *s)
{
    *out = (ls_rates){ .flops = s->model_f32 * 1e12,
                       .narrow_flops = s->model_narrow * 1e12,
                       .memory = s->memory * 1e12,
                       .copies = s->copies * 1e9 };
    ls_snprintf(out->source, sizeof out->source,
                "the data sheet of %s: f32 %g, bf16 %g TFLOP/s, memory %g TB/s", s->model, s->model_f32,
                s->model_narrow, s->memory);
}

void ls_cuda_rates_of(ls_rates *out, const ls_cuda_gpu *gpu)
{
    const sheet *s = sheet_of(gpu->capability);
    const double cycles = 1e3 * gpu->clock * gpu->multiprocessors,
                 memory = 2e3 * gpu->memory_clock * gpu->memory_bits / 8;
    /* tensor cores of GeForce add in f32 at half the speed */
    const int narrow = strstr(gpu->name, "GeForce") ? s->narrow / 2 : s->narrow;
    of_model(out, s);
    if (!(cycles > 0) || !(memory > 0))
        return; /* a driver that does not tell clocks */
    out->flops = cycles * s->f32;
    out->narrow_flops = cycles * narrow;
    out->memory = memory;
    ls_snprintf(
        out->source, sizeof out->source,
        "the clocks of GPU %d (%.48s): %d multiprocessors x %d FLOP (bf16 %d) x %.4g GHz, memory %d bit x "
        "2 x %.4g GHz",
        gpu->ordinal, gpu->name, gpu->multiprocessors, s->f32, narrow, 1e-6 * gpu->clock, gpu->memory_bits,
        1e-6 * gpu->memory_clock);
}

void ls_cuda_rates(ls_rates *out, const ls_device *d)
{
    const ls_cuda_gpu *gpu;
    if (d->here && ls_cuda_gpu_of_process(&gpu) == LS_OK)
        ls_cuda_rates_of(out, gpu);
    else
        of_model(out, sheet_of(d->arch->level));
    if (d->overrides == ls_gpu_products_tf32)
        out->flops = out->narrow_flops / 2;
}
