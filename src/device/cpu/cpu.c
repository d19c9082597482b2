/* cpu.c - the CPU device: two tables of kernels for each instruction set that was compiled
 * (kernels/level.h). */
#include "device/device.h"

#define LEVEL(level)                                                                                     \
    extern const ls_kernel ls_gemm_kernels_##level[], ls_math_kernels_##level[];                         \
    static const ls_kernel *const level##_tables[] = { ls_gemm_kernels_##level, ls_math_kernels_##level, \
                                                       NULL };

#ifdef LS_HAVE_generic
LEVEL(generic)
#endif
#ifdef LS_HAVE_avx2
LEVEL(avx2)
#endif
#ifdef LS_HAVE_avx512
LEVEL(avx512)
#endif
#ifdef LS_HAVE_avx512bf16
LEVEL(avx512bf16)
#endif
#ifdef LS_HAVE_amx
LEVEL(amx)
#endif

static const ls_kernel *const *tables(ls_isa level)
{
    static const ls_kernel *const *const by_level[LS_ISA_COUNT] = {
#ifdef LS_HAVE_generic
        [LS_ISA_GENERIC] = generic_tables,
#endif
#ifdef LS_HAVE_avx2
        [LS_ISA_AVX2] = avx2_tables,
#endif
#ifdef LS_HAVE_avx512
        [LS_ISA_AVX512] = avx512_tables,
#endif
#ifdef LS_HAVE_avx512bf16
        [LS_ISA_AVX512BF16] = avx512bf16_tables,
#endif
#ifdef LS_HAVE_amx
        [LS_ISA_AMX] = amx_tables,
#endif
    };
    return by_level[level];
}

const ls_device_ops ls_device_cpu = { .name = "cpu", .tables = tables, .computes = true };
