/* emulator.h - the dialect of kernels (src/device/gpu/kernels/dialect.h) in C11, for the emulator. A thread
 * of a block is a fiber; a barrier and an operation of a warp switch to another one, in drawn order. */
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct emulated_place {
    int thread, threads;
    long long block, blocks;
} emulated_place;
/* of the fiber that runs */
extern _Thread_local emulated_place *emulated_here;

typedef struct emulated_kernel {
    const char *name;
    void (*run)(const void *args, void *shared);
    size_t args, shared;
    int threads;
} emulated_kernel;

void emulated_barrier(const char *file, int line);
/* Every thread of the warp gives `bytes` (at most 64), and gets what all 32 gave, until its next call. */
const char (*emulated_warp(const void *mine, size_t bytes, const char *file, int line))[64];
/* The process ends, with a message, unless the address is a multiple of `bytes`. */
void emulated_aligned(const void *address, size_t bytes, const char *word, const char *file, int line);
void emulated_copy_16(void *to, const void *from, const char *file, int line);
void emulated_copy_commit(void);
void emulated_copy_wait(int newest);
/* Runs all blocks, and returns when they are done. What a kernel must not do ends the process, with a
 * message. The seed draws the order of blocks and threads. */
void emulated_launch(const emulated_kernel *k, long long blocks, const void *args, uint64_t seed);
/* How often threads took turns, in this process. */
uint64_t emulated_switches(void);

/* Addresses of device memory have this bit, so the host cannot read there. */
#define EMULATED_DEVICE (UINT64_C(1) << 55)

#define DEVICE static inline __attribute__((unused))
#define KERNEL_FACTS(kernel, count, bytes) u32 kernel##_facts[2] = { (count), (u32)(bytes) };
#define KERNEL(kernel, arguments, count)                                                              \
    KERNEL_FACTS(kernel, count, 0)                                                                    \
    static void kernel##_body(arguments a);                                                           \
    static void kernel##_run(const void *p, void *shared)                                             \
    {                                                                                                 \
        arguments a;                                                                                  \
        (void)shared;                                                                                 \
        memcpy(&a, p, sizeof a);                                                                      \
        kernel##_body(a);                                                                             \
    }                                                                                                 \
    const emulated_kernel kernel##_emulated = { #kernel, kernel##_run, sizeof(arguments), 0, count }; \
    static void kernel##_body(arguments a)
#define KERNEL_SHARED(kernel, arguments, count, type)                                                   \
    KERNEL_FACTS(kernel, count, sizeof(type))                                                           \
    static void kernel##_body(arguments a, type *s);                                                    \
    static void kernel##_run(const void *p, void *shared)                                               \
    {                                                                                                   \
        arguments a;                                                                                    \
        memcpy(&a, p, sizeof a);                                                                        \
        kernel##_body(a, (type *)shared);                                                               \
    }                                                                                                   \
    const emulated_kernel kernel##_emulated = { #kernel, kernel##_run, sizeof(arguments), sizeof(type), \
                                                count };                                                \
    static void kernel##_body(arguments a, type *s)
#define ALIGNED(bytes) __attribute__((aligned(bytes), may_alias))
#define UNROLL
#define THREAD (emulated_here->thread)
#define THREADS (emulated_here->threads)
#define BLOCK (emulated_here->block)
#define BLOCKS (emulated_here->blocks)
#define AT(type, address) ((type *)(uintptr_t)((address) & ~EMULATED_DEVICE))
#define BARRIER() emulated_barrier(__FILE__, __LINE__)
#define WARP_FROM(v, from)                                                                       \
    (__extension__({                                                                             \
        __typeof__(v) emulated_v = (v);                                                          \
        const int emulated_from = (from)&31;                                                     \
        memcpy(&emulated_v,                                                                      \
               emulated_warp(&emulated_v, sizeof emulated_v, __FILE__, __LINE__)[emulated_from], \
               sizeof emulated_v);                                                               \
        emulated_v;                                                                              \
    }))
#define WARP_XOR(v, mask) WARP_FROM(v, (THREAD & 31) ^ (mask))
#define COPY_16(to, from) emulated_copy_16(to, from, __FILE__, __LINE__)
#define COPY_COMMIT() emulated_copy_commit()
#define COPY_WAIT(n) emulated_copy_wait(n)
#define fma_(a, b, c) fmaf(a, b, c)
#define fma_64(a, b, c) fma(a, b, c)
#define sqrt_(x) sqrtf(x)
#define max_(a, b) emulated_max(a, b)
#define min_(a, b) emulated_min(a, b)
#define abs_(x) fabsf(x)
#define floor_(x) floorf(x)
static inline unsigned int bits_of(float x)
{
    unsigned int b;
    memcpy(&b, &x, sizeof b);
    return b;
}
static inline float float_of(unsigned int b)
{
    float x;
    memcpy(&x, &b, sizeof x);
    return x;
}
/* As PTX says: a NaN gives way to a number, and -0 is less than 0. */
static inline float emulated_max(float a, float b)
{
    if (a != a || b != b)
        return a == a ? a : b == b ? b : float_of(0x7fffffffu);
    return a == b ? (bits_of(a) >> 31 ? b : a) : a > b ? a : b;
}
static inline float emulated_min(float a, float b)
{
    if (a != a || b != b)
        return a == a ? a : b == b ? b : float_of(0x7fffffffu);
    return a == b ? (bits_of(a) >> 31 ? a : b) : a < b ? a : b;
}
