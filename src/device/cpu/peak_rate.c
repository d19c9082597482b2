/* peak_rate.c - the fastest rate at which the processor multiplies and adds f32 or bf16 numbers: independent
 * chains of fused multiply-adds, dot products or products of tiles in registers. Matrix products are compared
 * with it. */
#include "base/clock.h"
#include "base/thread_pool.h"
#include "peak_rate.h"
#include "isa.h"

#define CHAINS 12 /* chains in flight: two units with a latency of 4 to 5 cycles need 8 to 10 */

#define BURST(name, attribute, vector, lanes, set1, fma)                                      \
    attribute static double name(int64_t rounds, float *sink)                                 \
    {                                                                                         \
        vector c[CHAINS], a = set1(1.0000001f), b = set1(1e-7f);                              \
        for (int k = 0; k < CHAINS; k++)                                                      \
            c[k] = set1((float)k);                                                            \
        for (int64_t i = 0; i < rounds; i++)                                                  \
            _Pragma("GCC unroll 12") for (int k = 0; k < CHAINS; k++) c[k] = fma(c[k], a, b); \
        for (int k = 0; k < CHAINS; k++)                                                      \
            sink[k] = ((const float *)&c[k])[0];                                              \
        return 2.0 * lanes * CHAINS * (double)rounds;                                         \
    }

typedef float four __attribute__((vector_size(16)));
#define FOUR_SET1(x) ((four){ x, x, x, x })
#define FOUR_FMA(c, a, b) ((c) * (a) + (b))
BURST(burst_generic, , four, 4, FOUR_SET1, FOUR_FMA)

#ifdef __x86_64__
#include <immintrin.h>
BURST(burst_avx2, __attribute__((target("avx2,fma"))), __m256, 8, _mm256_set1_ps, _mm256_fmadd_ps)
BURST(burst_avx512, __attribute__((target("avx512f"))), __m512, 16, _mm512_set1_ps, _mm512_fmadd_ps)

/* pairs of bf16, summed in f32 */
#define PAIRS_FMA(c, a, b) _mm512_dpbf16_ps(c, (__m512bh)(a), (__m512bh)(b))
BURST(burst_pairs, __attribute__((target("avx512f,avx512bf16"))), __m512, 32, _mm512_set1_ps, PAIRS_FMA)

typedef struct tile_config { /* Intel SDM vol. 1, 18.3 */
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

/* Four sums of 16 x 16 over 32 numbers each, from two tiles of rows and two of columns. */
__attribute__((target("amx-tile,amx-bf16"))) static double burst_tiles(int64_t rounds, float *sink)
{
    tile_config c = { .palette = 1 };
    for (int i = 0; i < 8; i++) {
        c.row_bytes[i] = 64;
        c.rows[i] = 16;
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(c));
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    rounds /= 16; /* as long as the others take */
    for (int64_t i = 0; i < rounds; i++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_release();
    sink[0] = (float)rounds;
    return 2.0 * 16 * 16 * 32 * 4 * (double)rounds;
}
#endif

typedef struct job {
    double (*burst)(int64_t, float *);
    int64_t rounds;
    double flops[256];
    float sink[256][CHAINS];
} job;

static void one(void *context, int64_t begin, int64_t end, int worker)
{
    (void)worker;
    job *j = context;
    for (int64_t i = begin; i < end; i++)
        j->flops[i] = j->burst(j->rounds, j->sink[i]);
}

double ls_cpu_peak_rate(const ls_arch *arch, ls_dtype type, int threads, int attempts)
{
    job j = { 0 }; /* 14 KiB */
    j.burst = burst_generic;
#ifdef __x86_64__
    const ls_isa isa = ls_isa_of(arch);
    if (type == LS_BF16 && isa >= LS_ISA_AVX512BF16)
        j.burst = isa >= LS_ISA_AMX ? burst_tiles : burst_pairs;
    else if (isa >= LS_ISA_AVX512)
        j.burst = burst_avx512;
    else if (isa == LS_ISA_AVX2)
        j.burst = burst_avx2;
#else
    (void)arch;
    (void)type;
#endif
    threads = threads < 256 ? threads : 256;
    double best = 0;
    j.rounds = 1000000; /* 2 to 20 ms */
    for (int attempt = 0; attempt < attempts; attempt++) {
        const double t = ls_now();
        ls_parallel_for(threads, threads, one, &j);
        double flops = 0;
        for (int i = 0; i < threads; i++)
            flops += j.flops[i];
        const double rate = flops / (ls_now() - t);
        best = rate > best ? rate : best;
    }
    return best;
}
