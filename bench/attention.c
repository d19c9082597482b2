/* attention.c - how fast attention and its gradient are, beside what the machine can do in the same moment.
 *
 *   bench_attention [isa|best] [threads] [f32|bf16|f16] [forward|backward|part of a shape's name]
 *
 * As in gemm.c each shape is timed in turns with bursts on as many threads, and of each the best time counts.
 * GFLOP/s counts two products forward and five backward, of the pairs that a causal mask leaves. Columns: %
 * FMA of a burst of f32 multiply-adds; % dot of a burst of vdpbf16ps, where the machine has it. `cold` times
 * calls on several operands in turn, which then come from behind L2, as in a step. Of documents side by side
 * in a window the last number is their CPU time in parts of that of the same documents as rows of a batch:
 * the median of pairs of calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/clock.h"
#include "base/thread_pool.h"
#include "device/cpu/isa.h"
#include "memory.h"
#include "device/cpu/peak_rate.h"

typedef struct shape {
    const char *name;
    int64_t B, Tq, Tk, H, G, D;
    bool causal, bias;
    int64_t row;       /* features of the buffer in which q, k and v are columns; 0: each is its own tensor */
    int64_t documents; /* side by side in each sample; 0: a sample is one */
} shape;
static const shape shapes[] = {
    { "qwen", 1, 512, 512, 14, 2, 64, true, false, 0, 0 },
    { "t5 encoder", 1, 512, 512, 12, 12, 64, false, true, 0, 0 },
    { "t5 decoder", 1, 150, 150, 12, 12, 64, true, true, 0, 0 },
    { "t5 cross", 1, 150, 512, 12, 12, 64, false, false, 0, 0 },
    { "vit", 64, 17, 17, 2, 2, 64, false, false, 384, 0 },
    { "packed", 1, 2048, 2048, 14, 2, 64, true, false, 0, 8 },
    { "packed many", 1, 2048, 2048, 14, 2, 64, true, false, 0, 64 },
};

enum { INPUTS = 10, OUTPUTS = 4, COPIES = 8 };
typedef struct call {
    ls_kernel_args a;
    const ls_kernel *kernel;
    ls_tensor in[INPUTS], out[OUTPUTS];
} call;

static ls_tensor filled(ls_type type, int64_t row)
{
    const size_t rows = (size_t)ls_type_rows(&type);
    ls_tensor x = ls_tensor_of(NULL, &type);
    if (row) {
        x.strides[1] = row;
        x.strides[0] = row * type.dims[1];
    }
    const size_t n = row ? rows * (size_t)row : (size_t)ls_type_count(&type);
    x.data = bench_memory(n * ls_dtype_size(type.dtype));
    for (size_t i = 0; i < n; i++) {
        const float value = (float)((i * 2654435761u >> 7) % 1000) / 500.0f - 1.0f;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        if (type.dtype == LS_F32)
            ((float *)x.data)[i] = value;
        else
            ((uint16_t *)x.data)[i] = (uint16_t)(type.dtype == LS_BF16 ? bits >> 16 : 0x3000 + i % 7);
    }
    return x;
}

static ls_tensor positions_of(const shape *s)
{
    const ls_type type = LS_TYPE(LS_I32, s->B, s->Tk);
    ls_tensor x = ls_tensor_of(bench_memory(ls_type_bytes(&type)), &type);
    for (int64_t i = 0; i < s->B * s->Tk; i++)
        ((int32_t *)x.data)[i] = (int32_t)(i % (s->Tk / s->documents));
    return x;
}

static bool prepare(call *c, const shape *s, bool backward, const ls_device *d, ls_dtype t,
                    const ls_attention_attrs *attrs)
{
    const ls_type q = LS_TYPE(t, s->B, s->Tq, s->H * s->D), k = LS_TYPE(t, s->B, s->Tk, s->G * s->D),
                  lse = LS_TYPE(LS_F32, s->B, s->H, s->Tq), bias = LS_TYPE(t, s->H, s->Tq + s->Tk - 1);
    const ls_tensor none = { .type.ndim = -1 };
    for (int i = 0; i < INPUTS; i++)
        c->in[i] = none;
    for (int i = 0; i < OUTPUTS; i++)
        c->out[i] = none;
    const int first = backward ? 1 : 0; /* of q, k, v, bias */
    c->in[first] = filled(q, s->row);
    c->in[first + 1] = filled(k, s->row);
    c->in[first + 2] = filled(k, s->row);
    if (s->bias)
        c->in[first + 3] = filled(bias, 0);
    if (backward) {
        c->in[0] = filled(q, 0);
        c->in[5] = filled(q, 0);
        c->in[6] = filled(lse, 0);
        for (int64_t i = 0; i < ls_type_count(&lse); i++)
            ((float *)c->in[6].data)[i] = 8.0f;
        c->out[0] = filled(q, s->row);
        c->out[1] = filled(k, s->row);
        c->out[2] = filled(k, s->row);
        if (s->bias)
            c->out[3] = filled(bias, 0);
    } else {
        c->out[0] = filled(q, 0);
        c->out[1] = filled(lse, 0);
    }
    const int positions = backward ? 9 : 6;
    if (s->documents)
        c->in[positions] = positions_of(s);
    c->a = (ls_kernel_args){ .n_in = s->documents ? positions + 1
                                     : backward   ? 7
                                                  : 4,
                             .n_out = !backward ? 2
                                      : s->bias ? 4
                                                : 3,
                             .in = c->in,
                             .out = c->out,
                             .attrs = attrs,
                             .threads = d->threads,
                             .arch = d->arch };
    const char *why = "";
    c->kernel = ls_device_find(d, backward ? "attention_grad" : "attention", &c->a, &why);
    if (!c->kernel) {
        fprintf(stderr, "%s\n", why);
        return false;
    }
    c->a.workspace = bench_memory(c->kernel->workspace(&c->a));
    c->kernel->run(&c->a);
    return true;
}

#ifdef __x86_64__
#include <immintrin.h>
__attribute__((target("avx512bf16"))) static void dots(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        __m512 c[12];
        const __m512bh one = (__m512bh)_mm512_set1_epi16(0x3f80);
        for (int k = 0; k < 12; k++)
            c[k] = _mm512_set1_ps((float)k);
        for (int round = 0; round < 500000; round++)
            _Pragma("GCC unroll 12") for (int k = 0; k < 12; k++) c[k] = _mm512_dpbf16_ps(c[k], one, one);
        for (int k = 0; k < 12; k++)
            ((volatile float *)context)[i] = ((const float *)&c[k])[0];
    }
}
#endif
static double dot_burst(int threads)
{
#ifdef __x86_64__
    float sink[256];
    const double t = ls_now();
    ls_parallel_for(threads, threads, dots, sink);
    return 500000.0 * 12 * 64 * threads / (ls_now() - t);
#else
    (void)threads;
    return 0;
#endif
}

/* Seconds of a call; `apart` calls in turn. */
static double seconds(const call *c, int apart, int times)
{
    const double t = ls_now();
    for (int i = 0; i < times; i++)
        c[i % apart].kernel->run(&c[i % apart].a);
    return (ls_now() - t) / times;
}

static double cpu_seconds(const call *c, int times)
{
    struct timespec t[2];
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < times && k; i++)
            c->kernel->run(&c->a);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t[k]);
    }
    return (double)(t[1].tv_sec - t[0].tv_sec) + 1e-9 * (double)(t[1].tv_nsec - t[0].tv_nsec);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median_of_pairs(const call *packed, const call *alone, int times)
{
    enum { PAIRS = 41 };
    double ratio[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        const double first = cpu_seconds(i % 2 ? packed : alone, times),
                     second = cpu_seconds(i % 2 ? alone : packed, times);
        ratio[i] = i % 2 ? first / second : second / first;
    }
    qsort(ratio, PAIRS, sizeof *ratio, by_size);
    return ratio[PAIRS / 2];
}

static void measure(const shape *s, bool backward, const ls_device *d, ls_dtype t)
{
    const ls_attention_attrs attrs = { .head_dim = s->D, .causal = s->causal, .scale = 0.125 };
    const int64_t documents = s->documents ? s->documents : 1;
    shape rows = *s; /* the documents alone */
    rows.B *= documents;
    rows.Tq /= documents;
    rows.Tk /= documents;
    rows.documents = 0;
    call c[COPIES], alone;
    for (int i = 0; i < COPIES; i++)
        if (!prepare(&c[i], s, backward, d, t, &attrs))
            exit(1);
    if (!prepare(&alone, &rows, backward, d, t, &attrs))
        exit(1);
    const double flop = (s->causal ? 1.0 : 2.0) * (backward ? 5 : 2) * (double)(s->B * s->H) *
                        (double)(s->Tq * s->Tk * s->D) / (double)documents;
    const int times = flop > 4e7 ? 1 : (int)(4e7 / flop);
    const double end = ls_now() + 0.4;
    double best = 1e9, cold = 1e9, burst = 0, dot = 0;
    for (int round = 0; round < 9 || ls_now() < end; round++) {
        const double rate = ls_cpu_peak_rate(d->arch, LS_F32, d->threads, 1),
                     words = ls_isa_of(d->arch) >= LS_ISA_AVX512BF16 ? dot_burst(d->threads) : 0,
                     warm = seconds(c, 1, times), turns = seconds(c, COPIES, COPIES);
        burst = rate > burst ? rate : burst;
        dot = words > dot ? words : dot;
        best = warm < best ? warm : best;
        cold = turns < cold ? turns : cold;
    }
    printf("%-11s %-9s %9.1f %8.1f %7.1f %7.1f", s->name, backward ? "backward" : "forward", best * 1e6,
           flop / best / 1e9, flop / cold / 1e9, 100 * flop / best / burst);
    if (dot > 0)
        printf(" %7.1f", 100 * flop / best / dot);
    if (s->documents)
        printf("  %.3f of alone", median_of_pairs(c, &alone, times));
    printf("\n");
    bench_free_all();
}

int main(int argc, char **argv)
{
    const char *word = argc > 1 ? argv[1] : "best", *filter = argc > 4 ? argv[4] : "";
    ls_isa isa = ls_isa_best();
    ls_dtype t = LS_F32;
    if (argc > 5 || (strcmp(word, "best") && !ls_isa_parse(word, &isa)) ||
        (argc > 3 && !ls_dtype_parse(argv[3], &t))) {
        fprintf(stderr,
                "usage: bench_attention [generic|avx2|avx512|avx512bf16|best] [threads] [f32|bf16|f16] "
                "[forward|backward|part of a name]\n");
        return 2;
    }
    ls_device d;
    const ls_device_opts opts = { .isa = ls_isa_name(isa),
                                  .threads = argc > 2 ? atoi(argv[2]) : 1,
                                  .kernels = "own" };
    if (ls_device_open(&d, "cpu", &opts)) {
        fprintf(stderr, "%s\n", ls_error_message());
        return 1;
    }
    printf("%s, %d thread%s, %s, %.0f GFLOP/s of FMA\n%-11s %-9s %9s %8s %7s %7s %7s\n", ls_isa_name(isa),
           d.threads, d.threads > 1 ? "s" : "", ls_dtype_name(t),
           1e-9 * ls_cpu_peak_rate(ls_isa_arch(isa), LS_F32, d.threads, 5), "shape", "", "us", "GFLOP/s",
           "cold", "% FMA", "% dot");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int backward = 0; backward < 2; backward++)
            if (strstr(shapes[i].name, filter) || strcmp(filter, backward ? "backward" : "forward") == 0)
                measure(&shapes[i], backward, &d, t);
    return 0;
}
