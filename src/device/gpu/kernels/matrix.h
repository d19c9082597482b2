/* matrix.h - chunks of 16 bytes; a plain matrix as the left or the right side of product.h; 8 neighbours of a
 * row, which a thread finishes at once. ELEMENT is the type of all. */
#pragma once
#include "mma.h"

typedef struct ALIGNED(16) chunk {
    u32 v[4];
} chunk;
/* A compiler does not always make one access of a struct's copy. */
#if defined(__CUDACC__)
DEVICE chunk chunk_load(const void *p)
{
    const uint4 x = *(const uint4 *)p;
    chunk c;
    c.v[0] = x.x;
    c.v[1] = x.y;
    c.v[2] = x.z;
    c.v[3] = x.w;
    return c;
}
DEVICE void chunk_store(void *p, chunk c) { *(uint4 *)p = make_uint4(c.v[0], c.v[1], c.v[2], c.v[3]); }
/* to global memory */
DEVICE void chunk_store_out(void *p, chunk c)
{
    asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(p), "r"(c.v[0]), "r"(c.v[1]), "r"(c.v[2]),
                 "r"(c.v[3])
                 : "memory");
}
#else
DEVICE chunk chunk_load(const void *p) { return *(const chunk *)p; }
DEVICE void chunk_store(void *p, chunk c) { *(chunk *)p = c; }
DEVICE void chunk_store_out(void *p, chunk c) { *(chunk *)p = c; }
#endif

#define JOIN_NAME(a, b) JOIN_(a, b)
enum { CHUNK = 16 / (int)sizeof(ELEMENT) };

/* One side of a product: `outer` is m or n. */
typedef struct matrix {
    const ELEMENT *p;
    i64 ld;           /* elements from line to line; a line follows depth, or outer */
    i64 outer, depth; /* sizes */
} matrix;
typedef struct matrix_place {
    const ELEMENT *p; /* of the first line, or at outer in line 0 */
    i64 left;         /* what is left of outer, from here on; at most 0: outside */
} matrix_place;

DEVICE matrix_place matrix_at(const matrix *x, int along_k, i64 outer)
{
    matrix_place p;
    p.p = x->p + (along_k ? outer * x->ld : outer);
    p.left = x->outer - outer;
    return p;
}

DEVICE void chunk_zero(chunk *to) { to->v[0] = to->v[1] = to->v[2] = to->v[3] = 0; }

/* n elements (those behind are zero) that follow each other in global memory, one by one */
DEVICE void chunk_gather(const ELEMENT *from, i64 n, chunk *to)
{
    const int per = CHUNK / 4; /* elements of a u32 */
    for (int i = 0; i < 4; i++) {
        u32 v = 0;
        for (int e = 0; e < per; e++)
            if (i * per + e < n)
                v |= (u32)(per == 1 ? ((const u32 *)from)[i] : ((const u16 *)from)[i * per + e]) << 16 * e;
        to->v[i] = v;
    }
}

/* whole: base, ld and sizes are multiples of 16 bytes */
DEVICE void matrix_fetch(const matrix *x, int along_k, int whole, const matrix_place *p, i64 k, chunk *to)
{
    const ELEMENT *from = p->p + (along_k ? k : k * x->ld);
    if (p->left <= 0 || k >= x->depth)
        chunk_zero(to);
    else if (whole)
        COPY_16(to, from);
    else
        chunk_gather(from, along_k ? x->depth - k : p->left, to);
}

/* ---- 8 neighbours of a row */

/* p: a multiple of 16 bytes */
DEVICE void floats_load(const float *p, float *v)
{
    const chunk lo = chunk_load(p), hi = chunk_load(p + 4);
    for (int i = 0; i < 4; i++) {
        v[i] = float_of(lo.v[i]);
        v[i + 4] = float_of(hi.v[i]);
    }
}
/* to global memory */
DEVICE void floats_store(float *p, const float *v)
{
    chunk lo, hi;
    for (int i = 0; i < 4; i++) {
        lo.v[i] = bits_of(v[i]);
        hi.v[i] = bits_of(v[i + 4]);
    }
    chunk_store_out(p, lo);
    chunk_store_out(p + 4, hi);
}

DEVICE void eight_load_f32(const f32 *p, float *v) { floats_load(p, v); }
DEVICE void eight_store_f32(f32 *p, const float *v) { floats_store(p, v); }
#define EIGHT(type)                                         \
    DEVICE void eight_load_##type(const type *p, float *v)  \
    {                                                       \
        const chunk c = chunk_load(p);                      \
        for (int i = 0; i < 4; i++) {                       \
            type lo, hi;                                    \
            lo.bits = (u16)c.v[i];                          \
            hi.bits = (u16)(c.v[i] >> 16);                  \
            v[2 * i] = TO_FLOAT(type, lo);                  \
            v[2 * i + 1] = TO_FLOAT(type, hi);              \
        }                                                   \
    }                                                       \
    DEVICE void eight_store_##type(type *p, const float *v) \
    {                                                       \
        chunk c;                                            \
        for (int i = 0; i < 4; i++)                         \
            c.v[i] = PAIR(type, v[2 * i], v[2 * i + 1]);    \
        chunk_store_out(p, c);                              \
    }
EIGHT(bf16)
EIGHT(f16)

/* n of 8 exist. whole: p is a multiple of 16 bytes if all 8 exist */
DEVICE void eight_load(const ELEMENT *p, i64 n, int whole, float *v)
{
    if (whole && n >= 8)
        JOIN_NAME(eight_load_, ELEMENT)(p, v);
    else
        for (int i = 0; i < 8; i++)
            v[i] = i < n ? LOAD(ELEMENT, p, i) : 0.0f;
}
DEVICE void eight_store(ELEMENT *p, i64 n, int whole, const float *v)
{
    if (whole && n >= 8)
        JOIN_NAME(eight_store_, ELEMENT)(p, v);
    else
        for (int i = 0; i < 8; i++)
            if (i < n)
                STORE(ELEMENT, p, i, v[i]);
}
