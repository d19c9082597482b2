/* level.h - which build of the kernels this is. Every .c of this folder is compiled once per instruction-set
 * level with -DLS_LEVEL=avx2 -DLS_LEVEL_avx2=1 and so on; everything non-static is named LS_NAME(x), which
 * becomes x_avx2, so that one binary carries them all.
 *
 * `workspace` and `supports` functions must follow a->isa (never VF_LANES or LS_LEVEL_*): a plan for another
 * machine asks the generic build, the only one that certainly runs here, about the level of that machine.
 * `run` may use whatever its level has. */
#pragma once
#include "device/device.h"

#define LS_NAME_CAT_(x, level) x##_##level
#define LS_NAME_CAT(x, level) LS_NAME_CAT_(x, level)
#define LS_NAME(x) LS_NAME_CAT(x, LS_LEVEL)

#if defined(LS_LEVEL_avx512bf16) || defined(LS_LEVEL_avx512)
#define LS_SIMD_512 1
#elif defined(LS_LEVEL_avx2)
#define LS_SIMD_256 1
#else
#define LS_SIMD_128 1
#endif

/* The two tables of a level, each ended by a row with op NULL; searched in this order. */
extern const ls_kernel LS_NAME(ls_gemm_kernels)[]; /* gemm.c: linear, linear_dx, linear_dw */
extern const ls_kernel LS_NAME(ls_math_kernels)[]; /* table.c: everything else */
