/* mma.h - products of small matrices by a warp on tensor cores, for CUDA and for the emulator. All 32 threads
 * of the warp take part in each call.
 *
 *   MMA(X, d, a, b)             d += a * b in f32; X: bf16, f16 (16 x 8, depth 16) or tf32 (16 x 8, depth 8)
 *   LDMATRIX(r, row)            u32 r[4]: four matrices of 8 rows of 16 bytes of shared memory
 *   LDMATRIX_TRANS(r, row)      the same, and each matrix of u16 is transposed
 *   PAIR(X, lo, hi)             two floats rounded to nearest even, as one u32 of a fragment
 *   tf32_of(x)                  a float rounded to tf32 (to nearest, ties away from 0), as bits for MMA(tf32)
 *
 * With g = lane / 4 and t = lane % 4, a thread has
 *
 *   float d[4]                  d[0], d[1]: row g, columns 2t, 2t + 1;  d[2], d[3]: row g + 8
 *   bf16, f16: u32 a[4]         a[0]: row g, depth 2t, 2t + 1 (low half first); a[1]: row g + 8;
 *                               a[2], a[3]: the same at depth 2t + 8
 *              u32 b[2]         b[0]: column g, depth 2t, 2t + 1;  b[1]: depth 2t + 8
 *   tf32:      u32 a[4]         a[0]: row g, depth t;  a[1]: row g + 8;  a[2], a[3]: depth t + 4
 *              u32 b[2]         b[0]: column g, depth t;  b[1]: depth t + 4
 *
 * So two neighbouring d of 16 x 8 make an a of depth 16: a[0] = PAIR(d[0], d[1]), a[1] = PAIR(d[2], d[3]),
 * and a[2], a[3] from the second d.
 *
 * LDMATRIX: lane l gives the address of row l % 8 of matrix l / 8, a multiple of 16. r[m] is what this thread
 * has of matrix m: u32 number t of row g; transposed: u16 of rows 2t and 2t + 1 (low half first) in column g.
 * (PTX ISA, "Matrix multiply-accumulate operation using mma instruction", "ldmatrix".)
 *
 * A tensor core's order of the sum over depth is not documented, so other devices agree within rounding only;
 * on one GPU the bits are always the same. */
#pragma once
#include "dialect.h"

#define MMA(type, d, a, b) JOIN_(mma_, type)(d, a, b)
#define PAIR(type, lo, hi) JOIN_(pair_, type)(lo, hi)

#if defined(__CUDACC__)

#define MMA_FUNCTION(name, text)                                                                       \
    DEVICE void name(float *d, const u32 *a, const u32 *b)                                             \
    {                                                                                                  \
        asm volatile("mma.sync.aligned." text " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                  \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));              \
    }
MMA_FUNCTION(mma_bf16, "m16n8k16.row.col.f32.bf16.bf16.f32")
MMA_FUNCTION(mma_f16, "m16n8k16.row.col.f32.f16.f16.f32")
MMA_FUNCTION(mma_tf32, "m16n8k8.row.col.f32.tf32.tf32.f32")

#define LDMATRIX_FUNCTION(name, text)                                                        \
    DEVICE void name(u32 *r, const void *row)                                                \
    {                                                                                        \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" text ".shared.b16 {%0,%1,%2,%3}, [%4];" \
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                        \
                     : "r"(shared_address(row))                                              \
                     : "memory");                                                            \
    }
LDMATRIX_FUNCTION(LDMATRIX, "")
LDMATRIX_FUNCTION(LDMATRIX_TRANS, ".trans")

DEVICE u32 pair_bf16(float lo, float hi)
{
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
DEVICE u32 pair_f16(float lo, float hi)
{
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
DEVICE u32 tf32_of(float x)
{
    u32 r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
}

#else

/* numbers of depth k in the u32 of a fragment */
DEVICE float mma_get_bf16(u32 x, int k) { return float_of(k & 1 ? x & 0xffff0000u : x << 16); }
DEVICE float mma_get_f16(u32 x, int k) { return f16_to_float((f16){ (u16)(k & 1 ? x >> 16 : x) }); }
/* A tensor core ignores the low 13 bits of a float. */
DEVICE float mma_get_tf32(u32 x, int k)
{
    (void)k;
    return float_of(x & ~0x1fffu);
}

/* half: depth that a[0], a[1] and b[0] of a row's four threads have, `each` per thread. */
#define MMA_FUNCTION(name, get, half, each)                                            \
    DEVICE void name(float *d, const u32 *a, const u32 *b, const char *file, int line) \
    {                                                                                  \
        const u32 mine[6] = { a[0], a[1], a[2], a[3], b[0], b[1] };                    \
        const char(*all)[64] = emulated_warp(mine, sizeof mine, file, line);           \
        const int g = THREAD % 32 / 4, t = THREAD % 4;                                 \
        float rows[2][2 * (half)], columns[2][2 * (half)];                             \
        for (int k = 0; k < 2 * (half); k++) {                                         \
            const int part = k / (half), lane = k % (half) / (each);                   \
            for (int i = 0; i < 2; i++) {                                              \
                u32 x, y;                                                              \
                memcpy(&x, all[g * 4 + lane] + 4 * (i + 2 * part), sizeof x);          \
                memcpy(&y, all[(2 * t + i) * 4 + lane] + 4 * (4 + part), sizeof y);    \
                rows[i][k] = get(x, k);                                                \
                columns[i][k] = get(y, k);                                             \
            }                                                                          \
        }                                                                              \
        for (int e = 0; e < 4; e++) {                                                  \
            double sum = d[e];                                                         \
            for (int k = 0; k < 2 * (half); k++)                                       \
                sum += (double)rows[e / 2][k] * columns[e % 2][k];                     \
            d[e] = (float)sum;                                                         \
        }                                                                              \
    }
MMA_FUNCTION(emulated_mma_bf16, mma_get_bf16, 8, 2)
MMA_FUNCTION(emulated_mma_f16, mma_get_f16, 8, 2)
MMA_FUNCTION(emulated_mma_tf32, mma_get_tf32, 4, 1)
#define mma_bf16(d, a, b) emulated_mma_bf16(d, a, b, __FILE__, __LINE__)
#define mma_f16(d, a, b) emulated_mma_f16(d, a, b, __FILE__, __LINE__)
#define mma_tf32(d, a, b) emulated_mma_tf32(d, a, b, __FILE__, __LINE__)

DEVICE void emulated_ldmatrix(u32 *r, const void *row, int trans, const char *file, int line)
{
    emulated_aligned(row, 16, "LDMATRIX", file, line);
    const char(*all)[64] = emulated_warp(&row, sizeof row, file, line);
    const int g = THREAD % 32 / 4, t = THREAD % 4;
    for (int m = 0; m < 4; m++) {
        const u16 *first, *second;
        memcpy(&first, all[m * 8 + (trans ? 2 * t : g)], sizeof first);
        memcpy(&second, all[m * 8 + (trans ? 2 * t + 1 : g)], sizeof second);
        r[m] = trans ? first[g] | (u32)second[g] << 16 : first[2 * t] | (u32)second[2 * t + 1] << 16;
    }
}
#define LDMATRIX(r, row) emulated_ldmatrix(r, row, 0, __FILE__, __LINE__)
#define LDMATRIX_TRANS(r, row) emulated_ldmatrix(r, row, 1, __FILE__, __LINE__)

DEVICE u32 pair_bf16(float lo, float hi)
{
    const u32 l = is_nan(lo) ? 0x7fffu : bf16_of_float(lo).bits,
              h = is_nan(hi) ? 0x7fffu : bf16_of_float(hi).bits;
    return l | h << 16;
}
DEVICE u32 pair_f16(float lo, float hi)
{
    const u32 l = is_nan(lo) ? 0x7fffu : f16_of_float(lo).bits,
              h = is_nan(hi) ? 0x7fffu : f16_of_float(hi).bits;
    return l | h << 16;
}
DEVICE u32 tf32_of(float x)
{
    const u32 b = bits_of(x);
    return is_nan(x) ? 0x7fffffffu : (b & 0x7f800000u) == 0x7f800000u ? b : (b + 0x1000u) & ~0x1fffu;
}

#endif
