/* dialect.h - the language of kernels for GPUs: C without templates, and the words below. One text is CUDA
 * C++, compiled when a kernel is first used, and C11 for the emulator of tests/gpu, which runs each thread of
 * a block by itself.
 *
 *   KERNEL(name, struct args, threads) { ... }          a kernel; its arguments are `a`
 *   KERNEL_SHARED(name, struct args, threads, type)     the same; `s` points to the block's shared memory
 *   DEVICE float f(float x) { ... }                     a function of kernels
 *   THREAD, THREADS                                     the thread's number in its block; threads of a block
 *   BLOCK, BLOCKS                                       the block's number; blocks of the launch
 *   AT(const u16, a.x)                                  the pointer of an address in `a`
 *   BARRIER()                                           all threads of the block wait for each other here
 *   WARP_XOR(v, mask)  WARP_FROM(v, lane)               the value v of a thread of the same warp (32 threads)
 *   COPY_16(to, from)  COPY_COMMIT()  COPY_WAIT(n)      16 bytes to shared memory, complete after a later
 *                                                       wait, which leaves the n newest groups in flight
 *   LOAD(type, pointer, index), STORE(type, ...)        element -> float, and back; type: f32, bf16, f16, or
 *                                                       a macro
 *   fma_(a, b, c)                                       the only place where a product is not rounded
 *   sqrt_, max_, min_, abs_, floor_                     IEEE; max_ and min_ ignore NaN
 *
 * All threads of a warp must reach a warp's operation, and all of a block a barrier. There are no atomics on
 * floats, so results do not depend on the order of blocks. CUDA compiles with -fmad=false, and division and
 * square root are IEEE, so both compilers give the same bits. math.h has exp, log, tanh and others made of
 * such operations: never use the compiler's. */
#pragma once
#include "types.h"

#if defined(__CUDACC__)

#define DEVICE static __device__ __forceinline__
/* threads and bytes of shared memory of a kernel, for the host that launches it */
#define KERNEL_FACTS(name, threads, shared)                        \
    extern "C" {                                                   \
    __device__ u32 name##_facts[2] = { (threads), (u32)(shared) }; \
    }
#define KERNEL(name, args, threads) \
    KERNEL_FACTS(name, threads, 0)  \
    extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ args a)
#define KERNEL_SHARED(name, args, threads, type)                                               \
    KERNEL_FACTS(name, threads, sizeof(type))                                                  \
    DEVICE void name##_body(const args &a, type *s);                                           \
    extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ args a) \
    {                                                                                          \
        extern __shared__ __align__(128) u8 shared_[];                                         \
        name##_body(a, (type *)shared_);                                                       \
    }                                                                                          \
    DEVICE void name##_body(const args &a, type *s)
#define ALIGNED(bytes) __align__(bytes)
#define UNROLL _Pragma("unroll")
#define THREAD ((int)threadIdx.x)
#define THREADS ((int)blockDim.x)
#define BLOCK ((i64)blockIdx.x)
#define BLOCKS ((i64)gridDim.x)
#define AT(type, address) ((type *)(address))
#define BARRIER() __syncthreads()
#define WARP_XOR(v, mask) __shfl_xor_sync(0xffffffffu, v, mask)
#define WARP_FROM(v, lane) __shfl_sync(0xffffffffu, v, lane)
DEVICE u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }
DEVICE void copy_16(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
#define COPY_16(to, from) copy_16(to, from)
#define COPY_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define COPY_WAIT(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")
#define fma_(a, b, c) __fmaf_rn(a, b, c)
#define fma_64(a, b, c) __fma_rn(a, b, c)
#define sqrt_(x) __fsqrt_rn(x)
#define max_(a, b) fmaxf(a, b)
#define min_(a, b) fminf(a, b)
#define abs_(x) fabsf(x)
#define floor_(x) floorf(x)
DEVICE u32 bits_of(float x) { return __float_as_uint(x); }
DEVICE float float_of(u32 b) { return __uint_as_float(b); }

#else
#include "emulator.h" /* tests/gpu */
#endif

/* ---- numbers as they are stored */

typedef float f32;
typedef struct bf16 {
    u16 bits;
} bf16;
typedef struct f16 {
    u16 bits;
} f16;

DEVICE float f32_to_float(f32 x) { return x; }
DEVICE f32 f32_of_float(float x) { return x; }
DEVICE float bf16_to_float(bf16 x) { return float_of((u32)x.bits << 16); }
/* to nearest even; a NaN stays one */
DEVICE bf16 bf16_of_float(float x)
{
    const u32 b = bits_of(x);
    bf16 r;
    r.bits = (b & 0x7fffffffu) > 0x7f800000u ? (u16)(b >> 16 | 64)
                                             : (u16)((b + 0x7fffu + (b >> 16 & 1)) >> 16);
    return r;
}
DEVICE float f16_to_float(f16 h)
{
    const u32 sign = (u32)(h.bits & 0x8000u) << 16, magnitude = h.bits & 0x7fffu;
    if (magnitude >= 0x7c00u)
        return float_of(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
    /* 2^112 moves the exponent, and makes numbers below the smallest normal one right */
    return float_of(sign | bits_of(float_of(magnitude << 13) * float_of(0x77800000u)));
}
DEVICE f16 f16_of_float(float x)
{
    const u32 b = bits_of(x), sign = b >> 16 & 0x8000u, magnitude = b & 0x7fffffffu;
    f16 r;
    if (magnitude > 0x7f800000u)
        r.bits = (u16)(sign | 0x7e00u | (magnitude >> 13 & 0x3ffu));
    else if (magnitude >= 0x477ff000u) /* 65520 and more round to infinity */
        r.bits = (u16)(sign | 0x7c00u);
    else if (magnitude >= 0x38800000u) /* normal: 2^-14 and more */
        r.bits = (u16)(sign | ((magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1)) >> 13));
    else /* the addition of 0.5 rounds to the steps of numbers below: 2^-24 */
        r.bits = (u16)(sign | (bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u));
    return r;
}

/* The name of a type may be a macro that the host defined in front of the file. */
#define JOIN_(a, b) a##b
#define TO_FLOAT(type, x) JOIN_(type, _to_float)(x)
#define OF_FLOAT(type, x) JOIN_(type, _of_float)(x)
#define LOAD(type, p, i) TO_FLOAT(type, (p)[i])
#define STORE(type, p, i, x) ((p)[i] = OF_FLOAT(type, x))
/* as the type would store it */
#define ROUNDED(type, x) TO_FLOAT(type, OF_FLOAT(type, x))

enum { WARP = 32 };
DEVICE float infinity_(void) { return float_of(0x7f800000u); }
DEVICE float nan_(void) { return float_of(0x7fc00000u); }
DEVICE int is_nan(float x) { return (bits_of(x) & 0x7fffffffu) > 0x7f800000u; }

/* ---- sums over a warp and a block, in fixed trees: every thread gets the result */

DEVICE float warp_sum(float v)
{
    for (int mask = WARP / 2; mask; mask /= 2) {
        const float other = WARP_XOR(v, mask);
        v = v + other;
    }
    return v;
}
DEVICE float warp_max(float v)
{
    for (int mask = WARP / 2; mask; mask /= 2) {
        const float other = WARP_XOR(v, mask);
        v = max_(v, other);
    }
    return v;
}
/* parts: shared memory for WARP floats. Nobody may write it before the block's next barrier. */
DEVICE float block_sum(float v, float *parts)
{
    v = warp_sum(v);
    if (THREAD % WARP == 0)
        parts[THREAD / WARP] = v;
    BARRIER();
    float t = 0;
    for (int w = 0; w < THREADS / WARP; w++)
        t = t + parts[w];
    return t;
}
DEVICE float block_max(float v, float *parts)
{
    v = warp_max(v);
    if (THREAD % WARP == 0)
        parts[THREAD / WARP] = v;
    BARRIER();
    float t = parts[0];
    for (int w = 1; w < THREADS / WARP; w++)
        t = max_(t, parts[w]);
    return t;
}
