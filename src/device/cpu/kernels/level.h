/* level.h - the instruction set that the kernels are compiled for. Every .c file of this folder is compiled
 * once for each level, with -DLS_LEVEL=avx2 -DLS_LEVEL_avx2=1 and so on. Every name that is not static is
 * written LS_NAME(x), which becomes x_avx2, so that one binary contains all levels.
 *
 * `workspace` and `supports` must depend on a->arch, never on VF_LANES or LS_LEVEL_*: a plan for another
 * machine asks the generic build, which certainly runs here, about that machine's level. `run` may use
 * everything that its level has. */
#pragma once
#include "device/cpu/isa.h"

#define LS_NAME_CAT_(x, level) x##_##level
#define LS_NAME_CAT(x, level) LS_NAME_CAT_(x, level)
#define LS_NAME(x) LS_NAME_CAT(x, LS_LEVEL)

#if defined(LS_LEVEL_amx) || defined(LS_LEVEL_avx512bf16)
#define LS_SIMD_512 1
#define LS_BF16_PAIRS 1 /* vdpbf16ps, or tiles: products of bf16 take elements in pairs */
#elif defined(LS_LEVEL_avx512)
#define LS_SIMD_512 1
#elif defined(LS_LEVEL_avx2)
#define LS_SIMD_256 1
#else
#define LS_SIMD_128 1
#endif

/* The two tables of a level. Each ends with a row whose op is NULL; they are searched in this order. */
extern const ls_kernel LS_NAME(ls_gemm_kernels)[]; /* gemm.c: linear, linear_dx, linear_dw */
extern const ls_kernel LS_NAME(ls_math_kernels)[]; /* table.c: everything else */
